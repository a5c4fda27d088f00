// SPDX-License-Identifier: MIT OR Apache-2.0
//! An engine under test: its memory, and the operations it owes an end.
//!
//! In: the calls of an application, received packets, time. Out: packets. After every call the
//! engine's own audit must hold, and a packet that was refused must have left no trace.

use std::collections::{HashMap, VecDeque};

use ofi_xdp_core::{
    Access, AtomicForm, AtomicOp, AtomicRequest, Budget, Common, Completion, Config, Context,
    Datagram, Datatype, DropReason, Engine, Identity, Instant, OpError, OpId, OpKind, Order,
    PeerAddress, PeerId, PostError, ReadRequest, RecvId, RecvRequest, RegionId, RegionRequest,
    Remote, SendRequest, StorageBox, TagMatch, WantedPort, WriteRequest, drive,
};
use ofi_xdp_test_kit::memory::{Buffer, CANARY, CheckedMemory};
use ofi_xdp_test_kit::packet::{PacketId, PacketPool, address, coverage_of};
use ofi_xdp_test_kit::queue::{QueuePort, limits};

/// The largest packet.
pub const PAYLOAD_MAX: usize = 512;

/// Reasons to drop a packet that are found before anything changes.
const PURE: &[DropReason] = &[
    DropReason::Truncated,
    DropReason::Version,
    DropReason::Authentication,
    DropReason::Kind,
    DropReason::Checksum,
    DropReason::Unprotected,
    DropReason::Malformed,
    DropReason::UnknownConnection,
    DropReason::WrongSource,
    DropReason::WrongToken,
    DropReason::Stale,
    DropReason::AckOfUnsent,
    DropReason::UnprovenReset,
];

/// Small pools, so that they run out.
#[must_use]
pub fn config() -> Config {
    Config {
        peers: 4,
        connections: 4,
        sends: 16,
        recvs: 16,
        assemblies: 4,
        unexpected: [4, 2, 1, 1],
        regions: 2,
        responders: 6,
        rendezvous_reads: 2,
        port_packets: 64,
        reorder_pages: 1,
        pieced: 2,
        events: 16,
        eager_max: 2048,
        order: Order::RAW | Order::WAW | Order::SAW,
        peer_timeout: std::time::Duration::from_millis(400),
        ..Config::new(crc32c::crc32c_append)
    }
}

/// The name of a posted operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Posted {
    Op(OpId),
    Recv(RecvId),
}

/// An engine and its posted operations.
#[derive(Debug)]
pub struct Node<'s> {
    /// The engine.
    pub engine: Engine<'s>,
    memory: CheckedMemory,
    number: u32,
    /// Operations that have not ended, by context.
    owed: HashMap<u64, Posted>,
    contexts: u64,
    region: RegionId,
    /// The key that peers use.
    pub key: u64,
    /// Additions that ended well, and remote CQ data that was reported.
    pub added: u64,
    /// See `added`.
    pub remote_writes: u64,
}

/// Bytes of a node's region. The first eight are a number to add to.
pub const REGION_LEN: u64 = 4096;
/// The address of its first byte.
pub const REGION_ADDRESS: u64 = 1 << 40;

fn region_request() -> RegionRequest {
    RegionRequest { key: None, address: REGION_ADDRESS, len: REGION_LEN, access: Access::all() }
}

/// A one-sided operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OneSided {
    /// A write, with or without remote CQ data.
    Write {
        /// Whether the target gets a completion.
        data: bool,
    },
    /// A read.
    Read,
    /// The number at the beginning of the region grows by one.
    FetchAdd,
}

impl<'s> Node<'s> {
    /// Node `number`, in `store`.
    ///
    /// # Panics
    /// When the configuration is wrong.
    pub fn new(store: &'s mut StorageBox, config: &Config, number: u32) -> Self {
        let word = u64::from(number) * 2 + 1;
        let identity = Identity { key: word.into() };
        let mut engine =
            Engine::new(config, store.lend(), identity, limits(PAYLOAD_MAX)).expect("sizes fit");
        let mut memory = CheckedMemory::new(config);
        let (region, key) = engine.register_region(&region_request()).expect("room for a region");
        memory.add_region(region, vec![0; REGION_LEN as usize]);
        Self {
            engine,
            memory,
            number,
            owed: HashMap::new(),
            contexts: 0,
            region,
            key,
            added: 0,
            remote_writes: 0,
        }
    }

    /// Takes the region back and registers it again, under another key.
    ///
    /// # Panics
    /// When there is no room for it.
    pub fn renew_region(&mut self) {
        self.engine.deregister_region(self.region).expect("it is registered");
        let bytes = self.memory.take_region(self.region).expect("it was added");
        let (region, key) = self.engine.register_region(&region_request()).expect("its own slot");
        assert_ne!(key, self.key, "an old key must not open the new region");
        self.memory.add_region(region, bytes);
        (self.region, self.key) = (region, key);
        self.audit();
    }

    /// The number at the beginning of the region.
    ///
    /// # Panics
    /// When there is no region.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let bytes = self.memory.region(self.region).expect("it is registered");
        u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
    }

    /// The peer that is node `number`, if the table has room for it.
    pub fn peer(&mut self, number: u32) -> Option<PeerId> {
        self.engine.insert_peer(address(number)).ok()
    }

    fn context(&mut self) -> Context {
        self.contexts += 1;
        Context(self.contexts)
    }

    /// Posts a message of `len` bytes and says which.
    ///
    /// # Errors
    /// The engine's.
    pub fn send(
        &mut self,
        now: u64,
        peer: PeerId,
        len: usize,
        tag: Option<u64>,
        (data, more): (bool, bool),
    ) -> Result<u64, PostError> {
        let context = self.context();
        let common = Common { more, ..Common::new(peer, context) };
        let data = data.then_some(len as u64);
        let request = SendRequest { common, len: len as u64, tag, data };
        let buffer = Buffer::new(context.0, pattern(len), Vec::new());
        let now = Instant::from_nanos(now);
        let op = self.engine.post_send(now, request, buffer, &mut self.memory)?;
        self.owed.insert(context.0, Posted::Op(op));
        self.audit();
        Ok(context.0)
    }

    /// Posts a one-sided operation on `len` bytes at `offset` of a peer's region.
    ///
    /// # Errors
    /// The engine's.
    pub fn one_sided(
        &mut self,
        now: u64,
        (peer, key): (PeerId, u64),
        what: OneSided,
        (offset, len): (u64, usize),
        fence: bool,
    ) -> Result<(), PostError> {
        let context = self.context();
        let common = Common { fence, ..Common::new(peer, context) };
        let now = Instant::from_nanos(now);
        let remote = Remote { key, address: REGION_ADDRESS + offset };
        let bytes = vec![0x5a; len];
        let memory = &mut self.memory;
        let op = match what {
            OneSided::Write { data } => {
                let data = data.then_some(context.0);
                let request = WriteRequest { common, len: len as u64, remote, data };
                let buffer = Buffer::new(context.0, bytes, Vec::new());
                self.engine.post_write(now, request, buffer, memory)?
            }
            OneSided::Read => {
                let request = ReadRequest { common, len: len as u64, remote };
                let buffer = Buffer::new(context.0, Vec::new(), bytes);
                self.engine.post_read(now, request, buffer, memory)?
            }
            OneSided::FetchAdd => {
                let remote = Remote { key, address: REGION_ADDRESS };
                let (form, datatype, op) = (AtomicForm::Fetch, Datatype::Uint64, AtomicOp::Sum);
                let request = AtomicRequest { common, remote, form, datatype, op, count: 1 };
                let buffer = Buffer::new(context.0, 1u64.to_le_bytes().to_vec(), vec![0; 8]);
                self.engine.post_atomic(now, request, buffer, memory)?
            }
        };
        self.owed.insert(context.0, Posted::Op(op));
        self.audit();
        Ok(())
    }

    /// Posts a receive of `len` bytes and says which.
    ///
    /// # Errors
    /// The engine's.
    pub fn recv(
        &mut self,
        from: Option<PeerId>,
        len: usize,
        tag: Option<TagMatch>,
    ) -> Result<u64, PostError> {
        let context = self.context();
        let request = RecvRequest { from, len: len as u64, context, tag, signal: true };
        let buffer = Buffer::incoming(context.0, len as u64);
        let id = self.engine.post_recv(request, buffer, &mut self.memory)?;
        self.owed.insert(context.0, Posted::Recv(id));
        self.audit();
        Ok(context.0)
    }

    /// Cancels a receive; one that matched is left alone.
    pub fn cancel(&mut self, context: u64) -> bool {
        let found = self.engine.cancel(Context(context));
        self.audit();
        found
    }

    /// Hands a packet in.
    ///
    /// # Panics
    /// When a packet that was refused has changed something.
    pub fn ingest(&mut self, now: u64, from: PeerAddress, bytes: &[u8]) {
        let before = (self.pure_drops(), self.digest(now));
        let datagram = Datagram {
            coverage: coverage_of(bytes),
            from,
            bytes,
            congestion_experienced: false,
            wanted: WantedPort::KEEP,
            to_group: false,
        };
        self.engine.ingest(Instant::from_nanos(now), datagram, &mut self.memory);
        if self.pure_drops() != before.0 {
            assert_eq!(
                self.digest(now),
                before.1,
                "a packet that was dropped has changed something"
            );
        }
        self.audit();
    }

    /// Advances time and sends all packets that are ready.
    ///
    /// # Panics
    /// When a rule does not hold.
    pub fn drive(&mut self, now: u64, packets: &mut PacketPool, sent: &mut Vec<PacketId>) {
        let mut port = QueuePort {
            node: self.number,
            limits: limits(PAYLOAD_MAX),
            packets,
            // The targets hand packets to the engine themselves.
            inbox: &mut VecDeque::new(),
            out: sent,
            receive_max: 0,
            card: None,
            room: || true,
        };
        let now = Instant::from_nanos(now);
        let progress = drive(&mut self.engine, &mut port, &mut self.memory, now, Budget::PROGRESS)
            .expect("this port does not fail");
        assert!(progress.transmitted <= Budget::PROGRESS.tx_packets);
        self.audit();
    }

    /// Takes all completions; each must be expected, once. With `strict`, received messages must be
    /// equal to the sent ones.
    ///
    /// # Panics
    /// When one is not.
    pub fn poll(&mut self, strict: bool) {
        self.poll_each(strict, |_| ());
    }

    /// [`Self::poll`], and `each` gets the completions.
    ///
    /// # Panics
    /// As [`Self::poll`].
    pub fn poll_each(&mut self, strict: bool, mut each: impl FnMut(&Completion)) {
        while let Some(completion) = self.engine.poll_send_completion() {
            each(&completion);
            let Some(Posted::Op(id)) = self.owed.remove(&completion.context.0) else {
                panic!("{completion:?} is not owed");
            };
            self.memory.take_op(id).expect("its buffer");
            let good = completion.kind == OpKind::Atomic && completion.outcome.is_ok();
            self.added += u64::from(good);
        }
        while let Some(completion) = self.engine.poll_recv_completion() {
            if completion.kind == OpKind::RemoteWrite {
                self.remote_writes += 1;
                continue;
            }
            let Some(Posted::Recv(id)) = self.owed.remove(&completion.context.0) else {
                panic!("{completion:?} is not owed");
            };
            let buffer = self.memory.take_recv(id).expect("its buffer");
            each(&completion);
            if strict {
                check_received(&completion, &buffer);
            }
        }
        self.audit();
    }

    /// Ends a connection as an endpoint does that is shut down: its operations end in error.
    pub fn end_connected(&mut self, peer: PeerId) {
        // An error means that the connection has ended before.
        let _ = self.engine.remove_peer(peer);
        self.engine.cancel_from(peer);
        self.audit();
    }

    /// Ends a connection as an endpoint does that is closed: `contexts` are its operations, whose
    /// buffers the engine must not touch any more.
    ///
    /// # Panics
    /// When an operation is not owed, or its buffer is gone.
    pub fn remove_connected(&mut self, peer: PeerId, contexts: &[u64]) {
        self.end_connected(peer);
        self.engine.discard_completions(peer, drop);
        for context in contexts {
            match self.owed.remove(context).expect("it has not ended") {
                Posted::Op(id) => drop(self.memory.take_op(id).expect("its buffer")),
                Posted::Recv(id) => drop(self.memory.take_recv(id).expect("its buffer")),
            }
        }
        self.audit();
    }

    /// Operations that have not ended.
    #[must_use]
    pub fn owed(&self) -> usize {
        self.owed.len()
    }

    /// Cancels every receive that waits for a message.
    pub fn cancel_all(&mut self) {
        let mut contexts: Vec<u64> = self.owed.keys().copied().collect();
        contexts.sort_unstable();
        for context in contexts {
            self.cancel(context);
        }
    }

    fn pure_drops(&self) -> u64 {
        PURE.iter().map(|&reason| self.engine.stats().dropped(reason)).sum()
    }

    /// Everything that the protocol remembers, as one number.
    fn digest(&mut self, now: u64) -> u64 {
        self.engine.digest(Instant::from_nanos(now))
    }

    /// The engine's own rules.
    fn audit(&mut self) {
        if let Err(violation) = self.engine.audit() {
            panic!("{violation}");
        }
    }
}

/// Bytes of a message: they follow from its length.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ len) as u8).collect()
}

/// The received bytes are those of the sent message, as far as it fits, and no byte behind them has
/// changed.
fn check_received(completion: &Completion, buffer: &[u8]) {
    assert!(matches!(completion.kind, OpKind::Recv { .. }), "{completion:?}");
    let whole = matches!(completion.outcome, Ok(()) | Err(OpError::Truncated));
    if !whole {
        return;
    }
    let len = completion.len as usize;
    let total = len + completion.overflow as usize;
    assert_eq!(buffer[..len], pattern(total)[..len], "bytes that were not sent");
    assert!(buffer[len..].iter().all(|&byte| byte == CANARY), "bytes behind the message");
    assert!(completion.data.is_none_or(|data| data == total as u64), "{completion:?}");
}
