// SPDX-License-Identifier: MIT OR Apache-2.0
//! Target `connections`: the bytes are calls of connected endpoints, and the fate of packets.
//!
//! Two engines with several connections between them. Each choice opens a connection, sends or
//! receives on one, ends a side of one, delivers, loses, repeats or reorders a packet, or moves
//! time. Rules: the engines' audits hold after every step. A side opens once at the most, and then
//! ends once. The receives of a side take the messages of the other side of its connection, in
//! order and whole. After the end of a side none of its buffers is touched. When the network is
//! good again and every side has ended, the engines are idle and have their slots back.

use ofi_xdp_core::{Completion, Config, Instant, LinkState, OpKind, PeerId, StorageBox};
use ofi_xdp_test_kit::packet::{Origin, PacketId, PacketPool, address};

use crate::input::Input;
use crate::node::{Node, config};

const NODES: usize = 2;
/// Steps that one input may make.
const STEPS_MAX: usize = 400;
/// Packets that can be under way; more are lost.
const UNDER_WAY_MAX: usize = 64;
/// Rounds of a good network, in which everything ends that can.
const ROUNDS_MAX: usize = 100;
/// No message is longer.
const LEN_MAX: usize = 255 * 24;
/// The time in which slots of removed peers rest, at the least.
const QUARANTINE: u64 = 1 << 30;

/// One side of a connection.
#[derive(Debug)]
struct Side {
    peer: PeerId,
    state: LinkState,
    /// The application has not closed it.
    is_open: bool,
    /// Lengths of the messages that it sent.
    sent: Vec<usize>,
    /// Contexts of its receives, in order.
    recvs: Vec<u64>,
    /// Contexts of its operations that have not ended.
    owed: Vec<u64>,
}

impl Side {
    const fn new(peer: PeerId) -> Self {
        Self {
            peer,
            state: LinkState::Opening,
            is_open: true,
            sent: Vec::new(),
            recvs: Vec::new(),
            owed: Vec::new(),
        }
    }

    /// A change of state, once each and in order. An end cancels the rest, as the runtime of
    /// endpoints does.
    fn note(&mut self, node: &mut Node<'_>, state: LinkState) {
        let goes_on = match state {
            LinkState::Opening => false,
            LinkState::Open => self.state == LinkState::Opening,
            LinkState::Ended => self.state != LinkState::Ended,
        };
        assert!(goes_on, "{state:?} after {self:?}");
        self.state = state;
        if state == LinkState::Ended && self.is_open {
            node.end_connected(self.peer);
        }
    }
}

/// Plays `bytes`.
///
/// # Panics
/// When a rule does not hold.
pub fn run(bytes: &[u8]) {
    let config = Config { named_peers_only: true, ..config() };
    let mut stores = [(); NODES].map(|()| StorageBox::new(&config).expect("memory"));
    let mut number = 0;
    let nodes = stores.each_mut().map(|store| {
        number += 1;
        Node::new(store, &config, number - 1)
    });
    let mut play = Play {
        nodes,
        now: 1 << 24,
        packets: PacketPool::default(),
        under_way: Vec::new(),
        connections: Vec::new(),
    };
    let mut input = Input::new(bytes);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        play.step(&mut input);
    }
    play.finish(config.peers as usize);
}

#[derive(Debug)]
struct Play<'s> {
    nodes: [Node<'s>; NODES],
    now: u64,
    packets: PacketPool,
    under_way: Vec<PacketId>,
    connections: Vec<[Side; NODES]>,
}

impl Play<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let node = usize::from(choice >> 4 & 1);
        match choice & 15 {
            0 => self.open(node),
            1 | 2 => self.send(node, input),
            3 | 4 => self.recv(node, input),
            5 => self.close(node, input),
            6 => self.lose(input),
            7 => self.repeat(input),
            8..=11 => self.deliver(input),
            12 => self.now += u64::from(input.word()) << 4,
            13 => self.now += u64::from(input.byte()) << 20,
            14 => self.wait_for_timer(),
            _ => {
                for _ in 0..8 {
                    self.round();
                }
            }
        }
        self.drive(node);
    }

    /// Opens a connection from `opener`; the other side has accepted it.
    fn open(&mut self, opener: usize) {
        let now = Instant::from_nanos(self.now);
        let inserted = self.nodes.each_mut().map(|node| node.engine.insert_connected());
        let [Ok(first), Ok(second)] = inserted else {
            // A slot on one side only is given back.
            for (node, peer) in self.nodes.iter_mut().zip(inserted) {
                let _ = peer.map(|peer| node.remove_connected(peer, &[]));
            }
            return;
        };
        let peers = [first, second];
        for node in [1 - opener, opener] {
            let to = (address(1 - node as u32), peers[1 - node]);
            let engine = &mut self.nodes[node].engine;
            let opened = engine.open_connection(now, peers[node], to, node == opener);
            if opened.is_err() {
                // The pool of connections is empty.
                return peers.iter().zip(&mut self.nodes).for_each(|(peer, node)| {
                    node.remove_connected(*peer, &[]);
                });
            }
        }
        self.connections.push(peers.map(Side::new));
    }

    /// A connection of which the side at `node` is not closed.
    fn pick_side(&self, node: usize, input: &mut Input<'_>) -> Option<usize> {
        let is_open = |number: &usize| self.connections[*number][node].is_open;
        let open: Vec<usize> = (0..self.connections.len()).filter(is_open).collect();
        let byte = usize::from(input.byte());
        (!open.is_empty()).then(|| open[byte % open.len()])
    }

    fn send(&mut self, node: usize, input: &mut Input<'_>) {
        let [how, len] = input.array();
        let len = if how & 4 == 0 { usize::from(len) } else { usize::from(len) * 24 };
        let Some(number) = self.pick_side(node, input) else { return };
        let side = &mut self.connections[number][node];
        if side.state == LinkState::Ended {
            return;
        }
        let flags = (how & 8 != 0, how & 16 != 0);
        if let Ok(context) = self.nodes[node].send(self.now, side.peer, len, None, flags) {
            side.sent.push(len);
            side.owed.push(context);
        }
    }

    fn recv(&mut self, node: usize, input: &mut Input<'_>) {
        let Some(number) = self.pick_side(node, input) else { return };
        let side = &mut self.connections[number][node];
        if side.state == LinkState::Ended {
            return;
        }
        if let Ok(context) = self.nodes[node].recv(Some(side.peer), LEN_MAX, None) {
            side.recvs.push(context);
            side.owed.push(context);
        }
    }

    fn close(&mut self, node: usize, input: &mut Input<'_>) {
        if let Some(number) = self.pick_side(node, input) {
            self.end(number, node);
        }
    }

    fn end(&mut self, number: usize, node: usize) {
        let side = &mut self.connections[number][node];
        side.is_open = false;
        self.nodes[node].remove_connected(side.peer, &std::mem::take(&mut side.owed));
    }

    fn pick(&self, input: &mut Input<'_>) -> Option<usize> {
        (!self.under_way.is_empty()).then(|| input.below(self.under_way.len()))
    }

    fn lose(&mut self, input: &mut Input<'_>) {
        if let Some(at) = self.pick(input) {
            self.packets.release(self.under_way.remove(at));
        }
    }

    fn repeat(&mut self, input: &mut Input<'_>) {
        if let Some(at) = self.pick(input) {
            self.under_way.push(self.packets.copy(self.under_way[at], Origin::Copy));
        }
    }

    fn deliver(&mut self, input: &mut Input<'_>) {
        if let Some(at) = self.pick(input) {
            let id = self.under_way.remove(at);
            self.arrive(id);
        }
    }

    fn arrive(&mut self, id: PacketId) {
        let packet = self.packets.at(id);
        let to = packet.to as usize;
        let arrived = self.nodes.get_mut(to).map(|node| {
            node.ingest(self.now, address(packet.from), &packet.bytes);
        });
        self.packets.release(id);
        if arrived.is_some() {
            self.drive(to);
        }
    }

    fn wait_for_timer(&mut self) {
        let next = self.nodes.iter().filter_map(|node| node.engine.poll_at()).min();
        if let Some(next) = next {
            self.now = self.now.max(next.as_nanos());
        }
    }

    fn drive(&mut self, node: usize) {
        self.nodes[node].drive(self.now, &mut self.packets, &mut self.under_way);
        let connections = &mut self.connections;
        self.nodes[node].poll_each(true, |completion| note_end(connections, node, completion));
        self.note_changes(node);
        // bound: packets of one call
        while self.under_way.len() > UNDER_WAY_MAX {
            self.under_way.pop().into_iter().for_each(|id| self.packets.release(id));
        }
    }

    fn note_changes(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        // bound: the changes that are kept
        while let Some((peer, state)) = node.engine.poll_link() {
            for side in self.connections.iter_mut().map(|sides| &mut sides[at]) {
                if peer == PeerId::NONE && side.is_open {
                    let state = node.engine.link(side.peer);
                    if state != side.state {
                        side.note(node, state);
                    }
                } else if side.peer == peer {
                    side.note(node, state);
                }
            }
        }
    }

    /// A good network for a moment: everything under way arrives in order.
    fn round(&mut self) {
        self.now += 2_000;
        for node in 0..NODES {
            self.drive(node);
        }
        for id in std::mem::take(&mut self.under_way) {
            self.arrive(id);
        }
    }

    /// The network is good from now on, and every side is closed: nothing may be left.
    fn finish(&mut self, peers: usize) {
        self.play_out();
        for number in 0..self.connections.len() {
            for node in 0..NODES {
                if self.connections[number][node].is_open {
                    self.end(number, node);
                }
            }
        }
        self.play_out();
        assert_eq!(self.nodes.each_ref().map(Node::owed), [0; NODES], "operations are owed");
        self.now += QUARANTINE;
        for node in &mut self.nodes {
            node.engine.advance(Instant::from_nanos(self.now));
            assert_eq!(node.engine.connections(), 0, "connections without an endpoint");
            let insert = || node.engine.insert_connected();
            let free = std::iter::repeat_with(insert).take_while(Result::is_ok).count();
            assert_eq!(free, peers, "each peer gives its slot back");
        }
    }

    /// Lets everything end that can. Messages without a receive stay.
    fn play_out(&mut self) {
        for _ in 0..ROUNDS_MAX {
            self.round();
            let idle = self.nodes.iter().all(|node| !node.engine.has_work());
            if idle && self.under_way.is_empty() {
                return;
            }
            if self.under_way.is_empty() && !self.nodes.iter().any(|n| n.engine.wants_transmit()) {
                self.wait_for_timer();
            }
        }
    }
}

/// Notes the end of an operation of `node`, and checks which message a receive has taken.
fn note_end(connections: &mut [[Side; NODES]], node: usize, completion: &Completion) {
    let context = completion.context.0;
    let is_its = |sides: &&mut [Side; NODES]| sides[node].owed.contains(&context);
    let sides = connections.iter_mut().find(is_its).expect("an operation of a connection");
    let side = &mut sides[node];
    side.owed.retain(|owed| *owed != context);
    if !matches!(completion.kind, OpKind::Recv { .. }) || completion.outcome.is_err() {
        return;
    }
    let turn = side.recvs.iter().position(|recv| *recv == context).expect("a receive of the side");
    let sent = sides[1 - node].sent.get(turn);
    assert_eq!(Some(&(completion.len as usize)), sent, "message {turn} of the connection");
}
