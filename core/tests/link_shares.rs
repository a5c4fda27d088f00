// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connected endpoints on one engine: each keeps its share of the slots, and its identifier,
//! whatever the others and their peers do.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::iter::from_fn;
use std::time::Duration;
use world::*;

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A share that is all of what an endpoint may have.
const fn all_kept(kept: u32) -> LinkShare {
    LinkShare { kept, most: kept }
}

/// Two endpoints, each of which keeps its half of every pool.
fn halves() -> Config {
    let half = |slots: u32| all_kept(slots / 2);
    let Config { sends, recvs, slices, events, .. } = small();
    let links = LinkShares {
        sends: half(sends),
        recvs: half(recvs),
        slices: half(slices),
        events: half(events),
    };
    Config { links, ..small() }
}

/// Two connections between two engines, both open.
fn two_links() -> (World, [[PeerId; 2]; 2]) {
    let (mut world, pairs) = connected_pairs(&halves(), 2, Faults::NONE);
    world.run(SECOND);
    (world, pairs.try_into().unwrap())
}

/// The finished receives of an endpoint of node 1. Those of the other one stay.
fn received(world: &mut World, pairs: &[[PeerId; 2]; 2], number: usize) -> Vec<Completion> {
    let group = |number: usize| CompletionGroup::new(number).unwrap();
    let engine = &mut world.nodes[1].engine;
    engine.sort_completions(|peer| group(usize::from(peer == pairs[1][1])));
    from_fn(|| engine.poll_recv_completion_of(group(number))).collect()
}

/// Posts sends with `peer` until there is no room; their number.
fn send_all(world: &mut World, peer: PeerId) -> u32 {
    from_fn(|| world.send_to(0, peer, |_| {}, vec![1; 8]).ok()).count() as u32
}

/// Posts receives that name `peer` until there is no room; their number.
fn receive_all(world: &mut World, node: usize, peer: PeerId) -> u32 {
    from_fn(|| world.recv_with(node, 8, |r| r.from = Some(peer)).ok()).count() as u32
}

#[test]
fn an_endpoint_with_unread_completions_leaves_the_other_its_operations() {
    let (mut world, [[hog, _], [other, _]]) = two_links();
    let most = small().sends / 2;
    world.set_unpolled(0, true);
    assert_eq!(send_all(&mut world, hog), most);
    world.run(MILLI);
    assert_eq!(world.nodes[0].engine.operations_left(hog), 0);
    assert_eq!(world.nodes[0].engine.operations_left(other), most);
    assert_eq!(send_all(&mut world, other), most);
    // Messages without a receive are stored.
    world.run(SECOND);
    assert!(world.nodes[0].engine.has_send_completion());
    world.set_unpolled(0, false);
    world.drive(0, Budget::PROGRESS);
    let ended = world.completions(0).len() as u32;
    let left = [hog, other].map(|peer| world.nodes[0].engine.operations_left(peer));
    assert_eq!(left.iter().sum::<u32>(), ended, "they are given back");
    world.audit();
}

#[test]
fn an_endpoint_with_many_receives_leaves_the_other_its_own() {
    let (mut world, [[_, hog], [sender, other]]) = two_links();
    let most = small().recvs / 2;
    assert_eq!(receive_all(&mut world, 1, hog), most);
    assert_eq!(world.nodes[1].engine.receives_left(hog), 0);
    assert_eq!(world.nodes[1].engine.receives_left(other), most);
    assert_eq!(receive_all(&mut world, 1, other), most);
    world.nodes[1].engine.cancel_from(hog);
    world.send_on(0, sender, 1, vec![1; 8]);
    world.run(MILLI);
    let left = [hog, other].map(|peer| world.nodes[1].engine.receives_left(peer));
    assert_eq!(left, [most, 1]);
    world.audit();
}

#[test]
fn an_endpoint_that_reads_no_slices_holds_up_its_own_messages_alone() {
    const MESSAGES: u64 = 10;
    let (mut world, pairs) = two_links();
    let [[to_hog, hog], [to_other, other]] = pairs;
    let most = u64::from(small().slices / 2);
    world.set_unpolled(1, true);
    world.multi_recv(1, (1 << 10, 8), |r| r.from = Some(hog)).unwrap();
    world.multi_recv(1, (1 << 10, 8), |r| (r.from, r.context) = (Some(other), Context(1))).unwrap();
    for message in 0..MESSAGES {
        world.send_on(0, to_hog, 0, vec![message as u8; 8]);
    }
    world.run(MILLI);
    assert_eq!(u64::from(world.nodes[1].engine.stored_messages()), MESSAGES - most);
    // The other endpoint takes its messages as they arrive, in slices and in single receives.
    for round in 0..3 {
        let tag = Some(TagMatch { tag: round, ignore: 0 });
        let single = world.recv_with(1, 8, |r| (r.from, r.tag) = (Some(other), tag)).unwrap();
        world.send_to(0, to_other, |r| r.tag = Some(round), vec![9; 8]).unwrap();
        world.send_on(0, to_other, 0, vec![9; 8]);
        world.run(MILLI);
        let ended = received(&mut world, &pairs, 1);
        assert_eq!(ended.len(), 2, "round {round}");
        let memory = &mut world.nodes[1].memory;
        assert_eq!(memory.take_recv(single).unwrap(), [9; 8]);
        assert_eq!(ended.iter().filter_map(|it| memory.slice(it.slice?, it.len)).count(), 1);
    }
    // The messages that waited come in their order.
    let mut seen = 0;
    while seen < MESSAGES {
        let part = received(&mut world, &pairs, 0);
        assert!(!part.is_empty() && part.len() as u64 <= most);
        for completion in part {
            let slice = completion.slice.unwrap();
            let bytes = world.nodes[1].memory.slice(slice, completion.len).unwrap().1;
            assert_eq!(bytes, vec![seen as u8; 8]);
            seen += 1;
        }
        world.drive(1, Budget::PROGRESS);
        world.audit();
    }
    assert_eq!(world.nodes[1].engine.stored_messages(), 0);
}

/// The messages of finished slices at node 1.
fn slices(world: &mut World, ended: &[Completion]) -> Vec<Vec<u8>> {
    let memory = &mut world.nodes[1].memory;
    ended.iter().map(|it| memory.slice(it.slice.unwrap(), it.len).unwrap().1).collect()
}

#[test]
fn stored_messages_keep_their_order_while_another_endpoint_reads_no_slices() {
    let (mut world, [[to_hog, hog], [to_other, other]]) = two_links();
    world.set_unpolled(1, true);
    world.multi_recv(1, (1 << 10, 8), |r| r.from = Some(hog)).unwrap();
    for _ in 0..=small().slices / 2 {
        world.send_on(0, to_hog, 0, vec![9; 8]);
    }
    world.send_on(0, to_other, 0, vec![0; 8]);
    world.run(MILLI);
    assert_eq!(world.nodes[1].engine.stored_messages(), 2);
    world.multi_recv(1, (1 << 10, 8), |r| (r.from, r.context) = (Some(other), Context(1))).unwrap();
    world.send_on(0, to_other, 0, vec![1; 8]);
    world.run(MILLI);
    let ended = received(&mut world, &[[to_hog, hog], [to_other, other]], 1);
    assert_eq!(slices(&mut world, &ended), [[0; 8], [1; 8]]);
    world.audit();
}

#[test]
fn endpoints_that_both_wait_for_slices_get_all_their_messages_in_order() {
    let (mut world, pairs) = two_links();
    let messages = small().slices + 2;
    world.set_unpolled(1, true);
    for (number, [_, peer]) in pairs.into_iter().enumerate() {
        let context = Context(number as u64);
        let wanted = |r: &mut RecvRequest| (r.from, r.context) = (Some(peer), context);
        world.multi_recv(1, (1 << 10, 8), wanted).unwrap();
    }
    for message in 0..messages {
        for [peer, _] in pairs {
            world.send_on(0, peer, 0, vec![message as u8; 8]);
        }
    }
    world.run(MILLI);
    let mut seen = [vec![], vec![]];
    for _ in 0..messages {
        for (number, seen) in seen.iter_mut().enumerate() {
            let ended = received(&mut world, &pairs, number);
            seen.extend(slices(&mut world, &ended));
        }
        world.drive(1, Budget::PROGRESS);
        world.audit();
    }
    let all: Vec<_> = (0..messages).map(|message| vec![message as u8; 8]).collect();
    assert_eq!(seen, [all.clone(), all]);
    assert_eq!(world.nodes[1].engine.stored_messages(), 0);
}

/// Writes with data on the connection with `peer` of node 0.
fn write_with_data(world: &mut World, peer: PeerId, remote: Remote, count: u32) {
    for _ in 0..count {
        let common = Common::new(peer, Context(0));
        let request = WriteRequest { common, len: 8, remote, data: Some(7) };
        let (now, node) = (world.time(), &mut world.nodes[0]);
        node.engine.post_write(now, request, vec![1; 8].into(), &mut node.memory).unwrap();
        world.drive(0, Budget::POST);
    }
}

#[test]
fn an_endpoint_that_reads_no_events_holds_up_its_own_writes_alone() {
    let (mut world, pairs) = two_links();
    let most = small().events / 2;
    let remote = world.region(1, 0, 64, Access::all());
    world.set_unpolled(1, true);
    write_with_data(&mut world, pairs[0][0], remote, most + 8);
    world.run(MILLI);
    for _ in 0..3 {
        write_with_data(&mut world, pairs[1][0], remote, most);
        world.run(MILLI * 100);
        assert_eq!(received(&mut world, &pairs, 1).len() as u32, most);
    }
    // A packet that brings more than is left comes again.
    let mut seen = 0;
    while seen < most + 8 {
        let part = received(&mut world, &pairs, 0).len() as u32;
        assert!(part > 0 && part <= most);
        seen += part;
        world.run(SECOND);
    }
    assert_eq!(seen, most + 8);
}

/// Events wait for packets that were lost, in a pool that has no room for all of them.
#[test]
fn events_of_endpoints_on_bad_links_do_not_wait_for_each_other() {
    const WRITES: u32 = 200;
    let events = LinkShare { kept: 16, most: 64 };
    let config = Config { links: LinkShares { events, ..LinkShares::NONE }, events: 64, ..small() };
    let faults = Faults { loss: 20.0, jitter: 20_000, ..Faults::NONE };
    let (mut world, pairs) = connected_pairs(&config, 2, faults);
    let is_open = |world: &World| {
        pairs.iter().all(|pair| world.nodes[1].engine.link(pair[1]) == LinkState::Open)
    };
    assert!(world.run_until(SECOND * 9, is_open));
    let remote = world.region(1, 0, 64, Access::all());
    for _ in 0..WRITES / 20 {
        for pair in &pairs {
            write_with_data(&mut world, pair[0], remote, 20);
        }
        world.run(MILLI);
    }
    world.run(SECOND * 5);
    assert_eq!(world.completions(1).len() as u32, 2 * WRITES);
}

/// Node 2 with an endpoint for each of two clients. The first one fills the storage.
fn flooded_server() -> World {
    let config =
        Config { named_peers_only: true, unexpected: [16, 0, 0, 0], eager_max: 256, ..small() };
    let mut world = World::new(3, 41, &config, Faults::NONE);
    for client in 0..2 {
        world.connect([client, 2], true);
    }
    world.run(MILLI * 10);
    for _ in 0..64 {
        world.send(0, 2, 0, vec![1; 8]);
    }
    world.run(MILLI * 10);
    assert!(world.nodes[2].engine.stats().receiver_not_ready > 0);
    world
}

#[test]
fn a_client_that_fills_the_storage_leaves_other_hosts_room_and_window() {
    let mut world = flooded_server();
    let stored = world.nodes[2].engine.stored_messages();
    assert!(stored < 12, "{stored}");
    let from = world.peer(2, 1);
    world.recv_with(2, 8, |r| (r.from, r.context) = (Some(from), Context(9))).unwrap();
    let refused = world.nodes[2].engine.stats().receiver_not_ready;
    for message in 0..3 {
        world.send(1, 2, 0, vec![message; 8]);
    }
    world.run_until(MILLI, |world| world.nodes[1].completions.len() == 3);
    assert_eq!(world.received(2, 9), [0; 8]);
    assert_eq!(world.completions(1).len(), 3);
    assert_eq!(world.nodes[2].engine.stored_messages(), stored + 2);
    assert!(world.nodes[2].engine.stats().receiver_not_ready - refused < 32);
    let occupancy = world.nodes[1].engine.peer_reports().next().unwrap().occupancy;
    assert!(occupancy < 4, "{occupancy}");
}

#[test]
fn messages_of_an_ended_connection_stay_beside_a_client_that_fills_the_storage() {
    let mut world = flooded_server();
    world.send(1, 2, 0, vec![5; 8]);
    world.run(MILLI);
    let gone = world.peer(2, 1);
    world.nodes[2].engine.end_connected(gone).unwrap();
    world.run(MILLI * 100);
    assert_eq!(world.nodes[2].engine.stats().messages_put_out, 0);
    world.recv_with(2, 8, |r| (r.from, r.context) = (Some(gone), Context(9))).unwrap();
    world.drive(2, Budget::PROGRESS);
    assert_eq!(world.received(2, 9), [5; 8]);
}

/// The identifiers of as many new endpoints as node 0 has room for.
fn insert_all(world: &mut World) -> Vec<PeerId> {
    let engine = &mut world.nodes[0].engine;
    from_fn(|| engine.insert_connected().ok()).collect()
}

#[test]
fn an_ended_connection_keeps_its_identifier_until_it_is_removed() {
    let (mut world, pairs) = two_links();
    let [ended, _] = pairs[0];
    world.nodes[0].engine.end_connected(ended).unwrap();
    assert_eq!(world.nodes[0].engine.link(ended), LinkState::Ended);
    assert!(world.run_until(SECOND, |world| {
        world.nodes[1].engine.link(pairs[0][1]) == LinkState::Ended
    }));
    // Longer than the quarantine of a slot.
    world.run(SECOND * 5);
    let others = insert_all(&mut world);
    assert_eq!(others.len() as u32, small().peers - 2);
    assert!(!others.contains(&ended));
    world.nodes[0].engine.remove_peer(ended).unwrap();
    world.run(SECOND * 5);
    let again = insert_all(&mut world);
    assert_eq!(again.iter().map(|peer| peer.slot()).collect::<Vec<_>>(), [ended.slot()]);
    assert_ne!(again, [ended]);
    assert_eq!(world.nodes[0].engine.link(pairs[1][0]), LinkState::Open);
}

#[test]
fn packets_for_an_ended_connection_are_those_for_an_unknown_one() {
    let (mut world, pairs) = connected_pairs(&small(), 2, Faults::NONE);
    world.link.tap = Some(Vec::new());
    world.run(MILLI * 10);
    let hellos = world.link.tap.take().unwrap();
    // The close is lost. The other side learns of it by its next ping.
    world.link.cut.push(address(1));
    world.nodes[1].engine.end_connected(pairs[0][1]).unwrap();
    world.run(MILLI);
    world.link.cut.clear();
    assert_eq!(world.nodes[0].engine.link(pairs[0][0]), LinkState::Open);
    let handshakes = world.nodes[1].engine.stats().handshakes;
    for (from, to, bytes) in hellos {
        world.link.inject(world.now, from, to, bytes);
    }
    world.run(SECOND * 4);
    assert_eq!(world.nodes[0].engine.link(pairs[0][0]), LinkState::Ended);
    assert_eq!(world.nodes[1].engine.link(pairs[0][1]), LinkState::Ended);
    assert_eq!(world.nodes[1].engine.stats().handshakes, handshakes);
    assert_eq!(world.nodes[1].engine.link(pairs[1][1]), LinkState::Open);
}
