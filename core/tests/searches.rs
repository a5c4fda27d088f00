// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives that search thousands of stored messages in several calls.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);
/// Stored messages with different tags.
const STORED: u64 = 1500;
/// Kinds of receives: more than there are views.
const KINDS: u64 = 12;

/// A tag as a receive of one of many kinds wants it. No message has the ignored bit.
fn of_kind(kind: u64, tag: u64) -> TagMatch {
    TagMatch { tag, ignore: 1 << (40 + kind) }
}

fn send(world: &mut World, tag: u64, bytes: Vec<u8>) {
    world.send_with(0, 1, |r| r.tag = Some(tag), bytes).unwrap();
}

fn recv(world: &mut World, context: u64, tag: TagMatch) {
    let request = |r: &mut RecvRequest| (r.context, r.tag) = (Context(context), Some(tag));
    world.recv_with(1, 8, request).unwrap();
}

/// The receives that have completed.
fn outcomes(world: &mut World) -> Vec<(u64, Result<(), OpError>)> {
    world.drive(1, Budget::POST);
    world.completions(1).iter().map(|c| (c.context.0, c.outcome)).collect()
}

/// The contexts of those.
fn ends(world: &mut World) -> Vec<u64> {
    outcomes(world).iter().map(|&(context, _)| context).collect()
}

/// A world in which node 1 has stored a message of each tag, with its tag as its bytes.
fn with_stored_messages() -> World {
    let unexpected = [4 * STORED as u32, 0, 0, 0];
    let config = Config { unexpected, sends: 2 * STORED as u32, recvs: 64, ..small() };
    let mut world = World::new(2, 5, &config, Faults::NONE);
    for tag in 0..STORED {
        send(&mut world, tag, tag.to_le_bytes().to_vec());
    }
    world.run(SECOND);
    assert_eq!(u64::from(world.nodes[1].engine.stored_messages()), STORED);
    world
}

#[test]
fn a_receive_of_a_new_kind_searches_in_several_calls() {
    let mut world = with_stored_messages();
    for kind in 0..KINDS {
        let tag = STORED - 1 - kind;
        recv(&mut world, kind, of_kind(kind, tag));
        let now = world.time();
        assert_eq!(world.nodes[1].engine.poll_at(), Some(now), "the search goes on");
        let mut calls = 0;
        while world.nodes[1].engine.has_searches() {
            world.drive(1, Budget::PROGRESS);
            world.audit();
            calls += 1;
        }
        assert!(calls >= STORED / 300, "kind {kind}: {calls} calls");
        assert_eq!(ends(&mut world), [kind]);
        assert_eq!(world.received(1, kind), tag.to_le_bytes());
    }
    assert_eq!(u64::from(world.nodes[1].engine.stored_messages()), STORED - KINDS);
}

#[test]
fn receives_behind_a_search_wait_and_messages_keep_their_order() {
    let mut world = with_stored_messages();
    for seed in [1, 2] {
        send(&mut world, STORED, vec![seed; 8]);
    }
    world.run(SECOND);
    recv(&mut world, 0, of_kind(0, STORED));
    // The first message would match this one at once.
    recv(&mut world, 1, TagMatch { tag: 0, ignore: 0 });
    recv(&mut world, 2, TagMatch { tag: STORED, ignore: 0 });
    recv(&mut world, 3, of_kind(0, STORED));
    assert_eq!(ends(&mut world), [], "they wait for the search");
    // It arrives while they search, and is not taken before the stored ones.
    send(&mut world, STORED, vec![3; 8]);
    world.run(SECOND);
    assert_eq!(ends(&mut world), [0, 1, 2, 3]);
    assert_eq!(world.received(1, 1), 0u64.to_le_bytes());
    for (context, seed) in [(0, 1), (2, 2), (3, 3)] {
        assert_eq!(world.received(1, context), [seed; 8], "receive {context}");
    }
}

#[test]
fn a_search_that_finds_nothing_posts_its_receive() {
    let mut world = with_stored_messages();
    recv(&mut world, 0, of_kind(0, STORED));
    world.run(SECOND);
    assert_eq!(ends(&mut world), []);
    send(&mut world, STORED, vec![7; 8]);
    world.run(SECOND);
    assert_eq!(ends(&mut world), [0]);
    assert_eq!(world.received(1, 0), [7; 8]);
}

#[test]
fn a_receive_that_searches_can_be_cancelled() {
    let mut world = with_stored_messages();
    let last = STORED - 1;
    for context in 0..3 {
        recv(&mut world, context, of_kind(0, last));
    }
    for context in [1, 0] {
        assert!(world.nodes[1].engine.cancel(Context(context)));
        world.audit();
    }
    assert!(!world.nodes[1].engine.cancel(Context(0)), "it is cancelled");
    world.run(SECOND);
    let cancelled = Err(OpError::Cancelled);
    assert_eq!(outcomes(&mut world), [(1, cancelled), (0, cancelled), (2, Ok(()))]);
    recv(&mut world, 4, of_kind(1, last));
    world.nodes[1].engine.cancel_all();
    assert_eq!(ends(&mut world), [4]);
}

#[test]
fn a_peek_comes_behind_the_receives_that_search() {
    let mut world = with_stored_messages();
    let last = STORED - 1;
    recv(&mut world, 0, of_kind(0, last));
    let node = &mut world.nodes[1];
    let peek = RecvRequest { tag: Some(of_kind(1, last)), ..any(1, 0) };
    node.engine.peek(peek, Peek::Envelope, &mut node.memory).unwrap();
    world.run(SECOND);
    assert_eq!(outcomes(&mut world), [(0, Ok(())), (1, Err(OpError::NoMessage))]);
}

#[test]
fn a_multi_receive_buffer_comes_behind_the_receives_that_search() {
    let mut world = with_stored_messages();
    recv(&mut world, 0, of_kind(0, 0));
    recv(&mut world, 1, of_kind(1, STORED - 1));
    let request = |r: &mut RecvRequest| {
        (r.context, r.tag) = (Context(2), Some(TagMatch { tag: 0, ignore: !1 }));
    };
    world.multi_recv(1, (32, 8), request).unwrap();
    world.run(SECOND);
    let ended = ends(&mut world);
    assert_eq!(ended[..2], [0, 1]);
    assert_eq!(world.received(1, 1), (STORED - 1).to_le_bytes());
    assert!(ended[2..].iter().all(|&context| context == 2), "{ended:?}");
    assert_eq!(ended.len(), 6, "the buffer has room for four");
}

/// A receive that walks past messages which wait for a slice of a buffer of `len` bytes. Its
/// context is 9, and that of the buffer 1. Node 1 is not polled.
fn walk_past_waiting_messages(len: usize, tag: u64) -> World {
    const WAITING: u64 = 600;
    let unexpected = [2 * WAITING as u32, 0, 0, 0];
    let config = Config { unexpected, slices: 1, sends: 1024, ..small() };
    let mut world = World::new(2, 6, &config, Faults::NONE);
    world.set_unpolled(1, true);
    let all = Some(TagMatch { tag: 0, ignore: !0 });
    world.multi_recv(1, (len, 8), |r| (r.context, r.tag) = (Context(1), all)).unwrap();
    for tag in 0..=WAITING {
        send(&mut world, tag, tag.to_le_bytes().to_vec());
    }
    world.run(SECOND);
    assert_eq!(u64::from(world.nodes[1].engine.stored_messages()), WAITING);
    // Other kinds take the views. They find nothing.
    for kind in 0..4 {
        recv(&mut world, 20 + kind, of_kind(kind, u64::MAX >> 32));
        while world.nodes[1].engine.has_searches() {
            world.drive(1, Budget::PROGRESS);
        }
    }
    recv(&mut world, 9, of_kind(9, tag));
    assert!(world.nodes[1].engine.has_searches(), "it walks");
    world
}

#[test]
fn a_search_finds_messages_that_a_cancelled_buffer_gives_up() {
    let mut world = walk_past_waiting_messages(1 << 10, 1);
    assert!(world.nodes[1].engine.cancel(Context(1)));
    world.set_unpolled(1, false);
    world.run(SECOND);
    assert!(ends(&mut world).contains(&9));
    assert_eq!(world.received(1, 9), 1u64.to_le_bytes());
}

#[test]
fn a_search_finds_messages_that_a_full_buffer_gives_up() {
    let mut world = walk_past_waiting_messages(16, 2);
    world.set_unpolled(1, false);
    world.run(SECOND);
    assert!(ends(&mut world).contains(&9));
    assert_eq!(world.received(1, 9), 2u64.to_le_bytes());
}
