// SPDX-License-Identifier: MIT OR Apache-2.0
//! Target `operations`: the bytes are calls of applications and the fate of packets.
//!
//! Three engines. Each choice posts, cancels, removes a peer, delivers, loses, repeats or reorders
//! a packet, or moves time. Rules: the engines' audits hold after every step. Every operation ends
//! exactly once and with the right bytes. When the network is good again, the engines become idle.

use ofi_xdp_core::{StorageBox, TagMatch};

use crate::input::Input;
use crate::node::{Node, OneSided, config};
use ofi_xdp_test_kit::packet::{Origin, PacketId, PacketPool, address};

const NODES: usize = 3;
/// Steps that one input may make.
const STEPS_MAX: usize = 400;
/// Packets that can be under way; more are lost.
const UNDER_WAY_MAX: usize = 64;
/// Rounds of a good network in which everything must end.
const ROUNDS_MAX: usize = 4000;
/// No message is longer.
const LEN_MAX: usize = 255 * 24;

/// Plays `bytes`.
///
/// # Panics
/// When a rule does not hold.
pub fn run(bytes: &[u8]) {
    let config = config();
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
        adds: 0,
        writes: 0,
    };
    let mut input = Input::new(bytes);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        play.step(&mut input);
    }
    play.finish();
}

#[derive(Debug)]
struct Play<'s> {
    nodes: [Node<'s>; NODES],
    now: u64,
    packets: PacketPool,
    under_way: Vec<PacketId>,
    /// Additions, and writes with remote CQ data, that were posted.
    adds: u64,
    writes: u64,
}

impl Play<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let node = usize::from(choice >> 4) % NODES;
        match choice & 15 {
            0 | 1 => self.send(node, input),
            2 => self.one_sided(node, input),
            3 | 4 => self.recv(node, input),
            5 => {
                let context = u64::from(input.byte());
                self.nodes[node].cancel(context);
            }
            6 => self.remove_peer(node, input),
            7 => self.lose(input),
            8 => self.repeat(input),
            9..=11 => self.deliver(input),
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

    fn send(&mut self, node: usize, input: &mut Input<'_>) {
        let [how, len] = input.array();
        let to = (node + 1 + usize::from(how & 1)) % NODES;
        let tag = (how & 2 != 0).then_some(u64::from(how >> 6));
        // Up to some packets, mostly small.
        let len = if how & 4 == 0 { usize::from(len) } else { usize::from(len) * 24 };
        if let Some(peer) = self.nodes[node].peer(to as u32) {
            let _ = self.nodes[node].send(self.now, peer, len, tag, (how & 8 != 0, how & 16 != 0));
        }
    }

    fn one_sided(&mut self, node: usize, input: &mut Input<'_>) {
        let [how, len, at] = input.array();
        let to = (node + 1 + usize::from(how & 1)) % NODES;
        if how >> 5 == 7 {
            return self.nodes[node].renew_region();
        }
        let what = match how >> 1 & 3 {
            0 => OneSided::Write { data: how & 16 != 0 },
            1 => OneSided::Read,
            _ => OneSided::FetchAdd,
        };
        // Sometimes with a wrong key, or beyond the end.
        let key = self.nodes[to].key ^ u64::from(how >> 5 == 6);
        let range = (8 + u64::from(at) * 16, usize::from(len) * 8);
        let Some(peer) = self.nodes[node].peer(to as u32) else { return };
        let posted = self.nodes[node].one_sided(self.now, (peer, key), what, range, how & 8 != 0);
        if posted.is_ok() {
            self.adds += u64::from(what == OneSided::FetchAdd);
            self.writes += u64::from(what == OneSided::Write { data: true });
        }
    }

    fn recv(&mut self, node: usize, input: &mut Input<'_>) {
        let [how, len] = input.array();
        let tag = (how & 2 != 0)
            .then_some(TagMatch { tag: u64::from(how >> 6), ignore: u64::from(how >> 4 & 3) });
        let from =
            (how & 1 != 0).then(|| self.nodes[node].peer(((node + 1) % NODES) as u32)).flatten();
        let len = if how & 4 == 0 { usize::from(len) } else { usize::from(len) * 24 };
        let _ = self.nodes[node].recv(from, len, tag);
    }

    fn remove_peer(&mut self, node: usize, input: &mut Input<'_>) {
        let other = (node + 1 + usize::from(input.byte() & 1)) % NODES;
        let engine = &mut self.nodes[node].engine;
        if let Some(peer) = engine.find(&address(other as u32)) {
            engine.remove_peer(peer).expect("it was found");
        }
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
        self.nodes[node].poll(true);
        // bound: packets of one call
        while self.under_way.len() > UNDER_WAY_MAX {
            self.under_way.pop().into_iter().for_each(|id| self.packets.release(id));
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

    /// The network is good from now on, and there are receives for all messages: everything must
    /// end.
    fn finish(&mut self) {
        for _ in 0..ROUNDS_MAX {
            for node in &mut self.nodes {
                let any = TagMatch { tag: 0, ignore: u64::MAX };
                for tag in [None, Some(any)] {
                    let _ = node.recv(None, LEN_MAX, tag);
                }
            }
            self.round();
            let idle = self.nodes.iter().all(|node| !node.engine.has_work());
            if idle && self.under_way.is_empty() {
                return self.check_rest();
            }
            for node in &mut self.nodes {
                node.cancel_all();
            }
            if self.under_way.is_empty() && !self.nodes.iter().any(|n| n.engine.wants_transmit()) {
                self.wait_for_timer();
            }
        }
        panic!("not everything has ended: {:?} operations are owed", self.owed());
    }

    fn check_rest(&mut self) {
        for node in &mut self.nodes {
            node.cancel_all();
            node.poll(true);
        }
        assert_eq!(self.owed(), [0; NODES], "no engine has work, but operations are owed");
        // The effect of an operation that ended in an error is not known.
        let sum: u64 = self.nodes.iter().map(Node::sum).sum();
        let added: u64 = self.nodes.iter().map(|node| node.added).sum();
        assert!(added <= sum && sum <= self.adds, "{added} <= {sum} <= {}", self.adds);
        let remote_writes: u64 = self.nodes.iter().map(|node| node.remote_writes).sum();
        assert!(remote_writes <= self.writes, "{remote_writes} remote writes of {}", self.writes);
    }

    fn owed(&self) -> [usize; NODES] {
        self.nodes.each_ref().map(Node::owed)
    }
}
