// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peeks, claims and discards of messages, and multi-receive buffers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);
/// Lengths of a message in one record, in several packets, and by rendezvous.
const LENGTHS: [usize; 4] = [0, 100, 10_000, 100_000];
const TAG: u64 = 0x1234;

fn tagged(context: u64) -> RecvRequest {
    RecvRequest { tag: Some(TagMatch { tag: TAG, ignore: 0 }), ..any(context, 0) }
}

/// Node 0 sends a tagged message with data to node 1.
fn send(world: &mut World, seed: u64, len: usize) {
    let request = |r: &mut SendRequest| (r.tag, r.data) = (Some(TAG), Some(seed << 40));
    world.send_with(0, 1, request, pattern(seed, len)).unwrap();
}

/// Lets node 1 send its posted operations, and runs until both nodes are idle.
fn run_until_idle(world: &mut World) {
    world.drive(1, Budget::POST);
    world.run(SECOND);
}

/// A world in which a message of node 0 is stored at node 1.
fn stored(len: usize) -> World {
    let mut world = World::new(2, 11, &small(), Faults::NONE);
    send(&mut world, 3, len);
    world.run(SECOND);
    assert_eq!(world.nodes[1].engine.stored_messages(), 1);
    world
}

fn post_peek(world: &mut World, request: RecvRequest, peek: Peek) -> Completion {
    let node = &mut world.nodes[1];
    node.engine.peek(request, peek, &mut node.memory).unwrap();
    world.drive(1, Budget::POST);
    only(world.completions(1))
}

fn only(mut completions: Vec<Completion>) -> Completion {
    assert_eq!(completions.len(), 1, "{completions:?}");
    completions.remove(0)
}

/// The finished receives of node 1.
fn received(world: &World) -> OpCount {
    world.nodes[1].engine.op_counters().receives
}

/// Checks that a peek has found the message of [`stored`].
fn check_found(world: &World, found: &Completion, context: u64, len: usize) {
    assert_eq!((found.context, found.outcome), (Context(context), Ok(())));
    assert_eq!(found.kind, OpKind::Recv { tagged: true });
    assert_eq!((found.len, found.tag, found.data), (len as u64, TAG, Some(3 << 40)));
    assert_eq!((found.overflow, found.slice, found.ends_buffer), (0, None, false));
    assert_eq!(world.nodes[1].engine.peer_address(found.peer), Some(address(0)));
}

/// Posts the receive of a claimed message; returns its completion and its bytes.
fn claim(world: &mut World, context: u64, len: usize) -> (Completion, Vec<u8>) {
    let request = RecvRequest { len: len as u64, ..tagged(context) };
    let node = &mut world.nodes[1];
    let id = node.engine.post_claimed(request, vec![0xcc; len].into(), &mut node.memory).unwrap();
    run_until_idle(world);
    let bytes = world.nodes[1].memory.take_recv(id).unwrap();
    (only(world.completions(1)), bytes)
}

#[test]
fn a_peek_reports_a_message_and_leaves_it() {
    for len in LENGTHS {
        let mut world = stored(len);
        for context in [7, 8] {
            let found = post_peek(&mut world, tagged(context), Peek::Envelope);
            check_found(&world, &found, context, len);
        }
        assert_eq!(received(&world), OpCount::default());
        let request = |r: &mut RecvRequest| (r.context, r.tag) = (Context(9), tagged(0).tag);
        world.recv_with(1, len, request).unwrap();
        run_until_idle(&mut world);
        assert_eq!(only(world.completions(1)).outcome, Ok(()));
        assert_eq!(world.received(1, 9), pattern(3, len));
        assert_eq!(received(&world), OpCount { done: 1, failed: 0 });
    }
}

#[test]
fn a_peek_that_finds_nothing_says_so() {
    for peek in [Peek::Envelope, Peek::Claim, Peek::Discard] {
        let mut world = stored(100);
        let other = world.peer(1, 1);
        let wrong = [
            RecvRequest { tag: Some(TagMatch { tag: TAG + 1, ignore: 0 }), ..tagged(1) },
            RecvRequest { tag: None, ..tagged(1) },
            RecvRequest { from: Some(other), ..tagged(1) },
        ];
        for request in wrong {
            let request = RecvRequest { signal: false, ..request };
            let found = post_peek(&mut world, request, peek);
            assert_eq!((found.outcome, found.len), (Err(OpError::NoMessage), 0));
        }
        assert_eq!(world.nodes[1].engine.stored_messages(), 1);
        assert_eq!(received(&world), OpCount::default());
    }
}

#[test]
fn a_claimed_message_is_kept_for_its_claim() {
    for len in LENGTHS {
        let mut world = stored(len);
        send(&mut world, 4, 50);
        world.run(SECOND);
        let found = post_peek(&mut world, tagged(7), Peek::Claim);
        check_found(&world, &found, 7, len);
        let node = &mut world.nodes[1];
        let unknown = node.engine.post_claimed(tagged(8), Vec::new().into(), &mut node.memory);
        assert_eq!(unknown, Err(PostError::NotClaimed));
        assert!(!node.engine.cancel(Context(7)), "nothing is posted");
        // Other receives get the next message.
        assert_eq!(post_peek(&mut world, tagged(8), Peek::Envelope).len, 50);
        let request = |r: &mut RecvRequest| (r.context, r.tag) = (Context(9), tagged(0).tag);
        world.recv_with(1, len.max(50), request).unwrap();
        run_until_idle(&mut world);
        assert_eq!(only(world.completions(1)).len, 50);
        let (got, bytes) = claim(&mut world, 7, len);
        assert_eq!((got.outcome, got.len, got.data), (Ok(()), len as u64, Some(3 << 40)));
        assert_eq!(bytes, pattern(3, len));
        assert_eq!(received(&world), OpCount { done: 2, failed: 0 });
        assert!(world.completions(0).iter().all(|sent| sent.outcome.is_ok()));
        let node = &mut world.nodes[1];
        let again = node.engine.discard_claimed(tagged(7));
        assert_eq!(again, Err(PostError::NotClaimed));
    }
}

#[test]
fn a_discarded_message_is_gone_and_completes_its_send() {
    for len in LENGTHS {
        for claimed in [false, true] {
            let mut world = stored(len);
            let placed = world.nodes[1].memory.placed;
            if claimed {
                post_peek(&mut world, tagged(7), Peek::Claim);
                world.nodes[1].engine.discard_claimed(tagged(7)).unwrap();
                world.drive(1, Budget::POST);
                let dropped = only(world.completions(1));
                check_found(&world, &dropped, 7, len);
            } else {
                let found = post_peek(&mut world, tagged(7), Peek::Discard);
                check_found(&world, &found, 7, len);
            }
            world.run(SECOND);
            assert_eq!(only(world.completions(0)).outcome, Ok(()));
            assert_eq!(world.nodes[1].engine.stored_messages(), 0);
            assert_eq!(world.nodes[1].memory.placed, placed, "bytes that nobody wants");
            assert_eq!(received(&world), OpCount::default());
        }
    }
}

/// A world in which a message of several packets has begun to arrive.
fn arriving() -> (World, usize) {
    let len = 30_000;
    let mut world = World::new(2, 12, &small(), Faults::NONE);
    world.link.faults.jitter = 50_000;
    send(&mut world, 3, len);
    assert!(world.run_until(SECOND, |w| w.nodes[1].engine.stats().messages_unexpected == 1));
    (world, len)
}

#[test]
fn a_message_that_is_still_arriving_is_claimed_or_dropped() {
    for peek in [Peek::Claim, Peek::Discard] {
        let (mut world, len) = arriving();
        let found = post_peek(&mut world, tagged(7), peek);
        check_found(&world, &found, 7, len);
        assert!(world.completions(0).is_empty(), "not all of it has arrived");
        if peek == Peek::Claim {
            let (got, bytes) = claim(&mut world, 7, len);
            assert_eq!((got.outcome, bytes), (Ok(()), pattern(3, len)));
        }
        world.run(SECOND);
        assert_eq!(only(world.completions(0)).outcome, Ok(()));
        assert_eq!(world.nodes[1].engine.stored_messages(), 0);
    }
}

#[test]
fn a_claim_of_a_message_that_never_comes_ends_in_error() {
    for drop in [false, true] {
        for (mut world, len) in [arriving(), (stored(100_000), 100_000)] {
            post_peek(&mut world, tagged(7), Peek::Claim);
            let peer = world.peer(1, 0);
            world.nodes[1].engine.remove_peer(peer).unwrap();
            world.audit();
            if drop {
                world.nodes[1].engine.discard_claimed(tagged(7)).unwrap();
                world.drive(1, Budget::POST);
                assert_eq!(only(world.completions(1)).outcome, Ok(()));
            } else {
                assert_eq!(claim(&mut world, 7, len).0.outcome, Err(OpError::Closed));
            }
            assert_eq!(world.nodes[1].engine.stored_messages(), 0);
            world.audit();
        }
        // A stored message stays.
        let mut world = stored(100);
        post_peek(&mut world, tagged(7), Peek::Claim);
        let peer = world.peer(1, 0);
        world.nodes[1].engine.remove_peer(peer).unwrap();
        assert_eq!(claim(&mut world, 7, 100).1, pattern(3, 100));
    }
}

/// More than the time in which a slot is in quarantine.
const QUARANTINE_NANOS: u64 = 200_000_000;

/// A peer identifier comes again after 256 tenants of its slot.
#[test]
fn messages_of_a_removed_peer_are_not_those_of_a_later_one() {
    let config = Config { peers: 1, connections: 1, ..small() };
    for claimed in [false, true] {
        let mut world = World::new(2, 20, &config, Faults::NONE);
        send(&mut world, 3, 100);
        world.run(SECOND);
        if claimed {
            post_peek(&mut world, tagged(7), Peek::Claim);
        }
        let sender = world.peer(1, 0);
        let mut peer = sender;
        for tenant in 1..=256 {
            let engine = &mut world.nodes[1].engine;
            engine.remove_peer(peer).unwrap();
            world.drive(1, Budget::POST);
            world.now += QUARANTINE_NANOS;
            let now = world.time();
            let engine = &mut world.nodes[1].engine;
            engine.advance(now);
            peer = engine.insert_peer(address(5)).unwrap();
            assert_eq!(peer == sender, tenant == 256);
        }
        if claimed {
            assert_eq!(claim(&mut world, 7, 100).0.peer, PeerId::NONE);
            continue;
        }
        let from = |r: &mut RecvRequest| *r = RecvRequest { from: Some(peer), ..tagged(7) };
        world.recv_with(1, 100, from).unwrap();
        assert_eq!(world.nodes[1].engine.stored_messages(), 1, "it is nobody's");
        world.nodes[1].engine.cancel_all();
        world.drive(1, Budget::POST);
        world.completions(1);
        world.recv_with(1, 100, |r| *r = RecvRequest { len: 100, ..tagged(8) }).unwrap();
        world.drive(1, Budget::POST);
        let got = only(world.completions(1));
        assert_eq!((got.outcome, got.peer), (Ok(()), PeerId::NONE));
        world.audit();
    }
}

/// The slices of a multi-receive buffer: offset and bytes.
fn parts(world: &mut World, node: usize) -> Vec<(usize, Vec<u8>)> {
    std::mem::take(&mut world.nodes[node].parts).into_iter().map(|(_, part)| part).collect()
}

#[test]
fn messages_of_every_size_share_a_buffer() {
    let lengths = [10, 0, 5000, 100_000, 1, 40_000, 3];
    let total: usize = lengths.iter().sum();
    for posted_first in [true, false] {
        let mut world = World::new(2, 13, &small(), Faults::NONE);
        let context = |r: &mut RecvRequest| r.context = Context(7);
        if posted_first {
            world.multi_recv(1, (total + 99, 100), context).unwrap();
        }
        for (n, len) in lengths.into_iter().enumerate() {
            world.send(0, 1, n as u64, pattern(n as u64, len));
        }
        world.run(SECOND);
        if !posted_first {
            world.multi_recv(1, (total + 99, 100), context).unwrap();
            run_until_idle(&mut world);
        }
        let done = world.completions(1);
        assert_eq!(done.len(), lengths.len());
        for (n, completion) in done.iter().enumerate() {
            assert_eq!((completion.outcome, completion.context), (Ok(()), Context(7)));
            assert_eq!(completion.kind, OpKind::Recv { tagged: false });
            assert_eq!(completion.ends_buffer, n + 1 == done.len(), "the last one says so");
        }
        // Each slice lies behind the one before, in the order of the messages.
        let mut got = parts(&mut world, 1);
        let key = |(start, bytes): &(usize, Vec<u8>)| (*start, bytes.len());
        got.sort_by_key(key);
        let mut start = 0;
        for (n, len) in lengths.into_iter().enumerate() {
            let expected = (start, pattern(n as u64, len));
            let at = got.iter().position(|part| *part == expected);
            got.remove(at.unwrap_or_else(|| panic!("message {n} at {start}")));
            start += len;
        }
        assert_eq!(world.nodes[1].engine.posted_receives(), 0);
    }
}

#[test]
fn a_buffer_is_released_when_less_than_the_least_is_left() {
    let mut world = World::new(2, 14, &small(), Faults::NONE);
    world.multi_recv(1, (100, 20), |r| (r.context, r.signal) = (Context(7), false)).unwrap();
    world.recv(1, 8, 100);
    // 20 bytes are left: the buffer takes one more message, truncated to that length.
    for (n, len) in [(0, 50), (1, 30)] {
        world.send(0, 1, n, pattern(n, len));
        world.run(SECOND);
        assert!(world.completions(1).is_empty(), "success was not asked for");
    }
    world.send(0, 1, 2, pattern(2, 33));
    world.run(SECOND);
    let last = only(world.completions(1));
    assert_eq!((last.outcome, last.len, last.overflow), (Err(OpError::Truncated), 20, 13));
    assert!(last.ends_buffer);
    assert_eq!(parts(&mut world, 1), [(80, pattern(2, 33)[..20].to_vec())]);
    // The next message goes to the next receive.
    world.send(0, 1, 3, pattern(3, 10));
    world.run(SECOND);
    assert_eq!(only(world.completions(1)).context, Context(8));
    // A message that fits releases the buffer; its success makes a completion, too.
    world.multi_recv(1, (100, 0), |r| (r.context, r.signal) = (Context(9), false)).unwrap();
    for (n, len) in [(0, 99), (1, 0), (2, 1)] {
        assert!(world.completions(1).is_empty());
        world.send(0, 1, n, pattern(n, len));
        world.run(SECOND);
    }
    let last = only(world.completions(1));
    assert_eq!((last.outcome, last.len, last.ends_buffer), (Ok(()), 1, true));
}

#[test]
fn the_last_message_to_end_releases_the_buffer() {
    let mut world = World::new(2, 15, &small(), Faults::NONE);
    world.multi_recv(1, (100_100, 64), |r| r.context = Context(7)).unwrap();
    // The long message is matched first and ends last.
    world.send(0, 1, 0, pattern(0, 100_000));
    world.send(0, 1, 1, pattern(1, 90));
    world.run(SECOND);
    let done = world.completions(1);
    let seen: Vec<_> = done.iter().map(|c| (c.len, c.ends_buffer)).collect();
    assert_eq!(seen, [(90, false), (100_000, true)]);
    let got = parts(&mut world, 1);
    assert_eq!(got, [(100_000, pattern(1, 90)), (0, pattern(0, 100_000))]);
}

#[test]
fn a_cancelled_buffer_ends_after_the_messages_in_it() {
    for open in [false, true] {
        let mut world = World::new(2, 16, &small(), Faults::NONE);
        world.multi_recv(1, (200_000, 64), |r| r.context = Context(7)).unwrap();
        let len = if open { 100_000 } else { 10 };
        world.send(0, 1, 0, pattern(0, len));
        let matched = |w: &World| w.nodes[1].engine.stats().messages_accepted == 1;
        assert!(world.run_until(SECOND, matched));
        assert!(world.nodes[1].engine.cancel(Context(7)));
        assert!(!world.nodes[1].engine.cancel(Context(7)), "once");
        world.audit();
        run_until_idle(&mut world);
        let done = world.completions(1);
        let seen: Vec<_> = done.iter().map(|c| (c.outcome, c.len, c.ends_buffer)).collect();
        let cancelled = (Err(OpError::Cancelled), 0, true);
        assert_eq!(seen, [(Ok(()), len as u64, false), cancelled]);
        let op_counters = world.nodes[1].engine.op_counters().receives;
        assert_eq!((op_counters.done, op_counters.failed), (1, 1), "open: {open}");
        // New messages are stored.
        world.send(0, 1, 1, pattern(1, 10));
        world.run(SECOND);
        assert_eq!(world.nodes[1].engine.stored_messages(), 1);
    }
}

#[test]
fn a_connection_that_ends_releases_the_buffer() {
    let mut world = World::new(2, 17, &small(), Faults::NONE);
    world.multi_recv(1, (100_000, 64), |r| r.context = Context(7)).unwrap();
    world.send(0, 1, 0, pattern(0, 100_000));
    assert!(world.run_until(SECOND, |w| w.nodes[1].engine.stats().rendezvous == 1));
    let peer = world.peer(1, 0);
    world.nodes[1].engine.remove_peer(peer).unwrap();
    world.drive(1, Budget::POST);
    world.audit();
    let failed = only(world.completions(1));
    assert_eq!((failed.outcome, failed.ends_buffer), (Err(OpError::Closed), true));
}

#[test]
fn without_slots_for_parts_messages_wait_in_order() {
    // Twice as many messages as slots are stored. Later messages must not overtake them, although a
    // receive was posted for those.
    let mut world = World::new(2, 18, &small(), Faults::NONE);
    for n in 0..20 {
        world.send(0, 1, n, pattern(n, 16));
    }
    world.run(SECOND);
    let node = &mut world.nodes[1];
    let request = any(7, 16 * 24);
    let buffer = vec![0xcc; 16 * 24].into();
    node.engine.post_multi_recv(request, 16, buffer, &mut node.memory).unwrap();
    assert_eq!(node.engine.stored_messages(), 20 - 8);
    let id = node.engine.post_recv(any(8, 16), vec![0; 16].into(), &mut node.memory).unwrap();
    assert_eq!(node.engine.stored_messages(), 20 - 8, "they belong to the buffer");
    node.engine.peek(any(9, 0), Peek::Envelope, &mut node.memory).unwrap();
    for n in 20..25 {
        world.send(0, 1, n, pattern(n, 16));
    }
    world.run(SECOND);
    let done = world.completions(1);
    let contexts: Vec<_> = done.iter().map(|c| c.context.0).collect();
    let expected = [vec![7; 8], vec![9], vec![7; 16], vec![8]].concat();
    assert_eq!(contexts, expected);
    assert_eq!(done[8].outcome, Err(OpError::NoMessage));
    let got = parts(&mut world, 1);
    for (n, part) in got.iter().enumerate() {
        assert_eq!(*part, (16 * n, pattern(n as u64, 16)));
    }
    assert_eq!(world.nodes[1].memory.take_recv(id).unwrap(), pattern(24, 16));
}

#[test]
fn a_message_that_finds_no_slot_for_its_part_is_stored() {
    // Completions are not polled: eight slices are in use, four more messages are stored, none is
    // lost.
    let mut world = World::new(2, 19, &small(), Faults::NONE);
    world.multi_recv(1, (1000, 64), |r| r.context = Context(7)).unwrap();
    for n in 0..12 {
        world.send(0, 1, n, pattern(n, 16));
    }
    let node = &mut world.nodes[1];
    let waiting = node.engine.poll_recv_completion();
    assert!(waiting.is_none());
    world.run_unpolled(1, SECOND);
    let engine = &mut world.nodes[1].engine;
    assert_eq!(engine.stored_messages(), 4);
    engine.audit().unwrap();
    let (now, engine) = (world.time(), &mut world.nodes[1].engine);
    let is_due = |engine: &Engine<'_>| engine.poll_at().is_some_and(|at| at <= now);
    assert!(!is_due(engine), "no slice is free");
    let first = engine.poll_recv_completion().unwrap();
    assert!(is_due(engine), "the call that reads completions moves no message");
    let part = world.nodes[1].memory.slice(first.slice.unwrap(), first.len).unwrap();
    world.nodes[1].parts.push((7, (part.0 as usize, part.1)));
    world.drive(1, Budget::PROGRESS);
    world.drive(1, Budget::PROGRESS);
    let got = parts(&mut world, 1);
    assert_eq!(got.len(), 12);
    for (n, part) in got.into_iter().enumerate() {
        assert_eq!(part, (16 * n, pattern(n as u64, 16)));
    }
}
