// SPDX-License-Identifier: MIT OR Apache-2.0
//! A few engines on virtual time, joined by a link that loses, repeats, delays and damages packets.
//!
//! A run follows from one seed. Application memory is a vector for each operation, so that a
//! misplaced byte is a failed comparison. The configuration of each test sizes the storage.

#![allow(dead_code, reason = "each test file uses a part")]

use ofi_xdp_core::wire::{self, PacketKind};
use ofi_xdp_core::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// `SplitMix64`.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn percent(&mut self, p: f64) -> bool {
        (self.next() >> 11) as f64 / ((1u64 << 53) as f64) * 100.0 < p
    }
}

/// Faults of the link, in per cent; delays in ns.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub loss: f64,
    pub duplicate: f64,
    pub corrupt: f64,
    pub delay: u64,
    pub jitter: u64,
}

impl Faults {
    pub const NONE: Self =
        Self { loss: 0.0, duplicate: 0.0, corrupt: 0.0, delay: 2_000, jitter: 0 };
}

/// The place of a receive's bytes: a buffer, shared by the slices of a multi-receive buffer, and an
/// offset.
#[derive(Clone)]
struct Room {
    bytes: Rc<RefCell<Vec<u8>>>,
    start: usize,
}

/// The memory of an engine.
#[derive(Default)]
pub struct Buffers {
    sends: HashMap<u32, (OpId, Vec<u8>)>,
    /// Bytes that reads and fetching atomics brought back, by operation slot.
    pub incoming: HashMap<u32, (OpId, Vec<u8>)>,
    pub regions: HashMap<RegionId, Vec<u8>>,
    pub keys: HashMap<u64, RegionId>,
    former: HashMap<OpId, Vec<u8>>,
    recvs: HashMap<u32, (RecvId, Room)>,
    store: Vec<u8>,
    config: Option<Config>,
    pub placed: u64,
    /// Whether more bytes were to follow, for each gathered and for each placed piece.
    pub gathered_more: Vec<bool>,
    pub placed_more: Vec<bool>,
    /// Receives of the shared queue.
    pub shared: VecDeque<(RecvRequest, Vec<u8>)>,
}

impl Buffers {
    fn range(&self, id: UnexpectedId, offset: u64, len: usize) -> std::ops::Range<usize> {
        let (start, room) = self.config.as_ref().unwrap().unexpected_range(id);
        assert!(offset + len as u64 <= room, "outside the slot");
        let start = (start + offset) as usize;
        start..start + len
    }

    pub fn take_recv(&mut self, slot: u32) -> Vec<u8> {
        self.recvs.remove(&slot).unwrap().1.bytes.take()
    }

    /// Offset and bytes of a slice of a multi-receive buffer.
    pub fn part(&self, id: RecvId, len: u64) -> (usize, Vec<u8>) {
        let (recv, Room { bytes, start }) = &self.recvs[&id.slot()];
        assert_eq!(*recv, id, "another message's place");
        (*start, bytes.borrow()[*start..*start + len as usize].to_vec())
    }
}

impl Memory for Buffers {
    type Buffer = Vec<u8>;

    fn attach_op(&mut self, op: OpId, buffer: Vec<u8>) {
        self.incoming.insert(op.slot(), (op, buffer.clone()));
        self.sends.insert(op.slot(), (op, buffer));
    }

    fn attach_recv(&mut self, recv: RecvId, buffer: Vec<u8>) {
        let room = Room { bytes: Rc::new(RefCell::new(buffer)), start: 0 };
        self.recvs.insert(recv.slot(), (recv, room));
    }

    fn attach_slice(&mut self, part: RecvId, of: RecvId, offset: u64) {
        let (recv, room) = &self.recvs[&of.slot()];
        assert_eq!(*recv, of, "another receive's buffer");
        let room = Room { start: offset as usize, ..room.clone() };
        self.recvs.insert(part.slot(), (part, room));
    }

    fn claim_shared_receive(
        &mut self,
        arrival: &UnmatchedMessage,
    ) -> Option<(RecvRequest, Vec<u8>)> {
        if arrival.overtakes || !arrival.room { None } else { self.shared.pop_front() }
    }

    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        self.gathered_more.push(from.more);
        let buffer = match from.source {
            Source::Op(id) => {
                let (op, buffer) = &self.sends[&id.slot()];
                assert_eq!(*op, id, "another operation's buffer");
                buffer
            }
            Source::Region(id) => &self.regions[&id],
            Source::PreviousValue(id) => &self.former[&id],
        };
        let at = from.offset as usize;
        into.copy_from_slice(&buffer[at..at + into.len()]);
    }

    fn place(&mut self, at: Placement, bytes: &[u8]) {
        self.placed += bytes.len() as u64;
        self.placed_more.push(at.more);
        let buffer = match at.target {
            Target::Recv(id) => {
                let (recv, room) = self.recvs.get_mut(&id.slot()).unwrap();
                assert_eq!(*recv, id, "another operation's buffer");
                let start = room.start + at.offset as usize;
                room.bytes.borrow_mut()[start..start + bytes.len()].copy_from_slice(bytes);
                return;
            }
            Target::Op(id) => {
                let (op, buffer) = self.incoming.get_mut(&id.slot()).unwrap();
                assert_eq!(*op, id, "another operation's buffer");
                buffer
            }
            Target::Region(id) => self.regions.get_mut(&id).unwrap(),
            Target::Unexpected(id) => {
                let range = self.range(id, at.offset, bytes.len());
                self.store[range].copy_from_slice(bytes);
                return;
            }
        };
        let start = at.offset as usize;
        buffer[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn atomic(&mut self, access: AtomicAccess<'_>) {
        let start = access.offset as usize;
        let memory = &mut self.regions.get_mut(&access.region).unwrap()[start..start + access.len];
        if let Some(id) = access.previous {
            self.former.insert(id, memory.to_vec());
        }
        access.op.apply(access.datatype, memory, access.operands, access.compare);
    }

    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64) {
        let range = self.range(from, 0, len as usize);
        let (recv, Room { bytes, start }) = self.recvs.get_mut(&to.slot()).unwrap();
        assert_eq!(*recv, to, "another operation's buffer");
        bytes.borrow_mut()[*start..*start + len as usize].copy_from_slice(&self.store[range]);
    }
}

/// Packets in flight, by time of arrival.
pub struct Link {
    pub faults: Faults,
    pub rng: Rng,
    under_way: BTreeMap<(u64, u64), (usize, PeerAddress, Vec<u8>)>,
    sequence: u64,
    pub packets: u64,
    /// Each packet that was sent, if a test wants to see them.
    pub tap: Option<Vec<(PeerAddress, PeerAddress, Vec<u8>)>>,
    /// Addresses without a link.
    pub cut: Vec<PeerAddress>,
    /// Whether data packets and acknowledgments carry an unknown flag.
    pub strange: bool,
}

impl Link {
    fn send(&mut self, now: u64, from: PeerAddress, to: PeerAddress, mut bytes: Vec<u8>) {
        self.packets += 1;
        if self.strange && [PacketKind::Data as u8, PacketKind::Ack as u8].contains(&bytes[1]) {
            bytes[2] |= 0x80;
            wire::seal(&mut bytes, crc32c::crc32c_append);
        }
        if let Some(tap) = &mut self.tap {
            tap.push((from, to, bytes.clone()));
        }
        let copies = 1 + usize::from(self.rng.percent(self.faults.duplicate));
        for _ in 0..copies {
            if self.rng.percent(self.faults.loss)
                || self.cut.contains(&from)
                || self.cut.contains(&to)
            {
                continue;
            }
            if self.rng.percent(self.faults.corrupt) {
                let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let jitter =
                if self.faults.jitter > 0 { self.rng.below(self.faults.jitter) } else { 0 };
            self.sequence += 1;
            let key = (now + self.faults.delay + jitter, self.sequence);
            self.under_way.insert(key, (node_of(to), from, bytes.clone()));
        }
    }

    /// Delivers a packet that a test has made.
    pub fn inject(&mut self, now: u64, from: PeerAddress, to: PeerAddress, bytes: Vec<u8>) {
        self.sequence += 1;
        self.under_way.insert((now, self.sequence), (node_of(to), from, bytes));
    }
}

pub fn address(node: usize) -> PeerAddress {
    PeerAddress::from_v4([198, 18, 0, node as u8 + 1], 7000)
}

fn node_of(address: PeerAddress) -> usize {
    address.octets()[15] as usize - 1
}

/// One engine's end of the link.
pub struct SimPort<'a> {
    node: usize,
    now: u64,
    link: &'a mut Link,
    payload_max: usize,
}

impl Port for SimPort<'_> {
    fn receive(
        &mut self,
        _now: Instant,
        budget: u16,
        sink: &mut impl FnMut(Datagram<'_>),
    ) -> Result<u16, PortError> {
        let due: Vec<_> = self
            .link
            .under_way
            .iter()
            .filter(|((at, _), (to, ..))| *at <= self.now && *to == self.node)
            .map(|(key, _)| *key)
            .take(usize::from(budget))
            .collect();
        for key in &due {
            let (_, from, bytes) = self.link.under_way.remove(key).unwrap();
            sink(Datagram { from, bytes: &bytes, congestion_experienced: false });
        }
        Ok(due.len() as u16)
    }

    fn transmit(
        &mut self,
        fill: impl FnOnce(&mut [u8]) -> Option<Transmit>,
    ) -> Result<Transmitted, PortError> {
        let mut packet = vec![0xee; self.payload_max];
        let Some(sent) = fill(&mut packet) else { return Ok(Transmitted::Nothing) };
        packet.truncate(sent.len);
        self.link.send(self.now, address(self.node), sent.to.address, packet);
        Ok(Transmitted::Sent)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn limits(&self) -> PortLimits {
        limits(self.payload_max)
    }
}

pub fn limits(payload_max: usize) -> PortLimits {
    PortLimits { payload_max, receive_max: payload_max, window_packets: 256 }
}

/// An engine, its memory, and its completions.
pub struct Node {
    pub engine: Engine<'static>,
    pub memory: Buffers,
    pub completions: Vec<Completion>,
    pub payload_max: usize,
    slots: HashMap<u64, u32>,
    received: HashMap<u64, Vec<u8>>,
    /// Slices of multi-receive buffers, in the order of their completions: the receive's context,
    /// the offset in the buffer, the bytes.
    pub parts: Vec<(u64, (usize, Vec<u8>))>,
    /// Whether completions stay unpolled.
    unpolled: bool,
}

impl Node {
    /// A node with an engine in leaked storage: tests are short.
    pub fn new(config: &Config, incarnation: u64, seed: u64, payload_max: usize) -> Self {
        let storage = Box::leak(Box::new(StorageBox::new(config))).lend();
        let identity = Identity { incarnation, seed };
        let engine = Engine::new(config, storage, identity, limits(payload_max)).unwrap();
        let memory = Buffers {
            store: vec![0; config.unexpected_bytes() as usize],
            config: Some(config.clone()),
            ..Buffers::default()
        };
        Self {
            engine,
            memory,
            completions: Vec::new(),
            payload_max,
            slots: HashMap::new(),
            received: HashMap::new(),
            parts: Vec::new(),
            unpolled: false,
        }
    }
}

/// The engines, the link and the clock.
pub struct World {
    pub now: u64,
    pub nodes: Vec<Node>,
    pub link: Link,
    /// Posts read the clock only where the time matters ([`Engine::time_under_way`]).
    pub frugal: bool,
}

/// A receive of any untagged message.
pub fn any(context: u64, len: usize) -> RecvRequest {
    let context = Context(context);
    RecvRequest { from: None, len: len as u64, context, tag: None, signal: true }
}

/// A small configuration, so that pools run out in tests, and messages of 100,000 bytes go by
/// rendezvous.
pub fn small() -> Config {
    Config {
        peers: 8,
        connections: 8,
        sends: 128,
        recvs: 128,
        slices: 8,
        assemblies: 32,
        unexpected: [64, 16, 8, 2],
        regions: 8,
        responders: 32,
        rendezvous_reads: 4,
        events: 32,
        eager_max: 32 << 10,
        peer_timeout: Duration::from_secs(10),
        ..Config::new(crc32c::crc32c_append)
    }
}

impl World {
    pub fn new(nodes: usize, seed: u64, config: &Config, faults: Faults) -> Self {
        let mut rng = Rng(seed);
        let nodes =
            (0..nodes).map(|_| Node::new(config, rng.next() | 1, rng.next(), 1472)).collect();
        let link = Link {
            faults,
            rng: Rng(rng.next()),
            under_way: BTreeMap::new(),
            sequence: 0,
            packets: 0,
            tap: None,
            cut: Vec::new(),
            strange: false,
        };
        // The start is not time zero: clocks on the wire must wrap in some runs.
        Self { now: rng.next() >> 20, nodes, link, frugal: false }
    }

    pub fn time(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    pub fn peer(&mut self, from: usize, to: usize) -> PeerId {
        self.nodes[from].engine.insert_peer(address(to)).unwrap()
    }

    pub fn send_with(
        &mut self,
        from: usize,
        to: usize,
        request: impl FnOnce(&mut SendRequest),
        bytes: Vec<u8>,
    ) -> Result<OpId, PostError> {
        let peer = self.peer(from, to);
        let mut wanted = SendRequest {
            common: Common::new(peer, Context(0)),
            len: bytes.len() as u64,
            tag: None,
            data: None,
        };
        request(&mut wanted);
        let now = self.time();
        let node = &mut self.nodes[from];
        let known = node.engine.time_under_way(peer).filter(|_| self.frugal);
        let now = known.unwrap_or(now);
        let posted = node.engine.post_send(now, wanted, bytes, &mut node.memory);
        self.drive(from, Budget::POST);
        posted
    }

    pub fn send(&mut self, from: usize, to: usize, context: u64, bytes: Vec<u8>) {
        self.send_with(from, to, |r| r.common.context = Context(context), bytes).unwrap();
    }

    /// Registers memory of a node, filled with 0xaa.
    pub fn region(&mut self, node: usize, address: u64, len: usize, access: Access) -> Remote {
        let node = &mut self.nodes[node];
        let request = RegionRequest { key: None, address, len: len as u64, access };
        let (id, key) = node.engine.register_region(&request).unwrap();
        node.memory.regions.insert(id, vec![0xaa; len]);
        node.memory.keys.insert(key, id);
        Remote { key, address }
    }

    pub fn region_id(&self, node: usize, key: u64) -> RegionId {
        self.nodes[node].memory.keys[&key]
    }

    pub fn region_bytes(&self, node: usize, key: u64) -> Vec<u8> {
        self.nodes[node].memory.regions[&self.region_id(node, key)].clone()
    }

    pub fn set_region(&mut self, node: usize, key: u64, bytes: &[u8]) {
        let id = self.region_id(node, key);
        self.nodes[node].memory.regions.insert(id, bytes.to_vec());
    }

    pub fn write(
        &mut self,
        from: usize,
        to: usize,
        context: u64,
        remote: Remote,
        data: Option<u64>,
        bytes: Vec<u8>,
    ) {
        let common = Common::new(self.peer(from, to), Context(context));
        let request = WriteRequest { common, len: bytes.len() as u64, remote, data };
        let now = self.time();
        let node = &mut self.nodes[from];
        node.engine.post_write(now, request, bytes, &mut node.memory).unwrap();
        self.drive(from, Budget::POST);
    }

    pub fn read(
        &mut self,
        from: usize,
        to: usize,
        context: u64,
        remote: Remote,
        len: usize,
    ) -> OpId {
        self.read_with(from, to, |r| r.common.context = Context(context), remote, len)
    }

    pub fn read_with(
        &mut self,
        from: usize,
        to: usize,
        request: impl FnOnce(&mut ReadRequest),
        remote: Remote,
        len: usize,
    ) -> OpId {
        let common = Common::new(self.peer(from, to), Context(0));
        let mut wanted = ReadRequest { common, len: len as u64, remote };
        request(&mut wanted);
        let now = self.time();
        let node = &mut self.nodes[from];
        let id = node.engine.post_read(now, wanted, vec![0xcc; len], &mut node.memory).unwrap();
        self.drive(from, Budget::POST);
        id
    }

    pub fn fetch_add(
        &mut self,
        from: usize,
        to: usize,
        context: u64,
        remote: Remote,
        operand: u64,
    ) -> OpId {
        let request = AtomicRequest {
            common: Common::new(self.peer(from, to), Context(context)),
            remote,
            form: AtomicForm::Fetch,
            datatype: Datatype::Uint64,
            op: AtomicOp::Sum,
            count: 1,
        };
        let now = self.time();
        let node = &mut self.nodes[from];
        let operand = operand.to_le_bytes().to_vec();
        let id = node.engine.post_atomic(now, request, operand, &mut node.memory).unwrap();
        self.drive(from, Budget::POST);
        id
    }

    pub fn recv_with(
        &mut self,
        node: usize,
        len: usize,
        request: impl FnOnce(&mut RecvRequest),
    ) -> Result<RecvId, PostError> {
        let mut wanted = any(0, len);
        request(&mut wanted);
        let node = &mut self.nodes[node];
        let id = node.engine.post_recv(wanted, vec![0xcc; len], &mut node.memory)?;
        node.slots.insert(wanted.context.0, id.slot());
        Ok(id)
    }

    /// Posts a multi-receive buffer.
    pub fn multi_recv(
        &mut self,
        node: usize,
        (len, least): (usize, u64),
        request: impl FnOnce(&mut RecvRequest),
    ) -> Result<RecvId, PostError> {
        let mut wanted = any(0, len);
        request(&mut wanted);
        let node = &mut self.nodes[node];
        node.engine.post_multi_recv(wanted, least, vec![0xcc; len], &mut node.memory)
    }

    pub fn recv(&mut self, node: usize, context: u64, len: usize) {
        self.recv_with(node, len, |r| r.context = Context(context)).unwrap();
    }

    /// The buffer of a completed receive. Contexts are unique within a test that calls this.
    pub fn received(&mut self, node: usize, context: u64) -> Vec<u8> {
        self.nodes[node].received.remove(&context).unwrap()
    }

    pub fn audit(&mut self) {
        for (n, node) in self.nodes.iter_mut().enumerate() {
            assert_eq!(node.engine.audit(), Ok(()), "node {n} at {}", self.now);
        }
    }

    pub fn drive(&mut self, node: usize, budget: Budget) {
        let now = self.time();
        let Node { engine, memory, payload_max, completions, slots, received, parts, unpolled } =
            &mut self.nodes[node];
        let mut port =
            SimPort { node, now: self.now, link: &mut self.link, payload_max: *payload_max };
        drive(engine, &mut port, memory, now, budget).unwrap();
        if *unpolled {
            return;
        }
        while let Some(completion) = engine.poll_send_completion() {
            completions.push(completion);
        }
        while let Some(completion) = engine.poll_recv_completion() {
            let context = completion.context.0;
            if let Some(part) = completion.slice {
                parts.push((context, memory.part(part, completion.len)));
            } else if completion.kind != OpKind::RemoteWrite
                && let Some(slot) = slots.remove(&context)
            {
                received.insert(context, memory.take_recv(slot));
            }
            completions.push(completion);
        }
    }

    /// Runs while the completions of one node are not polled.
    pub fn run_unpolled(&mut self, node: usize, duration: Duration) {
        self.set_unpolled(node, true);
        self.run(duration);
        self.set_unpolled(node, false);
    }

    /// Stops or resumes the polling of a node's completions.
    pub fn set_unpolled(&mut self, node: usize, unpolled: bool) {
        self.nodes[node].unpolled = unpolled;
    }

    /// Moves time to the next event; returns false if there is none.
    pub fn step(&mut self) -> bool {
        let arrival = self.link.under_way.keys().next().map(|&(at, _)| at);
        let timer =
            self.nodes.iter().filter_map(|n| n.engine.poll_at()).min().map(Instant::as_nanos);
        let busy = self.nodes.iter().any(|n| n.engine.wants_transmit());
        let next = if busy { Some(self.now) } else { arrival.into_iter().chain(timer).min() };
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        for node in 0..self.nodes.len() {
            self.drive(node, Budget::PROGRESS);
        }
        self.audit();
        true
    }

    /// Runs for at most `duration`, until `done`, or until no event is left.
    pub fn run_until(&mut self, duration: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + duration.as_nanos() as u64;
        while !done(self) {
            if self.now > end || !self.step() {
                return done(self);
            }
        }
        true
    }

    pub fn run(&mut self, duration: Duration) {
        self.run_until(duration, |_| false);
    }

    pub fn completions(&mut self, node: usize) -> Vec<Completion> {
        std::mem::take(&mut self.nodes[node].completions)
    }
}

/// Bytes that identify their message.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| rng.next().to_le_bytes())
        .take(len.div_ceil(8))
        .flatten()
        .collect();
    bytes.truncate(len);
    bytes
}
