// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two engines that are connected, and the loop that moves them.
//!
//! In: posts. Out: completions. Time is a number that each drive moves on by [`STEP_NANOS`]. So a
//! run does the same instructions every time; its cost is measured from outside.

use anyhow::{Context as _, Result, bail, ensure};
use ofi_xdp_core::{
    Access, AtomicForm, AtomicOp, AtomicRequest, Budget, ChecksumCoverage, Common, Config, Context,
    Datatype, Engine, Identity, Instant, PeerAddress, PeerId, PortLimits, ReadRequest, RecvRequest,
    RegionRequest, Remote, SendRequest, StorageBox, TagMatch, WriteRequest, drive,
};
use ofi_xdp_test_kit::counted::{Arena, Buffer, Copied};
use ofi_xdp_test_kit::queue::limits;
use ofi_xdp_test_kit::ring::{PAYLOAD_MAX, Ring, RingPort};

use crate::line::LinePort;
use crate::mark;

/// The time that passes with one drive.
const STEP_NANOS: u64 = 500;
/// Drives without progress after which the pair has failed.
const IDLE_DRIVES_MAX: u32 = 1_000_000;
/// Operations that can be outstanding on each side.
pub(crate) const OPERATIONS: u32 = 1024;
/// Bytes of arena that each operation has to itself.
pub(crate) const BUFFER_LEN: usize = 2048;

/// One side.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) engine: Engine<'static>,
    pub(crate) memory: Arena,
    pub(crate) peer: PeerId,
    /// The key of this side's arena.
    key: u64,
}

/// Both sides and the lines between them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) nodes: [Node; 2],
    lines: [Ring; 2],
    coverage: ChecksumCoverage,
    now: u64,
}

/// The configuration of both sides.
pub(crate) fn config() -> Config {
    Config {
        peers: 16,
        connections: 16,
        sends: OPERATIONS,
        recvs: OPERATIONS,
        ..Config::new(ofi_xdp_checksum::crc32c)
    }
}

fn address(side: usize) -> PeerAddress {
    PeerAddress::from_v4([198, 18, 0, if side == 0 { 1 } else { 2 }], 7000)
}

impl Node {
    fn new(side: usize, config: &Config, coverage: ChecksumCoverage) -> Result<Self> {
        // A process measures once: its storage lives as long as it does.
        let storage = Box::leak(Box::new(StorageBox::new(config).expect("memory"))).lend();
        let word = side as u64 + 1;
        let identity = Identity { key: word.into() };
        let limits = PortLimits { coverage, ..limits(PAYLOAD_MAX) };
        let mut engine = Engine::new(config, storage, identity, limits)?;
        let peer = engine.insert_peer(address(1 - side))?;
        let len = BUFFER_LEN * OPERATIONS as usize * 2;
        let all = RegionRequest { key: None, address: 0, len: len as u64, access: Access::all() };
        let (_, key) = engine.register_region(&all)?;
        Ok(Self { engine, memory: Arena::new(len, config), peer, key })
    }

    /// The buffer of operation `number` (modulo the most outstanding operations).
    pub(crate) fn buffer(number: u64) -> Buffer {
        Buffer((number % u64::from(OPERATIONS)) as usize * BUFFER_LEN)
    }

    /// Receives lie behind the buffers of the operations that send.
    fn recv_buffer(number: u64) -> Buffer {
        Buffer(Self::buffer(number).0 + OPERATIONS as usize * BUFFER_LEN)
    }
}

impl Pair {
    /// Two engines, connected.
    ///
    /// # Errors When they cannot be built or do not connect.
    pub(crate) fn new() -> Result<Self> {
        Self::with(&config())
    }

    /// Two engines, connected by kernel sockets.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn by_kernel() -> Result<Self> {
        Self::connected(&config(), ChecksumCoverage::Head)
    }

    /// Two engines of a configuration, connected.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn with(config: &Config) -> Result<Self> {
        Self::connected(config, ChecksumCoverage::Whole)
    }

    fn connected(config: &Config, coverage: ChecksumCoverage) -> Result<Self> {
        let mut pair = Self {
            nodes: [Node::new(0, config, coverage)?, Node::new(1, config, coverage)?],
            lines: [Ring::default(), Ring::default()],
            coverage,
            now: 1 << 20,
        };
        for side in [0, 1] {
            pair.recv(1 - side, 0)?;
            pair.send(side, 0, 8, false)?;
            pair.until(|pair| {
                pair.nodes[side].engine.poll_send_completion().is_some()
                    && pair.nodes[1 - side].engine.poll_recv_completion().is_some()
            })?;
        }
        Ok(pair)
    }

    /// Data packets and acknowledgments sent so far, by both.
    pub(crate) fn packets(&self) -> (u64, u64) {
        let stats = self.nodes.each_ref().map(|node| *node.engine.stats());
        let data: u64 = stats.iter().map(|s| s.data_packets_sent + s.retransmissions).sum();
        (data, stats.iter().map(|s| s.acks_sent).sum())
    }

    /// Bytes copied so far, on both sides together.
    pub(crate) fn copied(&self) -> Copied {
        let [one, other] = self.nodes.each_ref().map(|node| node.memory.copied());
        Copied { gathered: one.gathered + other.gathered, placed: one.placed + other.placed }
    }

    /// Posts message `number` of `len` bytes.
    pub(crate) fn send(&mut self, side: usize, number: u64, len: u64, more: bool) -> Result<()> {
        self.send_tagged(side, number, (len, None), more)
    }

    /// Posts message `number` with a length and a tag.
    // Inlined: callers with a constant tag are measured.
    #[inline(always)]
    pub(crate) fn send_tagged(
        &mut self,
        side: usize,
        number: u64,
        (len, tag): (u64, Option<u64>),
        more: bool,
    ) -> Result<()> {
        let now = Instant::from_nanos(self.now);
        let node = &mut self.nodes[side];
        let common = Common { more, ..Common::new(node.peer, Context(number)) };
        let request = SendRequest { common, len, tag, data: None };
        let (engine, memory) = (&mut node.engine, &mut node.memory);
        mark::post_send(|| engine.post_send(now, request, Node::buffer(number), memory))?;
        Ok(())
    }

    /// The part of the other side's arena for operation `number`, behind that side's own buffers.
    fn remote(&self, side: usize, number: u64) -> Remote {
        let address = Node::recv_buffer(number).0 as u64;
        Remote { key: self.nodes[1 - side].key, address }
    }

    /// Posts write `number` of `len` bytes.
    pub(crate) fn write(&mut self, side: usize, number: u64, len: u64, more: bool) -> Result<()> {
        let remote = self.remote(side, number);
        let now = Instant::from_nanos(self.now);
        let node = &mut self.nodes[side];
        let common = Common { more, ..Common::new(node.peer, Context(number)) };
        let request = WriteRequest { common, len, remote, data: None };
        node.engine.post_write(now, request, Node::buffer(number), &mut node.memory)?;
        Ok(())
    }

    /// Posts read `number` of `len` bytes.
    pub(crate) fn read(&mut self, side: usize, number: u64, len: u64, more: bool) -> Result<()> {
        let remote = self.remote(side, number);
        let now = Instant::from_nanos(self.now);
        let node = &mut self.nodes[side];
        let common = Common { more, ..Common::new(node.peer, Context(number)) };
        let request = ReadRequest { common, len, remote };
        node.engine.post_read(now, request, Node::buffer(number), &mut node.memory)?;
        Ok(())
    }

    /// Posts a fetching addition of 64 bits.
    pub(crate) fn fetch_add(&mut self, side: usize, number: u64, more: bool) -> Result<()> {
        let remote = self.remote(side, number);
        let now = Instant::from_nanos(self.now);
        let node = &mut self.nodes[side];
        let common = Common { more, ..Common::new(node.peer, Context(number)) };
        let (form, datatype, op) = (AtomicForm::Fetch, Datatype::Uint64, AtomicOp::Sum);
        let request = AtomicRequest { common, remote, form, datatype, op, count: 1 };
        node.engine.post_atomic(now, request, Node::buffer(number), &mut node.memory)?;
        Ok(())
    }

    /// Posts receive `number`.
    pub(crate) fn recv(&mut self, side: usize, number: u64) -> Result<()> {
        self.recv_tagged(side, number, None, None)
    }

    /// Posts receive `number` for a source and tags.
    // Inlined, as `send_tagged`.
    #[inline(always)]
    pub(crate) fn recv_tagged(
        &mut self,
        side: usize,
        number: u64,
        from: Option<PeerId>,
        tag: Option<TagMatch>,
    ) -> Result<()> {
        let node = &mut self.nodes[side];
        let (len, context) = (BUFFER_LEN as u64, Context(number));
        let request = RecvRequest { from, len, context, tag, signal: true };
        node.engine.post_recv(request, Node::recv_buffer(number), &mut node.memory)?;
        Ok(())
    }

    /// One progress call of one side.
    pub(crate) fn drive(&mut self, side: usize, budget: Budget) -> Result<()> {
        self.now += STEP_NANOS;
        let [first, second] = &mut self.lines;
        let (incoming, outgoing) = if side == 0 { (second, first) } else { (first, second) };
        let (from, coverage) = (address(1 - side), self.coverage);
        let port = RingPort { incoming, outgoing, from, coverage };
        let mut port = LinePort { port, side };
        let Node { engine, memory, .. } = &mut self.nodes[side];
        drive(engine, &mut port, memory, Instant::from_nanos(self.now), budget)?;
        Ok(())
    }

    /// Takes one finished send of a side, if there is one. A failed one is an error.
    pub(crate) fn sent(&mut self, side: usize) -> Result<bool> {
        let Some(completion) =
            mark::poll_completion(|| self.nodes[side].engine.poll_send_completion())
        else {
            return Ok(false);
        };
        completion.outcome.with_context(|| format!("operation {}", completion.context.0))?;
        Ok(true)
    }

    /// Takes one finished receive of a side; returns its number and the length of the message.
    pub(crate) fn received(&mut self, side: usize) -> Result<Option<(u64, u64)>> {
        let Some(completion) =
            mark::poll_completion(|| self.nodes[side].engine.poll_recv_completion())
        else {
            return Ok(None);
        };
        completion.outcome.with_context(|| format!("receive {}", completion.context.0))?;
        Ok(Some((completion.context.0, completion.len)))
    }

    /// Drives both until `done` returns true.
    fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) -> Result<()> {
        for _ in 0..IDLE_DRIVES_MAX {
            for side in [0, 1] {
                self.drive(side, Budget::PROGRESS)?;
            }
            if done(self) {
                return Ok(());
            }
        }
        bail!("the engines made no progress")
    }

    /// Fails when nothing has moved for too many drives.
    pub(crate) fn check_progress(idle: u32) -> Result<()> {
        ensure!(idle < IDLE_DRIVES_MAX, "the engines made no progress");
        Ok(())
    }
}
