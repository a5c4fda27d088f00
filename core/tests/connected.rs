// SPDX-License-Identifier: MIT OR Apache-2.0
//! Engines of connected endpoints. The connection is opened before the first operation, and peers
//! without a name open none. Each side learns of its end within the peer time-out. A flood of
//! forged packets changes nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::wire::{self, CONNECT_PACKET_MAX, ConnectKind, ConnectPacket, PacketKind};
use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);

/// Two engines; `named`: the second one knows the first.
fn connected(named: bool, faults: Faults) -> (World, PeerId) {
    let config = Config { named_peers_only: true, ..small() };
    let mut world = World::new(2, 31, &config, faults);
    world.connect([0, 1], named);
    let peer = world.peer(0, 1);
    (world, peer)
}

#[test]
fn a_connection_opens_without_an_operation() {
    for loss in [0.0, 30.0] {
        let (mut world, _) = connected(true, Faults { loss, ..Faults::NONE });
        let open = |world: &World| {
            let stats = world.nodes.iter().map(|node| node.engine.stats());
            stats.map(|stats| (stats.handshakes, stats.connections_ended)).all(|it| it == (1, 0))
        };
        assert!(!open(&world));
        assert!(world.run_until(Duration::from_secs(9), open), "loss {loss}");
        // An idle connection stays open.
        world.run(Duration::from_secs(20));
        assert!(open(&world), "loss {loss}");
        world.recv(1, 1, 8);
        world.send(0, 1, 2, pattern(1, 8));
        world.run(SECOND);
        assert_eq!(world.received(1, 1), pattern(1, 8));
        assert!(open(&world), "it is the same connection");
    }
}

#[test]
fn peers_that_were_not_named_open_no_connection() {
    let (mut world, _) = connected(false, Faults::NONE);
    assert!(world.run_until(Duration::from_secs(20), |world| {
        world.nodes[0].engine.stats().connections_ended == 1
    }));
    assert_eq!(world.nodes[0].engine.stats().handshakes, 0);
    let stats = world.nodes[1].engine.stats();
    assert!(stats.dropped(DropReason::WrongSource) > 1);
    assert_eq!(stats.packets_sent, 0, "they get no answer");
    assert_eq!(peers_left(&mut world, 1), small().peers - 1, "they take no slot");
}

/// How many more peers a node has room for.
fn peers_left(world: &mut World, node: usize) -> u32 {
    let engine = &mut world.nodes[node].engine;
    std::iter::repeat_with(|| engine.insert_connected()).take_while(Result::is_ok).count() as u32
}

#[test]
fn the_end_of_a_connection_is_counted_on_both_sides() {
    let (mut world, there) = connected(true, Faults::NONE);
    world.run(SECOND);
    world.nodes[0].engine.remove_peer(there).unwrap();
    world.run(SECOND);
    for node in &world.nodes {
        assert_eq!(node.engine.stats().connections_ended, 1);
        assert_eq!(node.engine.stats().peers_failed, 0);
    }
}

/// Two engines with an open connection, without traffic, and the packets that it took.
fn idle(faults: Faults) -> (World, PeerId, u64) {
    let (mut world, there) = connected(true, faults);
    world.run(SECOND);
    let before = world.link.packets;
    (world, there, before)
}

fn ended(world: &World) -> Vec<u64> {
    world.nodes.iter().map(|node| node.engine.stats().connections_ended).collect()
}

#[test]
fn an_idle_connection_costs_a_ping_of_each_side_in_a_quarter_of_the_peer_timeout() {
    let (mut world, _, before) = idle(Faults::NONE);
    let pings = |world: &World| world.nodes.iter().map(|node| node.engine.stats().pings).sum();
    let asked: u64 = pings(&world);
    world.run(SECOND * 1000);
    let (packets, asked) = (world.link.packets - before, pings(&world) - asked);
    assert!((780..=800).contains(&asked), "{asked} pings");
    assert!(packets <= 2 * asked + 2, "{packets} packets");
    assert_eq!(ended(&world), [0, 0]);
    for node in &world.nodes {
        assert_eq!(node.engine.stats().connections_idle, 0, "it is kept");
        assert!(!node.engine.has_work(), "a side that closes does not wait for the next ping");
    }
}

#[test]
fn an_idle_connection_outlives_a_bad_link() {
    let (mut world, ..) = idle(Faults { loss: 30.0, ..Faults::NONE });
    world.run(SECOND * 3600);
    assert_eq!(ended(&world), [0, 0]);
}

#[test]
fn without_names_an_idle_connection_costs_nothing() {
    let mut world = World::new(2, 32, &small(), Faults::NONE);
    world.recv(1, 1, 8);
    world.send(0, 1, 1, pattern(1, 8));
    world.run(SECOND);
    let before = world.link.packets;
    world.run(SECOND * 1000);
    assert_eq!(world.link.packets, before);
    assert_eq!(world.nodes[0].engine.connections(), 0);
}

#[test]
fn a_lost_close_is_learned_with_the_next_ping() {
    for closer in [0, 1] {
        let (mut world, ..) = idle(Faults::NONE);
        world.link.cut.push(address(closer));
        let there = world.peer(closer, 1 - closer);
        world.nodes[closer].engine.remove_peer(there).unwrap();
        world.run(Duration::from_millis(10));
        world.link.cut.clear();
        assert_eq!(ended(&world)[1 - closer], 0, "the notice was lost");
        let before = world.time();
        assert!(world.run_until(SECOND * 20, |world| ended(world) == [1, 1]));
        assert!(world.time().since(before) < SECOND * 3);
        world.run(SECOND * 20);
        assert_eq!(ended(&world), [1, 1], "once");
    }
}

#[test]
fn an_idle_peer_that_vanishes_is_noticed_in_the_peer_timeout() {
    for gone in [0, 1] {
        let (mut world, ..) = idle(Faults::NONE);
        let left = 1 - gone;
        world.link.cut.push(address(gone));
        let heard = world.time();
        assert!(world.run_until(SECOND * 20, |world| ended(world)[left] == 1));
        // The last packet came a quarter of the time-out before, at the most.
        let silence = world.time().since(heard);
        assert!(silence > SECOND * 7 && silence.as_secs() <= 10, "{silence:?}");
        assert_eq!(world.nodes[left].engine.stats().peers_failed, 1);
        // Nothing is said to it any more.
        let before = world.link.packets;
        let now = world.time();
        world.nodes[gone].engine.close(now);
        world.run(SECOND * 60);
        assert!(world.link.packets <= before + 1);
    }
}

#[test]
fn a_peer_that_vanishes_while_the_connection_opens_is_noticed() {
    let config = Config { named_peers_only: true, ..small() };
    let mut world = World::new(2, 33, &config, Faults::NONE);
    world.connect([0, 1], true);
    world.now += 10_000;
    // The hello has arrived, and its answer goes nowhere.
    world.link.cut.push(address(0));
    world.drive(1, Budget::PROGRESS);
    world.run(SECOND * 11);
    assert_eq!(ended(&world), [1, 1]);
    assert!(world.nodes.iter().all(|node| node.engine.stats().handshakes == 0));
}

#[test]
fn every_receive_is_cancelled() {
    let (mut world, _) = connected(true, Faults::NONE);
    for context in 1..5 {
        world.recv(1, context, 8);
    }
    let tag = Some(TagMatch { tag: 7, ignore: 0 });
    world.recv_with(1, 8, |it| (it.context, it.tag) = (Context(5), tag)).unwrap();
    world.nodes[1].engine.cancel_all();
    world.run(SECOND);
    let cancelled = world.completions(1);
    let contexts: Vec<u64> = cancelled.iter().map(|completion| completion.context.0).collect();
    assert_eq!(contexts, [1, 2, 3, 4, 5]);
    assert!(cancelled.iter().all(|completion| completion.outcome == Err(OpError::Cancelled)));
    world.send(0, 1, 9, pattern(1, 8));
    world.run(SECOND);
    assert!(world.completions(1).is_empty(), "nothing matches any more");
}

/// Messages of a transfer, and forged packets beside each.
const MESSAGES: u64 = 500;
const FORGED: u64 = 200;

/// A packet of an attacker that cannot read those of the connection: a real one with other numbers,
/// or one of connection management, which an engine must ignore.
fn forged(seen: &[Vec<u8>], number: u64) -> Vec<u8> {
    let mut rng = Rng(number);
    if number.is_multiple_of(8) {
        let address = PeerAddress::from_v6([0; 16], 9);
        let request = ConnectPacket::new(ConnectKind::Connect, rng.next().into(), rng.next());
        let mut bytes = vec![0; CONNECT_PACKET_MAX];
        let len = ConnectPacket { address, ..request }.put(&mut bytes, crc32c::crc32c_append);
        bytes.truncate(len.unwrap());
        return bytes;
    }
    let mut bytes = seen[number as usize % seen.len()].clone();
    // The lower half of the token, and the incarnation of a hello.
    bytes[8..12].copy_from_slice(&(rng.next() as u32).to_le_bytes());
    if bytes[1] == PacketKind::Hello as u8 {
        bytes[32..40].copy_from_slice(&rng.next().to_le_bytes());
    }
    wire::seal(&mut bytes, crc32c::crc32c_append);
    bytes
}

/// Sends a message to node 1, which receives it.
fn pass(world: &mut World, message: u64) {
    world.recv(1, message, 1400);
    world.send(0, 1, message, pattern(message, 1400));
    assert!(world.run_until(SECOND, |world| world.nodes[1].completions.len() == 1));
    assert_eq!(world.completions(1)[0].outcome, Ok(()));
    assert_eq!(world.received(1, message), pattern(message, 1400));
}

/// Passes the messages one by one. Beside each there are `flood` forged packets, most of them from
/// addresses of no node. Returns the time that it took.
fn transfer(flood: u64) -> (World, Duration) {
    let config = Config { named_peers_only: true, ..small() };
    let mut world = World::new(2, 34, &config, Faults::NONE);
    world.link.tap = Some(Vec::new());
    world.connect([0, 1], true);
    pass(&mut world, 0);
    let sent = world.link.tap.replace(Vec::new()).unwrap().into_iter();
    let seen: Vec<_> = sent.filter(|it| it.0 == address(0)).map(|it| it.2).collect();
    let begin = world.time();
    for message in 1..=MESSAGES {
        for number in (message - 1) * flood..message * flood {
            let source = if number % 16 == 1 { 0 } else { 2 + number as usize };
            world.link.inject(world.now, address(source), address(1), forged(&seen, number));
        }
        pass(&mut world, message);
    }
    let took = world.time().since(begin);
    (world, took)
}

#[test]
fn a_flood_from_forged_sources_leaves_connection_and_transfer_as_they_are() {
    let (calm, undisturbed) = transfer(0);
    let (mut world, took) = transfer(FORGED);
    assert!(took <= undisturbed * 5 / 4, "{took:?} after {undisturbed:?}");
    let stats = world.nodes[1].engine.stats();
    assert!(stats.packets_received >= MESSAGES * FORGED);
    for reason in [DropReason::Kind, DropReason::WrongSource, DropReason::WrongToken] {
        assert!(stats.dropped(reason) > 1000, "{reason}: {}", stats.dropped(reason));
    }
    for (node, calm) in world.nodes.iter().zip(&calm.nodes) {
        let (stats, calm) = (node.engine.stats(), calm.engine.stats());
        assert_eq!((stats.handshakes, stats.connections_ended), (1, 0));
        assert_eq!(stats.retransmissions, calm.retransmissions);
        assert_eq!(node.engine.connections(), 1);
    }
    // Forged sources take no slot and get no answer; the peer's own address gets a cookie at most.
    let answers = world.link.tap.take().unwrap().into_iter().filter(|it| node_of(&it.1) > 1);
    assert_eq!(answers.count(), 0);
    assert_eq!(peers_left(&mut world, 1), small().peers - 1);
}

fn links(world: &World, pairs: &[[PeerId; 2]]) -> Vec<[LinkState; 2]> {
    let of = |pair: &[PeerId; 2]| [0, 1].map(|node| world.nodes[node].engine.link(pair[node]));
    pairs.iter().map(of).collect()
}

#[test]
fn many_connections_are_between_two_engines() {
    const COUNT: usize = 4;
    for loss in [0.0, 30.0] {
        let (mut world, pairs) = connected_pairs(&small(), COUNT, Faults { loss, ..Faults::NONE });
        let open = |world: &World| links(world, &pairs) == [[LinkState::Open; 2]; COUNT];
        assert!(world.run_until(Duration::from_secs(9), open), "loss {loss}");
        for node in 0..2 {
            let engine = &mut world.nodes[node].engine;
            let changes = std::iter::from_fn(|| engine.poll_link());
            let is_open = |(peer, state)| (state == LinkState::Open).then_some(peer);
            let mut changed: Vec<_> = changes.filter_map(is_open).collect();
            changed.sort_unstable();
            let mut peers: Vec<_> = pairs.iter().map(|pair| pair[node]).collect();
            peers.sort_unstable();
            assert_eq!(changed, peers, "each is told once");
        }
        // A receive that names its connection takes what comes on that one.
        for (number, pair) in pairs.iter().enumerate().rev() {
            let context = number as u64;
            let from = Some(pair[1]);
            world.recv_with(1, 8, |r| (r.context, r.from) = (Context(context), from)).unwrap();
            // Cancelled at the end.
            let later = Context(100 + context);
            world.recv_with(1, 8, |r| (r.context, r.from) = (later, from)).unwrap();
        }
        for (number, pair) in pairs.iter().enumerate() {
            let peer = pair[0];
            world.send_on(0, peer, 1, pattern(number as u64, 8));
        }
        world.run(SECOND * 5);
        for number in 0..COUNT as u64 {
            assert_eq!(world.received(1, number), pattern(number, 8));
        }
        assert!(!world.nodes[1].engine.cancel_on(pairs[2][1], Context(100)), "another's");
        world.nodes[1].engine.cancel_from(pairs[2][1]);
        let cancelled = std::iter::from_fn(|| world.nodes[1].engine.poll_recv_completion());
        let cancelled: Vec<_> = cancelled.map(|it| (it.context, it.peer, it.outcome)).collect();
        assert_eq!(cancelled, [(Context(102), pairs[2][1], Err(OpError::Cancelled))]);
        // One ends, the others stay.
        world.nodes[0].engine.remove_peer(pairs[1][0]).unwrap();
        assert!(world.run_until(Duration::from_secs(20), |world| {
            world.nodes[1].engine.link(pairs[1][1]) == LinkState::Ended
        }));
        let ended = (pairs[1][1], LinkState::Ended);
        assert_eq!(world.nodes[1].engine.poll_link(), Some(ended));
        let mut left = pairs.clone();
        left.remove(1);
        assert_eq!(links(&world, &left), [[LinkState::Open; 2]; COUNT - 1]);
    }
}

#[test]
fn a_connection_on_which_a_write_failed_is_kept_beside_many_others() {
    const COUNT: usize = 16;
    let config = Config { peers: 32, connections: 32, responders: 64, ..small() };
    let config = Config { named_peers_only: true, ..config };
    let mut world = World::new(2, 33, &config, Faults::NONE);
    // The pings of this side come too late for the other one.
    let patient = Config { peer_timeout: 8 * config.peer_timeout, ..config };
    world.nodes[0] = Node::new(&patient, 1, 1, 1472);
    let pairs = connect_pairs(&mut world, COUNT);
    let open = |world: &World| links(world, &pairs) == [[LinkState::Open; 2]; COUNT];
    assert!(world.run_until(SECOND, open));
    let common = Common::new(pairs[0][0], Context(1));
    let wrong = Remote { key: 1, address: 0 };
    let write = WriteRequest { common, len: 1, remote: wrong, data: None };
    let (now, node) = (world.time(), &mut world.nodes[0]);
    node.engine.post_write(now, write, vec![1].into(), &mut node.memory).unwrap();
    world.drive(0, Budget::POST);
    world.run(SECOND * 30);
    assert_eq!(world.completions(0)[0].outcome, Err(OpError::Key));
    assert!(open(&world));
}

#[test]
fn idle_connections_beside_many_others_outlast_a_short_peer_timeout() {
    const COUNT: usize = 16;
    let config = Config { peers: 32, connections: 32, responders: 64, ..small() };
    for millis in [15, 20, 79, 81] {
        let peer_timeout = Duration::from_millis(millis);
        let config = Config { peer_timeout, ..config.clone() };
        let (mut world, pairs) = connected_pairs(&config, COUNT, Faults::NONE);
        world.run(SECOND);
        let open = [[LinkState::Open; 2]; COUNT];
        assert_eq!(links(&world, &pairs), open, "a time-out of {millis} ms");
    }
}

#[test]
fn the_lost_close_of_each_connection_is_learned_with_the_next_ping() {
    const COUNT: usize = 4;
    for closer in [0, 1] {
        let (mut world, pairs) = connected_pairs(&small(), COUNT, Faults::NONE);
        world.run(SECOND);
        world.link.cut.push(address(closer));
        for pair in &pairs[1..] {
            world.nodes[closer].engine.remove_peer(pair[closer]).unwrap();
        }
        world.run(Duration::from_millis(10));
        world.link.cut.clear();
        let left = |world: &World| {
            pairs
                .iter()
                .map(|pair| world.nodes[1 - closer].engine.link(pair[1 - closer]))
                .collect::<Vec<_>>()
        };
        assert_eq!(left(&world), [LinkState::Open; COUNT], "the notices were lost");
        world.run(SECOND * 3);
        let ended = [LinkState::Ended; COUNT - 1];
        assert_eq!(left(&world), [&[LinkState::Open], &ended[..]].concat());
        assert_eq!(world.nodes[1 - closer].engine.stats().connections_ended, 3);
    }
}

#[test]
fn a_handshake_under_another_name_changes_nothing() {
    let config = Config { named_peers_only: true, ..small() };
    for kind in [PacketKind::Hello, PacketKind::HelloAck] {
        let mut world = World::new(2, 35, &config, Faults::NONE);
        world.link.tap = Some(Vec::new());
        world.connect([0, 1], true);
        // The packet of this kind does not arrive as it is.
        let (from, to) = if kind == PacketKind::Hello { (0, 1) } else { (1, 0) };
        world.link.cut.push(address(from));
        world.run(Duration::from_micros(10));
        let sent = world.link.tap.take().unwrap();
        let is_kind = |it: &&(PeerAddress, PeerAddress, Vec<u8>)| it.2[1] == kind as u8;
        let mut bytes = sent.iter().find(is_kind).unwrap().2.clone();
        // `src_cid` of the handshake (`docs/PROTOCOL.md` §5.1).
        bytes[48] ^= 1;
        wire::seal(&mut bytes, crc32c::crc32c_append);
        world.link.inject(world.now, address(from), address(to), bytes);
        world.run(Duration::from_millis(1));
        let stats = world.nodes[to].engine.stats();
        assert_eq!(stats.dropped(DropReason::UnexpectedHandshake), 1, "{kind:?}");
    }
}

/// Completions that are sorted by group are polled by group, in their order, until their peer's are
/// discarded. A cancelled receive belongs to the group of the peer that it names.
#[test]
fn completions_of_each_group_are_polled_apart() {
    const COUNT: usize = 3;
    let (mut world, pairs) = connected_pairs(&small(), COUNT, Faults::NONE);
    let group = |number: usize| CompletionGroup::new(number).unwrap();
    assert_eq!(CompletionGroup::new(GROUPS_MAX), None);
    (0..2).for_each(|node| world.set_unpolled(node, true));
    let of = |node: usize| {
        let pairs = pairs.clone();
        move |peer| group(pairs.iter().position(|pair| pair[node] == peer).unwrap())
    };
    for (number, pair) in pairs.iter().enumerate() {
        for message in 0..3 {
            let context = Context((number * 10 + message) as u64);
            let from = Some(pair[1]);
            world.recv_with(1, 8, |r| (r.context, r.from) = (context, from)).unwrap();
        }
    }
    for message in 0..2 {
        for (number, pair) in pairs.iter().enumerate() {
            world.send_on(0, pair[0], (number * 10 + message) as u64, pattern(1, 8));
        }
    }
    world.run(SECOND);
    world.nodes[1].engine.cancel_from(pairs[1][1]);
    let engines = world.nodes.iter_mut().map(|node| &mut node.engine);
    for (node, engine) in engines.enumerate() {
        engine.sort_completions(of(node));
        assert!(!engine.has_send_completion() && !engine.has_recv_completion());
        engine.audit().unwrap();
    }
    let engine = &mut world.nodes[0].engine;
    for number in (0..COUNT).rev() {
        let polled = std::iter::from_fn(|| engine.poll_send_completion_of(group(number)));
        let contexts: Vec<u64> = polled.map(|it| it.context.0).collect();
        assert_eq!(contexts, [number as u64 * 10, number as u64 * 10 + 1]);
        assert!(!engine.has_send_completion_of(group(number)));
    }
    let engine = &mut world.nodes[1].engine;
    engine.discard_completions(pairs[2][1], drop);
    let expected: [&[u64]; COUNT] = [&[0, 1], &[10, 11, 12], &[]];
    for (number, expected) in expected.into_iter().enumerate() {
        assert_eq!(engine.has_recv_completion_of(group(number)), !expected.is_empty());
        let polled = std::iter::from_fn(|| engine.poll_recv_completion_of(group(number)));
        let contexts: Vec<u64> = polled.map(|it| it.context.0).collect();
        assert_eq!(contexts, expected);
    }
    engine.audit().unwrap();
}
