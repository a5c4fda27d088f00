// SPDX-License-Identifier: MIT OR Apache-2.0
//! A few engines on virtual time, joined by a link that loses, repeats, delays and damages packets.
//!
//! A run follows from one seed. Memory, ports and the link below its faults are the test kit's. The
//! configuration of each test sizes the storage.

#![allow(dead_code, reason = "each test file uses a part")]

use ofi_xdp_core::wire::{self, PacketKind};
use ofi_xdp_core::*;
pub use ofi_xdp_test_kit::card::HostCard;
use ofi_xdp_test_kit::link::Link;
use ofi_xdp_test_kit::memory::{Buffer, CANARY, CheckedMemory, Pieces};
use ofi_xdp_test_kit::packet::{self, Origin, Packet, PacketId};
use ofi_xdp_test_kit::queue::QueuePort;
pub use ofi_xdp_test_kit::queue::limits;
pub use ofi_xdp_test_kit::rng::Rng;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

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

/// A link with faults. An address is that of a node, or of no node.
pub struct FaultyLink {
    pub faults: Faults,
    pub rng: Rng,
    link: Link,
    pub packets: u64,
    /// Each packet that was sent, if a test wants to see them.
    pub tap: Option<Vec<(PeerAddress, PeerAddress, Vec<u8>)>>,
    /// Addresses without a link.
    pub cut: Vec<PeerAddress>,
    /// Whether data packets and acknowledgments carry an unknown flag.
    pub strange: bool,
    /// Longer packets are lost.
    pub passes: usize,
}

impl FaultyLink {
    fn send(&mut self, now: u64, id: PacketId) {
        self.packets += 1;
        let pool = &mut self.link.packets;
        let packet = pool.at(id);
        let (from, to) = (packet.source_address(), address(packet.to as usize));
        let bytes = &mut packet.bytes;
        if self.strange && [PacketKind::Data as u8, PacketKind::Ack as u8].contains(&bytes[1]) {
            bytes[2] |= 0x80;
            wire::seal(bytes, crc32c::crc32c_append);
        }
        if let Some(tap) = &mut self.tap {
            tap.push((from, to, bytes.clone()));
        }
        let copies = 1 + usize::from(self.rng.percent(self.faults.duplicate));
        let mut is_damaged = false;
        for _ in 0..copies {
            if self.rng.percent(self.faults.loss)
                || self.link.packets.at(id).bytes.len() > self.passes
                || self.cut.contains(&from)
                || self.cut.contains(&to)
            {
                continue;
            }
            if self.rng.percent(self.faults.corrupt) {
                let bytes = &mut self.link.packets.at(id).bytes;
                let bit = self.rng.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                is_damaged = true;
            }
            // The kernel verifies the UDP checksum of what it delivers.
            if is_damaged && self.link.packets.at(id).coverage() == ChecksumCoverage::Head {
                continue;
            }
            let jitter =
                if self.faults.jitter > 0 { self.rng.below(self.faults.jitter) } else { 0 };
            let copy = self.link.packets.copy(id, Origin::Copy);
            self.link.depart(now + self.faults.delay + jitter, copy);
        }
        self.link.packets.release(id);
    }

    /// Delivers a packet that a test has made.
    pub fn inject(&mut self, now: u64, from: PeerAddress, to: PeerAddress, bytes: Vec<u8>) {
        let (from, to) = (packet::node_of(&from), packet::node_of(&to));
        self.link.inject(now, Packet { from, to, bytes, ..Packet::default() });
    }
}

pub fn address(node: usize) -> PeerAddress {
    packet::address(node as u32)
}

pub fn node_of(address: &PeerAddress) -> usize {
    packet::node_of(address) as usize
}

/// An engine, its memory, and its completions.
pub struct Node {
    pub engine: Engine<'static>,
    pub memory: CheckedMemory,
    /// The peers of connected endpoints, by the nodes where they are.
    connected: HashMap<usize, PeerId>,
    /// The regions of the keys.
    keys: HashMap<u64, RegionId>,
    inbox: VecDeque<PacketId>,
    pub completions: Vec<Completion>,
    pub payload_max: usize,
    /// The card of the host, if it has several queues.
    pub card: Option<HostCard>,
    recvs: HashMap<u64, RecvId>,
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
        let storage = Box::leak(Box::new(StorageBox::new(config).unwrap())).lend();
        let identity = Identity { key: u128::from(incarnation) << 64 | u128::from(seed) };
        // About every second node sends by the kernel.
        let coverage =
            if seed.is_multiple_of(2) { ChecksumCoverage::Head } else { ChecksumCoverage::Whole };
        let limits = PortLimits { coverage, ..limits(payload_max) };
        let engine = Engine::new(config, storage, identity, limits).unwrap();
        let mut memory = CheckedMemory::new(config);
        memory.pieces = Some(Pieces::default());
        Self {
            engine,
            memory,
            connected: HashMap::new(),
            keys: HashMap::new(),
            inbox: VecDeque::new(),
            completions: Vec::new(),
            payload_max,
            card: None,
            recvs: HashMap::new(),
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
    pub link: FaultyLink,
    /// Posts read the clock only where the time matters ([`Engine::time_under_way`]).
    pub frugal: bool,
    /// A node reads its clock once more before it sleeps, as a caller does that polls again.
    pub polls_again: bool,
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
        port_packets: 2 << 10,
        reorder_pages: 4,
        ..Config::new(crc32c::crc32c_append)
    }
}

impl World {
    pub fn new(nodes: usize, seed: u64, config: &Config, faults: Faults) -> Self {
        Self::with_payload(nodes, seed, config, faults, 1472)
    }

    /// Nodes with packets of up to `payload_max` bytes.
    pub fn with_payload(
        nodes: usize,
        seed: u64,
        config: &Config,
        faults: Faults,
        payload_max: usize,
    ) -> Self {
        let mut rng = Rng(seed);
        let mut node = |_| Node::new(config, rng.next() | 1, rng.next(), payload_max);
        let nodes = (0..nodes).map(&mut node).collect();
        let link = FaultyLink {
            faults,
            rng: Rng(rng.next()),
            link: Link::default(),
            packets: 0,
            tap: None,
            cut: Vec::new(),
            strange: false,
            passes: usize::MAX,
        };
        // The start is not time zero: clocks on the wire must wrap in some runs.
        Self { now: rng.next() >> 20, nodes, link, frugal: false, polls_again: false }
    }

    pub fn time(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    pub fn peer(&mut self, from: usize, to: usize) -> PeerId {
        let connected = self.nodes[from].connected.get(&to).copied();
        connected.unwrap_or_else(|| self.nodes[from].engine.insert_peer(address(to)).unwrap())
    }

    /// A connected endpoint at each of two nodes, the first of which opens the connection. The
    /// second one knows of it if it is `named` there.
    pub fn connect(&mut self, [one, other]: [usize; 2], named: bool) {
        let now = self.time();
        let peers = [one, other].map(|node| self.nodes[node].engine.insert_connected().unwrap());
        for (node, peer, to, opens) in [(other, 0, one, false), (one, 1, other, true)] {
            if opens || named {
                let (node, to) = (&mut self.nodes[node], (address(to), peers[peer]));
                let own = peers[1 - peer];
                node.engine.open_connection(now, own, to, opens).unwrap();
            }
        }
        self.nodes[one].connected.insert(other, peers[0]);
        self.nodes[other].connected.insert(one, peers[1]);
        self.drive(one, Budget::POST);
    }

    pub fn send_with(
        &mut self,
        from: usize,
        to: usize,
        request: impl FnOnce(&mut SendRequest),
        bytes: Vec<u8>,
    ) -> Result<OpId, PostError> {
        let peer = self.peer(from, to);
        self.send_to(from, peer, request, bytes)
    }

    pub fn send_to(
        &mut self,
        from: usize,
        peer: PeerId,
        request: impl FnOnce(&mut SendRequest),
        bytes: Vec<u8>,
    ) -> Result<OpId, PostError> {
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
        let posted = if node.engine.carries_datagrams() {
            node.engine.post_datagram(wanted, bytes.into(), &mut node.memory)
        } else {
            node.engine.post_send(now, wanted, bytes.into(), &mut node.memory)
        };
        self.drive(from, Budget::POST);
        posted
    }

    /// Sends on the connection of a connected endpoint.
    pub fn send_on(&mut self, from: usize, peer: PeerId, context: u64, bytes: Vec<u8>) {
        self.send_to(from, peer, |r| r.common.context = Context(context), bytes).unwrap();
    }

    pub fn send(&mut self, from: usize, to: usize, context: u64, bytes: Vec<u8>) {
        self.send_with(from, to, |r| r.common.context = Context(context), bytes).unwrap();
    }

    /// Registers memory of a node, filled with 0xaa.
    pub fn region(&mut self, node: usize, address: u64, len: usize, access: Access) -> Remote {
        let node = &mut self.nodes[node];
        let request = RegionRequest { key: None, address, len: len as u64, access };
        let (id, key) = node.engine.register_region(&request).unwrap();
        node.memory.add_region(id, vec![0xaa; len]);
        node.keys.insert(key, id);
        Remote { key, address }
    }

    pub fn region_id(&self, node: usize, key: u64) -> RegionId {
        self.nodes[node].keys[&key]
    }

    pub fn region_bytes(&self, node: usize, key: u64) -> Vec<u8> {
        self.nodes[node].memory.region(self.region_id(node, key)).unwrap().to_vec()
    }

    /// Takes registered memory back.
    pub fn deregister(&mut self, node: usize, key: u64) -> RegionId {
        let (id, node) = (self.region_id(node, key), &mut self.nodes[node]);
        node.engine.deregister_region(id).unwrap();
        node.memory.take_region(id).unwrap();
        id
    }

    pub fn set_region(&mut self, node: usize, key: u64, bytes: &[u8]) {
        let id = self.region_id(node, key);
        self.nodes[node].memory.region_mut(id).unwrap().copy_from_slice(bytes);
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
        node.engine.post_write(now, request, bytes.into(), &mut node.memory).unwrap();
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
        let buffer = vec![CANARY; len].into();
        let id = node.engine.post_read(now, wanted, buffer, &mut node.memory).unwrap();
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
        let operand = operand.to_le_bytes().to_vec().into();
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
        let buffer = Buffer::incoming(wanted.context.0, len as u64);
        let buffer = Buffer { is_left: !wanted.signal, ..buffer };
        let id = node.engine.post_recv(wanted, buffer, &mut node.memory)?;
        node.recvs.insert(wanted.context.0, id);
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
        node.engine.post_multi_recv(wanted, least, vec![CANARY; len].into(), &mut node.memory)
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
        let number = node as u32;
        let node = &mut self.nodes[node];
        self.link.link.arrive(self.now, number, &mut node.inbox);
        let mut sent = Vec::new();
        let mut port = QueuePort {
            node: number,
            limits: limits(node.payload_max),
            packets: &mut self.link.link.packets,
            inbox: &mut node.inbox,
            out: &mut sent,
            receive_max: u16::MAX,
            card: node.card.as_mut(),
            room: || true,
        };
        drive(&mut node.engine, &mut port, &mut node.memory, now, budget).unwrap();
        if self.polls_again {
            node.engine.advance(now.after_nanos(1_000));
        }
        sent.into_iter().for_each(|id| self.link.send(self.now, id));
        let Node { engine, memory, completions, recvs, received, parts, unpolled, .. } = node;
        if *unpolled {
            return;
        }
        while let Some(completion) = engine.poll_send_completion() {
            completions.push(completion);
        }
        while let Some(completion) = engine.poll_recv_completion() {
            let context = completion.context.0;
            if let Some(part) = completion.slice {
                let (start, bytes) = memory.slice(part, completion.len).unwrap();
                parts.push((context, (start as usize, bytes)));
            } else if completion.kind != OpKind::RemoteWrite
                && let Some(id) = recvs.remove(&context)
            {
                received.insert(context, memory.take_recv(id).unwrap());
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
        let arrival = self.link.link.next_arrival();
        let timer =
            self.nodes.iter().filter_map(|n| n.engine.poll_at()).min().map(Instant::as_nanos);
        let busy = self.nodes.iter().any(|n| n.engine.wants_transmit() || !n.inbox.is_empty());
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

/// The peers of `count` connections between two engines, one pair for each.
pub fn connected_pairs(config: &Config, count: usize, faults: Faults) -> (World, Vec<[PeerId; 2]>) {
    let config = Config { named_peers_only: true, ..config.clone() };
    let mut world = World::new(2, 33, &config, faults);
    let pairs = connect_pairs(&mut world, count);
    (world, pairs)
}

/// Makes `count` connections between two engines. Returns the peers of each.
pub fn connect_pairs(world: &mut World, count: usize) -> Vec<[PeerId; 2]> {
    let pairs: Vec<[PeerId; 2]> = (0..count)
        .map(|_| [0, 1].map(|node: usize| world.nodes[node].engine.insert_connected().unwrap()))
        .collect();
    let now = world.time();
    for &[ours, theirs] in &pairs {
        for (node, peer, other, opens) in [(1, theirs, ours, false), (0, ours, theirs, true)] {
            let to = (address(1 - node), other);
            world.nodes[node].engine.open_connection(now, peer, to, opens).unwrap();
            assert_eq!(world.nodes[node].engine.link(peer), LinkState::Opening);
        }
    }
    world.drive(0, Budget::POST);
    pairs
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
