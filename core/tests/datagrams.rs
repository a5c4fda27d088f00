// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams (`FI_EP_DGRAM`): packets are the application's bytes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::ChecksumCoverage;
use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const PAYLOAD: usize = 1472;
const SOON: Duration = Duration::from_millis(1);

fn world(nodes: usize) -> World {
    let config = Config { datagrams: true, ..small() };
    World::with_payload(nodes, 1, &config, Faults::NONE, PAYLOAD)
}

fn dropped(world: &World, node: usize) -> u64 {
    world.nodes[node].engine.stats().dropped(DropReason::NoReceive)
}

#[test]
fn a_datagram_is_the_bytes_of_the_application_and_nothing_else() {
    for len in [0, 1, 31, 32, 33, PAYLOAD] {
        let mut world = world(2);
        world.link.tap = Some(Vec::new());
        world.recv(1, 7, PAYLOAD);
        world.send(0, 1, 9, pattern(3, len));
        let sent = world.completions(0);
        assert_eq!(sent.len(), 1, "it has left: no acknowledgment is waited for");
        assert_eq!((sent[0].context, sent[0].outcome), (Context(9), Ok(())));
        world.run(SOON);
        let packets = world.link.tap.take().unwrap();
        assert_eq!(packets, [(address(0), address(1), pattern(3, len))]);
        let got = world.completions(1);
        assert_eq!((got[0].context, got[0].outcome, got[0].len), (Context(7), Ok(()), len as u64));
        assert_eq!(world.received(1, 7)[..len], pattern(3, len));
        world.audit();
    }
}

#[test]
fn tags_data_and_long_datagrams_are_refused() {
    let mut world = world(2);
    let longest = world.send_with(0, 1, |_| {}, pattern(1, PAYLOAD + 1));
    assert_eq!(longest, Err(PostError::TooLong));
    let tagged = world.send_with(0, 1, |send| send.tag = Some(1), Vec::new());
    assert_eq!(tagged, Err(PostError::Unsupported));
    let with_data = world.send_with(0, 1, |send| send.data = Some(1), Vec::new());
    assert_eq!(with_data, Err(PostError::Unsupported));
    assert_eq!(world.link.packets, 0);
}

#[test]
fn any_bytes_of_anybody_are_a_datagram_and_leave_no_state() {
    let mut world = world(2);
    // The header of each kind of packet, of this version and of others, cut anywhere.
    let mut context = 0;
    for first in 0..=u8::MAX {
        for len in [1, 2, 31, 32, 64] {
            let mut bytes = vec![first; len];
            bytes.iter_mut().skip(1).for_each(|byte| *byte = context as u8);
            world.recv(1, context, 64);
            world.link.inject(world.now, address(40 + context as usize), address(1), bytes.clone());
            world.run(SOON);
            assert_eq!(world.received(1, context)[..len], bytes);
            context += 1;
        }
    }
    let engine = &world.nodes[1].engine;
    assert_eq!((engine.connections(), engine.stats().packets_sent), (0, 0));
    assert!(world.completions(1).iter().all(|got| got.peer.is_none()));
    let engine = &world.nodes[1].engine;
    assert!((0..context).all(|it| engine.find(&address(40 + it as usize)).is_none()));
}

#[test]
fn a_known_sender_is_named() {
    let mut world = world(3);
    let peer = world.peer(1, 2);
    world.recv(1, 1, 8);
    world.recv_with(1, 8, |recv| (recv.context, recv.from) = (Context(2), Some(peer))).unwrap();
    for (seed, sender) in [(0, 0), (1, 0), (2, 2)] {
        world.send(sender, 1, 0, pattern(seed, 8));
        world.run(SOON);
    }
    let got = world.completions(1);
    assert_eq!(got.iter().map(|it| it.context.0).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(got.iter().map(|it| it.peer).collect::<Vec<_>>(), [PeerId::NONE, peer]);
    assert_eq!(world.received(1, 2), pattern(2, 8), "it names its sender");
}

#[test]
fn each_datagram_names_its_own_sender_whoever_sent_the_last_one() {
    let mut world = world(4);
    let (second, third) = (world.peer(1, 2), world.peer(1, 3));
    let named = |world: &mut World, sender: usize| {
        world.recv(1, 1, 8);
        world.send(sender, 1, 0, pattern(1, 8));
        world.run(SOON);
        world.completions(1)[0].peer
    };
    for (sender, peer) in
        [(2, second), (2, second), (3, third), (0, PeerId::NONE), (0, PeerId::NONE), (2, second)]
    {
        assert_eq!(named(&mut world, sender), peer);
    }
    world.nodes[1].engine.remove_peer(second).unwrap();
    assert_eq!(named(&mut world, 2), PeerId::NONE, "it was removed");
    let again = world.peer(1, 2);
    assert_ne!(again, second);
    assert_eq!([named(&mut world, 2), named(&mut world, 3)], [again, third]);
    world.audit();
}

#[test]
fn a_datagram_to_a_group_is_marked() {
    for posted_first in [true, false] {
        let mut world = world(2);
        if posted_first {
            world.recv(1, 7, 64);
        }
        let bytes = pattern(3, 20);
        let Node { engine, memory, .. } = &mut world.nodes[1];
        let datagram = Datagram {
            coverage: ChecksumCoverage::Whole,
            from: address(0),
            bytes: &bytes,
            congestion_experienced: false,
            wanted: WantedPort::KEEP,
            to_group: true,
        };
        engine.ingest_datagram(&datagram, memory);
        if !posted_first {
            world.recv(1, 7, 64);
        }
        let Node { engine, memory, .. } = &mut world.nodes[1];
        engine.resume_matching(memory);
        let got = engine.poll_recv_completion().unwrap();
        assert_eq!((got.len, got.data), (20, Some(0)), "posted first: {posted_first}");
    }
}

#[test]
fn a_datagram_without_a_receive_waits_for_one() {
    let mut world = world(2);
    world.send(0, 1, 9, pattern(3, 8));
    world.run(SOON);
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    world.audit();
    world.recv(1, 7, 8);
    world.drive(1, Budget::PROGRESS);
    let got = world.completions(1);
    assert_eq!((got[0].context, got[0].outcome, got[0].len), (Context(7), Ok(()), 8));
    assert_eq!(world.received(1, 7), pattern(3, 8));
    assert_eq!(dropped(&world, 1), 0);
}

#[test]
fn datagrams_beyond_the_storage_are_counted_drops_and_unknown_sources_leave_room() {
    const MANY: u64 = 1000;
    let mut world = world(3);
    world.peer(1, 2);
    for _ in 0..MANY {
        world.send(0, 1, 0, vec![0; 8]);
        world.run(SOON);
    }
    let stored = |world: &World| world.nodes[1].engine.stats().messages_unexpected;
    let of_unknown = stored(&world);
    assert_eq!(of_unknown + dropped(&world, 1), MANY);
    world.audit();
    // The application has named the third node.
    world.send(2, 1, 0, vec![2; 8]);
    world.run(SOON);
    assert_eq!(stored(&world), of_unknown + 1);
    world.audit();
}

#[test]
fn a_longer_datagram_is_truncated() {
    let mut world = world(2);
    world.recv(1, 7, 5);
    world.send(0, 1, 9, pattern(3, 8));
    world.run(SOON);
    let got = world.completions(1);
    assert_eq!((got[0].outcome, got[0].len), (Err(OpError::Truncated), 5));
    assert_eq!(world.received(1, 7), pattern(3, 8)[..5]);
}

#[test]
fn datagrams_share_a_multi_receive_buffer() {
    let mut world = world(2);
    world.multi_recv(1, (20, 8), |recv| recv.context = Context(7)).unwrap();
    for seed in 0..4 {
        world.send(0, 1, 0, pattern(seed, 8));
        world.run(SOON);
    }
    let parts = [(7, (0, pattern(0, 8))), (7, (8, pattern(1, 8)))];
    assert_eq!(world.nodes[1].parts, parts);
    world.recv(1, 8, 8);
    world.drive(1, Budget::PROGRESS);
    assert_eq!(world.received(1, 8), pattern(2, 8), "fewer than 8 bytes were left");
    world.audit();
}

#[test]
fn slots_end_the_series_and_polling_continues_it() {
    let mut world = world(2);
    world.set_unpolled(0, true);
    let posted = (0..200).filter(|_| world.send_with(0, 1, |_| {}, vec![1]).is_ok()).count();
    assert_eq!(posted, 128, "the slots of sends");
    world.set_unpolled(0, false);
    world.run(SOON);
    assert_eq!(world.completions(0).len(), 128);
    assert!(world.send_with(0, 1, |_| {}, vec![1]).is_ok());
    world.audit();
}

#[test]
fn datagrams_to_a_removed_peer_end_in_error() {
    let mut world = world(2);
    let peer = world.peer(0, 1);
    let node = &mut world.nodes[0];
    let common = Common::new(peer, Context(3));
    let send = SendRequest { common, len: 1, tag: None, data: None };
    node.engine.post_datagram(send, vec![1].into(), &mut node.memory).unwrap();
    node.engine.remove_peer(peer).unwrap();
    world.audit();
    world.run(SOON);
    assert_eq!(world.completions(0)[0].outcome, Err(OpError::Closed));
    assert_eq!(world.link.packets, 0);
}

#[test]
fn a_slot_is_free_again_after_its_quarantine_while_datagrams_are_polled_for() {
    let config = Config { datagrams: true, peers: 4, ..small() };
    let mut world = World::new(1, 1, &config, Faults::NONE);
    for round in 0..2 {
        for node in 1..=4 {
            let engine = &mut world.nodes[0].engine;
            let peer = engine.insert_peer(address(10 * round + node)).unwrap();
            engine.remove_peer(peer).unwrap();
        }
        let refused = world.nodes[0].engine.insert_peer(address(9));
        assert_eq!(refused, Err(PeersFull::Quarantined));
        world.now += Duration::from_millis(200).as_nanos() as u64;
        world.drive(0, Budget::PROGRESS);
    }
}
