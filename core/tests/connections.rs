// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections: how they begin, how they end, and the state that remains.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::ChecksumCoverage;
use ofi_xdp_core::*;
use ofi_xdp_test_kit::records::handshake;
use std::time::Duration;
use world::*;
use zerocopy::{FromBytes, IntoBytes};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn crossed_hellos_make_one_connection() {
    for delay in [0, 100, 5_000, 7_000_000] {
        let mut world = World::new(2, 21, &small(), Faults { delay, ..Faults::NONE });
        for node in [0, 1] {
            world.recv(node, 1, 5000);
        }
        world.send(0, 1, 2, pattern(1, 5000));
        world.send(1, 0, 2, pattern(2, 5000));
        world.run(SECOND);
        for node in [0, 1] {
            let got = world.completions(node);
            assert_eq!(got.iter().filter(|c| c.outcome == Ok(())).count(), 2, "delay {delay}");
            assert_eq!(world.nodes[node].engine.stats().handshakes, 1);
        }
    }
}

#[test]
fn lost_handshakes_are_repeated() {
    for seed in 0..40 {
        let faults = Faults { loss: 50.0, duplicate: 20.0, ..Faults::NONE };
        let mut world = World::new(2, seed, &small(), faults);
        world.recv(1, 1, 8);
        world.send(0, 1, 2, pattern(1, 8));
        let done = |w: &World| w.nodes.iter().all(|n| n.completions.len() == 1);
        assert!(world.run_until(Duration::from_secs(9), done), "seed {seed}");
        assert!(world.nodes.iter().all(|n| n.completions[0].outcome == Ok(())));
    }
}

#[test]
fn an_absent_peer_ends_in_unreachable_in_time() {
    let mut world = World::new(2, 22, &small(), Faults::NONE);
    world.link.cut.push(address(1));
    let start = world.now;
    world.send(0, 1, 5, pattern(1, 8));
    assert!(world.run_until(Duration::from_secs(20), |w| !w.nodes[0].completions.is_empty()));
    assert_eq!(world.completions(0)[0].outcome, Err(OpError::Unreachable));
    let took = Duration::from_nanos(world.now - start);
    // The engine's clock counts in ticks of 64 ns.
    assert!(
        (Duration::from_nanos(9_999_999_936)..Duration::from_secs(11)).contains(&took),
        "{took:?}"
    );
}

#[test]
fn a_peer_that_falls_silent_ends_both_sides_in_time() {
    let mut world = World::new(2, 23, &small(), Faults::NONE);
    world.recv(1, 1, 1 << 20);
    world.send(0, 1, 5, pattern(1, 1 << 20));
    assert!(world.run_until(SECOND, |w| w.nodes[1].memory.placed > 100_000));
    world.link.cut.push(address(0));
    let start = world.now;
    let over = |w: &World| w.nodes.iter().all(|n| !n.completions.is_empty());
    assert!(world.run_until(Duration::from_secs(30), over), "both operations end");
    let took = Duration::from_nanos(world.now - start);
    assert!(took < Duration::from_millis(11_500), "{took:?}");
    for node in [0, 1] {
        assert_eq!(world.completions(node)[0].outcome, Err(OpError::TimedOut));
    }
    // A new connection, after the node is back.
    world.link.cut.clear();
    world.recv(1, 2, 8);
    world.send(0, 1, 6, pattern(6, 8));
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    assert_eq!(world.received(1, 2), pattern(6, 8));
}

/// Longer, in several ways, than the engine's stored times reach.
#[test]
fn a_process_that_stood_still_goes_on_in_time() {
    for seconds in [60, 130, 150, 200, 270, 280, 412, 690, 1_000_000] {
        let mut world = World::new(2, 29, &small(), Faults::NONE);
        world.recv(1, 1, 8);
        world.send(0, 1, 1, pattern(1, 8));
        assert!(world.run_until(SECOND, |w| !w.nodes[0].completions.is_empty()));
        world.completions(0);
        // In flight on a link that is cut when the clock jumps.
        world.link.cut.push(address(1));
        world.send(0, 1, 2, pattern(2, 8));
        world.run(Duration::from_millis(1));
        world.now += seconds * 1_000_000_000;
        let start = world.now;
        let over = |w: &World| !w.nodes[0].completions.is_empty();
        assert!(world.run_until(Duration::from_secs(30), over), "{seconds} s: it ends");
        assert_eq!(world.completions(0)[0].outcome, Err(OpError::TimedOut));
        let took = Duration::from_nanos(world.now - start);
        assert!(took < Duration::from_millis(11_500), "{seconds} s: {took:?}");
        // The transfer goes on at its usual speed.
        world.link.cut.clear();
        for context in 3..20 {
            world.recv(1, context, 8);
            world.send(0, 1, context, pattern(context, 8));
            let start = world.now;
            assert!(world.run_until(SECOND, over), "{seconds} s: message {context} arrives");
            assert_eq!(world.completions(0)[0].outcome, Ok(()), "{seconds} s");
            let took = Duration::from_nanos(world.now - start);
            assert!(took < Duration::from_millis(5), "{seconds} s: {took:?}");
        }
    }
}

/// Replaces node 1 by a new process at the same address.
fn restart(world: &mut World, incarnation: u64) {
    world.nodes[1] = Node::new(&small(), incarnation, incarnation ^ 77, 1472);
}

#[test]
fn a_restarted_peer_resets_operations_under_way_and_is_found_again() {
    let mut world = World::new(2, 24, &small(), Faults::NONE);
    world.recv(1, 1, 8);
    world.send(0, 1, 5, pattern(1, 8));
    world.run(SECOND);
    world.completions(0);
    restart(&mut world, 0x4444);
    world.send(0, 1, 6, pattern(1, 8));
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Err(OpError::Reset), "never sent twice in silence");
    world.recv(1, 2, 8);
    world.send(0, 1, 7, pattern(7, 8));
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    assert_eq!(world.received(1, 2), pattern(7, 8));
}

#[test]
fn arrivals_change_with_packets_and_connections_and_not_by_idleness() {
    let mut world = World::new(2, 26, &small(), Faults::NONE);
    let sender = world.peer(0, 1);
    assert_eq!(world.nodes[0].engine.arrivals_from(PeerId::NONE), None);
    let mut seen = vec![world.nodes[0].engine.arrivals_from(sender).unwrap()];
    for round in 0..4 {
        if round == 2 {
            restart(&mut world, 0x4444);
        }
        world.recv(0, round, 8);
        world.send(1, 0, round, pattern(round, 8));
        assert!(world.run_until(SECOND, |w| w.nodes[0].completions.len() as u64 == round + 1));
        let arrivals = world.nodes[0].engine.arrivals_from(sender).unwrap();
        assert!(!seen.contains(&arrivals), "round {round}");
        world.run(SECOND);
        assert_eq!(world.nodes[0].engine.connections(), 0, "the peer is idle");
        assert_eq!(world.nodes[0].engine.arrivals_from(sender), Some(arrivals), "round {round}");
        seen.push(arrivals);
    }
}

#[test]
fn a_restarted_peer_that_speaks_first_is_accepted_after_a_cookie() {
    let mut world = World::new(2, 25, &small(), Faults::NONE);
    world.recv(1, 1, 8);
    world.send(0, 1, 5, pattern(1, 8));
    world.run(SECOND);
    restart(&mut world, 0x5555);
    world.recv(0, 2, 8);
    world.send(1, 0, 6, pattern(6, 8));
    world.run(SECOND);
    assert_eq!(world.completions(1)[0].outcome, Ok(()));
    assert_eq!(world.received(0, 2), pattern(6, 8));
}

#[test]
fn old_hellos_end_no_connection() {
    let mut world = World::new(2, 26, &small(), Faults::NONE);
    world.link.tap = Some(Vec::new());
    world.recv(1, 1, 8);
    world.send(0, 1, 5, pattern(1, 8));
    world.run(SECOND);
    // The handshakes of the old incarnation and of the new one, both replayed.
    let old: Vec<_> = world.link.tap.clone().unwrap();
    restart(&mut world, 0x6666);
    world.recv(0, 2, 8);
    world.send(1, 0, 6, pattern(6, 8));
    world.run(SECOND);
    let new: Vec<_> = world.link.tap.take().unwrap();
    world.completions(0);
    world.completions(1);
    world.recv(1, 3, 1 << 20);
    world.send(0, 1, 7, pattern(7, 1 << 20));
    for (from, to, bytes) in old.iter().chain(&new) {
        world.link.inject(world.now, *from, *to, bytes.clone());
        world.step();
    }
    world.run(SECOND);
    assert_eq!(world.completions(0).last().unwrap().outcome, Ok(()));
    assert!(world.received(1, 3) == pattern(7, 1 << 20));
}

#[test]
fn an_old_hello_with_its_cookie_changes_no_accepted_connection() {
    let is_shown = |bytes: &[u8]| {
        let body = bytes.split_first_chunk::<{ wire::HEADER_LEN }>().unwrap().1;
        bytes[1] == wire::PacketKind::Hello as u8
            && wire::Handshake::read_from_prefix(body).unwrap().0.cookie.get() != 0
    };
    let mut replayed = 0;
    for steps in 0..12 {
        let mut world = World::new(2, 33, &small(), Faults::NONE);
        world.link.tap = Some(Vec::new());
        // Hellos that cross ask for cookies.
        for (node, context) in [(0, 1), (1, 2)] {
            world.recv(node, context, 8);
            world.send(node, 1 - node, context, pattern(context, 8));
        }
        world.run(SECOND);
        let mut old = world.link.tap.take().unwrap();
        old.retain(|(from, _, bytes)| node_of(from) == 0 && is_shown(bytes));
        replayed += old.len();
        let peer = world.peer(0, 1);
        world.nodes[0].engine.remove_peer(peer).unwrap();
        world.run(Duration::from_millis(1));
        world.completions(0);
        world.recv(1, 3, 8);
        world.send(0, 1, 3, pattern(3, 8));
        for _ in 0..steps {
            world.step();
        }
        for (from, to, bytes) in old {
            world.link.inject(world.now, from, to, bytes);
        }
        world.run(SECOND);
        assert_eq!(world.received(1, 3), pattern(3, 8), "after {steps} steps");
        assert_eq!(world.completions(0)[0].outcome, Ok(()), "after {steps} steps");
    }
    assert!(replayed >= 12, "{replayed}");
}

#[test]
fn close_tells_the_peers() {
    let mut world = World::new(2, 27, &small(), Faults::NONE);
    world.recv(1, 1, 8);
    world.send(0, 1, 5, pattern(1, 8));
    world.run(SECOND);
    world.completions(0);
    assert!(!world.nodes[1].engine.has_work());
    let now = world.time();
    world.nodes[1].engine.close(now);
    world.send(0, 1, 6, pattern(1, 8));
    world.run(Duration::from_millis(1));
    assert!(!world.nodes[1].engine.wants_transmit());
    assert_eq!(world.completions(0)[0].outcome, Err(OpError::Closed));
}

#[test]
fn a_removed_peer_can_come_back() {
    let mut world = World::new(2, 28, &small(), Faults::NONE);
    world.recv(1, 1, 8);
    world.send(0, 1, 5, pattern(1, 8));
    world.run(SECOND);
    world.completions(0);
    let peer = world.peer(0, 1);
    world.send(0, 1, 6, pattern(1, 100_000));
    world.nodes[0].engine.remove_peer(peer).unwrap();
    assert_eq!(world.nodes[0].engine.remove_peer(peer), Err(Unknown));
    world.drive(0, Budget::PROGRESS);
    assert_eq!(world.completions(0)[0].outcome, Err(OpError::Closed));
    let again = world.peer(0, 1);
    assert_ne!(again, peer, "an identifier is not used again");
    let late = world.send_with(0, 1, |r| r.common.peer = peer, pattern(0, 8));
    assert_eq!(late, Err(PostError::UnknownPeer));
    // The new connection is newer than the one that the other side still has.
    // The first receive belongs to the message that had begun to arrive, and ends with it.
    world.recv(1, 2, 8);
    world.recv(1, 4, 8);
    world.send(0, 1, 9, pattern(9, 8));
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    assert_eq!(world.received(1, 4), pattern(9, 8));
    let ends: Vec<_> = world.completions(1).iter().map(|c| (c.context.0, c.outcome)).collect();
    assert!(ends.contains(&(2, Err(OpError::Closed))), "{ends:?}");
    world.recv(0, 3, 8);
    world.send(1, 0, 7, pattern(7, 8));
    world.run(SECOND);
    // The other side did not learn of the end: its message is reset, its next one arrives.
    let outcome = world.completions(1).last().unwrap().outcome;
    if outcome != Ok(()) {
        assert_eq!(outcome, Err(OpError::Reset));
        world.send(1, 0, 8, pattern(7, 8));
        world.run(SECOND);
    }
    assert_eq!(world.received(0, 3), pattern(7, 8));
}

/// Handshakes of unknown sources move the epoch of a node's last connection by half its range and
/// more.
fn half_a_turn_of_epochs(world: &mut World, node: usize, epochs: &[u16]) {
    for (source, &epoch) in (7..).zip(epochs) {
        let handshake = handshake(0x7777, epoch, PeerId::from_bits(9), Psn(0));
        let header = wire::Header::new(wire::PacketKind::Hello, PeerId::NONE, wire::Token(0));
        let mut bytes = [header.as_bytes(), handshake.as_bytes()].concat();
        wire::seal(&mut bytes, crc32c::crc32c_append);
        world.link.inject(world.now, address(source), address(node), bytes);
        world.drive(node, Budget::PROGRESS);
    }
}

#[test]
fn after_half_a_turn_of_epochs_a_removed_peer_can_come_back() {
    // The peer remembers an earlier connection; its epoch is half the range away by then, or a
    // later one.
    for (before, after) in [(&[20_000, 40_000][..], &[][..]), (&[], &[20_000, 40_000])] {
        let mut world = World::new(2, 32, &small(), Faults::NONE);
        world.link.cut.extend([address(7), address(8)]);
        half_a_turn_of_epochs(&mut world, 0, before);
        for context in 0..4 {
            world.recv(1, context, 8);
            world.send(0, 1, context, pattern(context, 8));
            world.run(SECOND);
            let ends = world.completions(0);
            assert_eq!(ends.len(), 1, "message {context} ends in time");
            assert_eq!(ends[0].outcome, Ok(()), "message {context} after {before:?}");
            let peer = world.peer(0, 1);
            world.nodes[0].engine.remove_peer(peer).unwrap();
            half_a_turn_of_epochs(&mut world, 0, after);
            world.run(SECOND);
        }
    }
}

/// The other side still has the connection, uses it no more, and takes the next hello for an old
/// one.
#[test]
fn a_peer_that_was_removed_unheard_comes_back_after_half_a_turn_of_epochs() {
    for delay in [2_000, 10_000_000, 50_000_000, 200_000_000] {
        let mut world = World::new(2, 34, &small(), Faults { delay, ..Faults::NONE });
        world.link.cut.extend([address(7), address(8)]);
        for context in [1, 2] {
            world.recv(1, context, 8);
        }
        world.send(0, 1, 1, pattern(1, 8));
        world.run(SECOND * 2);
        let peer = world.peer(0, 1);
        world.link.cut.push(address(1));
        world.nodes[0].engine.remove_peer(peer).unwrap();
        world.run(SECOND);
        world.link.cut.pop();
        for turn in [&[20_000][..], &[20_000, 40_000]] {
            half_a_turn_of_epochs(&mut world, 0, turn);
            world.run(SECOND);
        }
        world.completions(0);
        world.send(0, 1, 2, pattern(2, 8));
        world.run(SECOND * 3);
        assert_eq!(world.completions(0)[0].outcome, Ok(()), "a delay of {delay} ns");
        assert_eq!(world.received(1, 2), pattern(2, 8));
    }
}

/// As there, but the peer has given the connection up because it heard nothing.
#[test]
fn a_peer_that_heard_nothing_comes_back_after_half_a_turn_of_epochs() {
    let mut world = World::new(2, 34, &small(), Faults::NONE);
    world.link.cut.extend([address(7), address(8)]);
    for context in [1, 2] {
        world.recv(1, context, 8);
    }
    world.send(0, 1, 1, pattern(1, 8));
    world.run(SECOND);
    world.completions(0);
    world.link.cut.push(address(1));
    let ends = [(OpError::TimedOut, &[20_000][..]), (OpError::Unreachable, &[20_000, 40_000])];
    for (error, turn) in ends {
        world.send(0, 1, 3, pattern(3, 8));
        world.run(SECOND * 12);
        assert_eq!(world.completions(0)[0].outcome, Err(error));
        half_a_turn_of_epochs(&mut world, 0, turn);
    }
    world.link.cut.pop();
    world.send(0, 1, 2, pattern(2, 8));
    world.run(SECOND);
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    assert_eq!(world.received(1, 2), pattern(2, 8));
}

#[test]
fn a_full_table_refuses_without_harm() {
    let config = Config { peers: 2, ..small() };
    let mut world = World::new(4, 29, &config, Faults::NONE);
    world.recv(0, 1, 8);
    world.recv(0, 2, 8);
    for node in 1..4 {
        world.send(node, 0, 0, pattern(node as u64, 8));
    }
    world.run(SECOND);
    assert_eq!(world.completions(0).len(), 2);
    assert!(world.nodes[0].engine.stats().dropped(DropReason::NoRoom) > 0);
    assert_eq!(
        world.nodes[0].engine.insert_peer(PeerAddress::from_v4([1, 2, 3, 4], 5)),
        Err(PeersFull::Full)
    );
}

/// A client that sends one message to node 0, and closes. Returns whether the message arrived.
fn visit(world: &mut World, client: usize) -> bool {
    world.send(client, 0, 1, pattern(client as u64, 8));
    let sent = |w: &World| !w.nodes[client].completions.is_empty();
    let arrived = world.run_until(SECOND, sent);
    let now = world.time();
    world.nodes[client].engine.close(now);
    world.drive(client, Budget::PROGRESS);
    world.run(Duration::from_millis(1));
    arrived
}

#[test]
fn clients_that_are_gone_make_room_for_new_ones() {
    let config = Config { peers: 4, ..small() };
    let mut world = World::new(24, 33, &config, Faults::NONE);
    let known = world.nodes[0].engine.insert_peer(address(30)).unwrap();
    for client in 1..24 {
        world.recv(0, client as u64, 8);
        assert!(visit(&mut world, client), "client {client}");
        let ends = world.completions(0);
        let source = world.nodes[0].engine.peer_address(ends[0].peer);
        assert_eq!(source, Some(address(client)));
    }
    assert_eq!(world.nodes[0].engine.peer_address(known), Some(address(30)));
    // It holds for peers that the application inserts, too.
    let engine = &mut world.nodes[0].engine;
    let inserted: Vec<_> = (31..34).map(|n| engine.insert_peer(address(n))).collect();
    assert_eq!(inserted[2], Err(PeersFull::Quarantined));
    engine.advance(Instant::from_nanos(world.now + 200_000_000));
    assert!((31..34).all(|n| engine.insert_peer(address(n)).is_ok()));
    assert_eq!(engine.insert_peer(address(34)), Err(PeersFull::Full));
}

#[test]
fn a_client_with_a_waiting_message_keeps_its_name() {
    let config = Config { peers: 4, ..small() };
    for posted in [false, true] {
        let mut world = World::new(7, 34, &config, Faults::NONE);
        world.set_unpolled(0, true);
        for client in 1..6 {
            if posted {
                world.recv(0, client as u64, 8);
            }
            // For the fifth client the table is full of clients that have sent no packet yet.
            assert_eq!(visit(&mut world, client), client < 5, "client {client}");
        }
        world.set_unpolled(0, false);
        if !posted {
            (1..5).for_each(|client| world.recv(0, client, 8));
        }
        world.drive(0, Budget::PROGRESS);
        let ends = world.completions(0);
        let engine = &world.nodes[0].engine;
        let sources: Vec<_> = ends.iter().map(|end| engine.peer_address(end.peer)).collect();
        assert_eq!(sources, [1, 2, 3, 4].map(|client| Some(address(client))));
        world.recv(0, 6, 8);
        assert!(visit(&mut world, 6));
    }
}

#[test]
fn a_config_that_cannot_work_is_refused() {
    let build = |config: &Config, payload| {
        let mut storage = StorageBox::new(&Config { peers: small().peers - 1, ..small() }).unwrap();
        let identity = Identity { key: 1 };
        Engine::new(config, storage.lend(), identity, limits(payload)).err()
    };
    assert_eq!(build(&Config { sends: 0, ..small() }, 1472), Some(ConfigError::Capacity("sends")));
    assert_eq!(build(&small(), 1472), Some(ConfigError::Storage("peers")));
}

#[test]
fn a_flood_of_hellos_leaves_room_for_real_peers() {
    let config = Config { peers: 16, ..small() };
    let mut world = World::new(2, 31, &config, Faults::NONE);
    // No node answers at these addresses.
    let mut hellos = 0;
    world.link.tap = Some(Vec::new());
    world.send(0, 1, 1, pattern(1, 8));
    world.run(SECOND);
    let taken = world.link.tap.take().unwrap();
    let (_, _, hello) = taken.iter().find(|packet| packet.2[1] == 0x02).unwrap();
    for port in 1..1000 {
        let mut forged = hello.clone();
        forged[32] = forged[32].wrapping_add(1) | 1;
        wire::seal(&mut forged, crc32c::crc32c_append);
        let from = PeerAddress::from_v4([198, 18, 0, 99], port);
        let node = &mut world.nodes[1];
        let datagram = Datagram {
            coverage: ChecksumCoverage::Whole,
            to_group: false,
            from,
            bytes: &forged,
            congestion_experienced: false,
            wanted: WantedPort::KEEP,
        };
        node.engine.ingest(Instant::from_nanos(world.now), datagram, &mut node.memory);
        hellos += 1;
    }
    let stats = world.nodes[1].engine.stats();
    assert!(stats.retries_sent > hellos - 16, "{stats:?}");
    assert_eq!(stats.dropped(DropReason::NoRoom), 0, "a quarter is left");
    assert!(world.nodes[1].engine.insert_peer(PeerAddress::from_v4([1, 2, 3, 4], 5)).is_ok());
}

/// Both sides learn the address that the other one is known by (`docs/PROTOCOL.md` §2.1).
#[test]
fn a_context_is_known_by_the_address_of_its_endpoint() {
    let config = Config { name_port: 7100, peers: 4, ..small() };
    let mut world = World::new(2, 34, &config, Faults::NONE);
    world.recv(1, 7, 8);
    world.send(0, 1, 9, pattern(3, 8));
    world.run(SECOND);
    let ends = [world.completions(0)[0].peer, world.completions(1)[0].peer];
    for (node, peer) in ends.into_iter().enumerate() {
        let engine = &world.nodes[node].engine;
        assert_eq!(engine.peer_address(peer), Some(address(1 - node)));
        assert_eq!(engine.peer_name(peer), Some(address(1 - node).with_port(7100)));
    }
    // The next peer in its slot is known by its own address.
    world.nodes[0].engine.remove_peer(ends[0]).unwrap();
    world.run(SECOND);
    let later = world.time().after_nanos(SECOND.as_nanos() as u64);
    let engine = &mut world.nodes[0].engine;
    engine.advance(later);
    for next in 2..6 {
        let peer = engine.insert_peer(address(next)).unwrap();
        assert_eq!(engine.peer_name(peer), Some(address(next)));
    }
}

#[test]
fn every_hello_that_is_due_is_repeated_by_one_call() {
    const PEERS: usize = TIMERS_PER_ADVANCE as usize;
    let config = Config { peers: 64, connections: 128, responders: 128, ..small() };
    let mut world = World::new(1, 5, &config, Faults::NONE);
    (1..=PEERS).for_each(|peer| world.send(0, peer, 1, vec![1]));
    let sent = world.link.packets;
    assert_eq!(sent, PEERS as u64);
    world.now += Duration::from_millis(20).as_nanos() as u64;
    world.drive(0, Budget::PROGRESS);
    assert_eq!(world.link.packets, 2 * sent);
}
