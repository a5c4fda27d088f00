// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several connections between the same two engines (`docs/PROTOCOL.md` §5): they open, carry
//! messages both ways and end in random order over a link with faults, and each is apart from the
//! others.
//!
//! Rules, for each connection and side: it opens at most once, and then ends at most once. A
//! receive of a connection takes the message whose turn it is, intact and once. Without an end
//! every message arrives. Both sides of a connection that one of them ends are notified. A peer
//! that was removed gives everything back.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

/// Connections of a run.
const CONNECTIONS: usize = 6;
/// Steps of a run.
const STEPS: usize = 120;
/// Messages of one direction of a connection; their receives are posted before the first one.
const MESSAGES: u64 = 12;
/// The longest message: several packets.
const LEN_MAX: u64 = 4000;

/// A connection: its peers, and what happened on it.
#[derive(Clone, Debug)]
struct Connection {
    peers: [PeerId; 2],
    opener: usize,
    /// Messages that each side has sent.
    sent: [u64; 2],
    /// The side that ended it.
    closer: Option<usize>,
    /// The changes of state that each side was changes.
    changes: [Vec<LinkState>; 2],
}

struct Run {
    world: World,
    rng: Rng,
    connections: Vec<Connection>,
}

/// The context of message `message` from side `from` of a connection, and the seed of its bytes.
fn context(connection: usize, from: usize, message: u64) -> u64 {
    (connection * 2 + from) as u64 * 100 + message
}

fn bytes(context: u64) -> Vec<u8> {
    pattern(context, 1 + (context * 7919 % LEN_MAX) as usize)
}

impl Run {
    fn new(seed: u64) -> Self {
        let config = Config { named_peers_only: true, sends: 256, recvs: 256, ..small() };
        let faults =
            Faults { loss: 3.0, duplicate: 3.0, corrupt: 1.0, delay: 20_000, jitter: 15_000 };
        let world = World::new(2, seed, &config, faults);
        Self { world, rng: Rng::new(seed, "connections"), connections: Vec::new() }
    }

    fn pick(&mut self, below: usize) -> usize {
        self.rng.below(below as u64) as usize
    }

    /// Opens a connection from a random side, and posts the receives of both.
    fn open(&mut self) {
        let number = self.connections.len();
        let opener = self.pick(2);
        let world = &mut self.world;
        let peers = [0, 1].map(|node: usize| world.nodes[node].engine.insert_connected().unwrap());
        let now = world.time();
        for node in [1 - opener, opener] {
            let to = (address(1 - node), peers[1 - node]);
            let engine = &mut world.nodes[node].engine;
            engine.open_connection(now, peers[node], to, node == opener).unwrap();
            for message in 0..MESSAGES {
                let context = Context(context(number, 1 - node, message));
                let from = Some(peers[node]);
                let post = |r: &mut RecvRequest| (r.context, r.from) = (context, from);
                world.recv_with(node, LEN_MAX as usize, post).unwrap();
            }
        }
        world.drive(opener, Budget::POST);
        let (sent, closer, changes) = ([0; 2], None, [Vec::new(), Vec::new()]);
        self.connections.push(Connection { peers, opener, sent, closer, changes });
    }

    /// Sends on a random connection that no side has ended.
    fn send(&mut self) {
        let (number, from) = (self.pick(self.connections.len()), self.pick(2));
        let connection = &mut self.connections[number];
        let message = connection.sent[from];
        if connection.closer.is_some() || message == MESSAGES {
            return;
        }
        connection.sent[from] += 1;
        let (peer, context) = (connection.peers[from], context(number, from, message));
        self.world.send_on(from, peer, context, bytes(context));
    }

    /// Ends a random connection at a random side.
    fn close(&mut self) {
        let (number, side) = (self.pick(self.connections.len()), self.pick(2));
        let connection = &mut self.connections[number];
        if connection.closer.is_none() {
            connection.closer = Some(side);
            self.remove(number, side);
        }
    }

    /// Ends a connection at one side as an endpoint does that is closed.
    fn remove(&mut self, number: usize, side: usize) {
        let peer = self.connections[number].peers[side];
        let engine = &mut self.world.nodes[side].engine;
        engine.remove_peer(peer).unwrap();
        engine.cancel_from(peer);
        self.world.drive(side, Budget::POST);
        // What is left: messages that no receive has taken.
        self.world.nodes[side].engine.discard_completions(peer, drop);
    }

    fn step(&mut self) {
        match self.pick(20) {
            0..2 if self.connections.len() < CONNECTIONS => self.open(),
            2 => self.close(),
            3..12 => self.send(),
            _ => {
                let micros = self.rng.below(300);
                self.world.run(Duration::from_micros(micros));
            }
        }
        self.note_changes();
    }

    /// Notes the changes that the engines tell, and what follows from each.
    fn note_changes(&mut self) {
        for node in 0..2 {
            let engine = &mut self.world.nodes[node].engine;
            while let Some((peer, state)) = engine.poll_link() {
                let of = |connection: &&mut Connection| connection.peers[node] == peer;
                let connection = self.connections.iter_mut().find(of).unwrap();
                connection.changes[node].push(state);
            }
        }
    }

    /// The messages that a side has received on a connection.
    fn received(&self, number: usize, node: usize) -> Vec<u64> {
        let first = context(number, 1 - node, 0);
        let is_receive =
            |c: &&Completion| matches!(c.kind, OpKind::Recv { .. }) && c.outcome.is_ok();
        let contexts = self.world.nodes[node].completions.iter().filter(is_receive);
        let of = |context: u64| context.checked_sub(first).filter(|message| *message < MESSAGES);
        contexts.filter_map(|completion| of(completion.context.0)).collect()
    }

    /// Lets everything end, and checks the rules.
    fn finish(mut self) {
        self.world.run(Duration::from_secs(60));
        self.note_changes();
        self.world.audit();
        for number in 0..self.connections.len() {
            self.check(number);
        }
        for number in 0..self.connections.len() {
            let closer = self.connections[number].closer;
            for node in (0..2).filter(|node| closer != Some(*node)) {
                self.remove(number, node);
            }
        }
        self.world.run(Duration::from_secs(60));
        self.world.audit();
        // Slots are in quarantine for a part of a second.
        self.world.now += 1_000_000_000;
        let now = self.world.time();
        for node in &mut self.world.nodes {
            node.engine.advance(now);
            assert_eq!(node.engine.connections(), 0);
            let insert = || node.engine.insert_connected();
            let left = std::iter::repeat_with(insert).take_while(Result::is_ok).count();
            assert_eq!(left, small().peers as usize, "each peer gives its slot back");
        }
    }

    fn check(&mut self, number: usize) {
        let Connection { sent, closer, changes, peers, opener } = self.connections[number].clone();
        for node in 0..2 {
            let received = self.received(number, node);
            // Messages are matched in order, and short ones complete before long ones.
            for message in received.iter().map(|it| context(number, 1 - node, *it)) {
                assert!(self.world.received(node, message).starts_with(&bytes(message)));
            }
            let changes = changes[node].as_slice();
            if closer.is_none() {
                assert_eq!(changes, [LinkState::Open], "connection {number}, side {node}");
                assert_eq!(received.len() as u64, sent[1 - node], "all that was sent");
            } else {
                // The side that waits for the opener has a time-out of its own in the endpoint.
                let waits = changes.is_empty() && node != opener;
                let expected = if waits { LinkState::Opening } else { LinkState::Ended };
                let opened = [LinkState::Open, LinkState::Ended];
                let right = waits || [&opened[..], &opened[1..]].contains(&changes);
                let state = self.world.nodes[node].engine.link(peers[node]);
                let what = format!("{number}, side {node} of {opener}, {closer:?}: {changes:?}");
                assert!(right && (state == expected || closer == Some(node)), "{what} {state:?}");
            }
        }
    }
}

#[test]
fn parallel_connections_open_carry_and_end_apart_in_random_order() {
    let (mut ended, mut carried) = (0, 0);
    for seed in 0..100 {
        let mut run = Run::new(seed);
        run.open();
        for _ in 0..STEPS {
            run.step();
        }
        ended += run.connections.iter().filter(|it| it.closer.is_some()).count();
        carried += run.connections.iter().map(|it| it.sent[0] + it.sent[1]).sum::<u64>();
        run.finish();
    }
    // The runs are about something.
    assert!(ended > 200 && carried > 2000, "{ended} ends, {carried} messages");
}
