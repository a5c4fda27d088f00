// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives from a queue that engines share, sends that complete with their match, and operations
//! of deferred work, with notified ends.

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

#[test]
fn a_message_takes_a_shared_receive_as_it_arrives() {
    for len in LENGTHS {
        let mut world = World::new(2, 1, &small(), Faults::NONE);
        world.nodes[1].memory.shared.push_back((any(7, len), vec![0xcc; len].into()));
        world.send(0, 1, 9, pattern(3, len));
        world.run(SECOND);
        assert_eq!(world.completions(0).len(), 1);
        let got = world.completions(1);
        assert_eq!((got.len(), got[0].context, got[0].len), (1, Context(7), len as u64));
        assert_eq!(world.nodes[1].parts, [(7, (0, pattern(3, len)))], "{len} bytes");
        assert_eq!(world.nodes[1].engine.stats().messages_unexpected, 0);
    }
}

#[test]
fn a_stored_message_takes_a_shared_receive_that_comes_later() {
    for len in LENGTHS {
        let mut world = World::new(2, 2, &small(), Faults::NONE);
        let node = &mut world.nodes[1];
        assert_eq!(node.engine.stored_len(&any(7, len)), None);
        let refused = node.engine.post_shared(any(7, len), vec![0; len].into(), &mut node.memory);
        assert_eq!(refused, Err(PostError::Again), "nothing fits");
        world.send(0, 1, 9, pattern(3, len));
        world.run(SECOND);
        let node = &mut world.nodes[1];
        assert!(node.engine.has_stored());
        assert_eq!(node.engine.stored_len(&any(7, len)), Some(len as u64));
        node.engine.post_shared(any(7, len), vec![0xcc; len].into(), &mut node.memory).unwrap();
        world.drive(1, Budget::PROGRESS);
        world.run(SECOND);
        assert_eq!(world.nodes[1].parts, [(7, (0, pattern(3, len)))], "{len} bytes");
        assert!(!world.nodes[1].engine.has_stored());
    }
}

#[test]
fn a_message_behind_a_stored_one_overtakes_it() {
    let mut world = World::new(2, 3, &small(), Faults::NONE);
    world.send(0, 1, 1, pattern(1, 8));
    world.run(SECOND);
    world.nodes[1].memory.shared.push_back((any(7, 8), vec![0; 8].into()));
    world.send(0, 1, 2, pattern(2, 8));
    world.run(SECOND);
    assert!(world.nodes[1].parts.is_empty(), "the second was served first");
    assert_eq!(world.nodes[1].engine.stored_messages(), 2);
}

#[test]
fn a_receive_that_no_engine_had_is_cancelled_by_name() {
    let mut world = World::new(2, 4, &small(), Faults::NONE);
    for many in [false, true] {
        world.nodes[1].engine.post_cancelled(any(5, 8), many).unwrap();
        let completion = world.nodes[1].engine.poll_recv_completion().unwrap();
        assert_eq!(completion.outcome, Err(OpError::Cancelled));
        assert_eq!((completion.context, completion.ends_buffer), (Context(5), many));
    }
}

/// Posts a send that completes with its match.
fn matched_send(world: &mut World, len: usize) {
    let peer = world.peer(0, 1);
    let common = Common::new(peer, Context(9));
    let request = SendRequest { common, len: len as u64, tag: Some(1), data: None };
    let (now, node) = (world.time(), &mut world.nodes[0]);
    node.engine.post_matched_send(now, request, pattern(3, len).into(), &mut node.memory).unwrap();
    world.drive(0, Budget::POST);
}

fn tagged(context: u64, len: usize) -> RecvRequest {
    RecvRequest { tag: Some(TagMatch { tag: 1, ignore: 0 }), ..any(context, len) }
}

#[test]
fn a_matched_send_completes_with_its_match() {
    for len in LENGTHS {
        let mut world = World::new(2, 5, &small(), Faults::NONE);
        matched_send(&mut world, len);
        world.run(SECOND);
        assert!(world.completions(0).is_empty(), "{len} bytes: before the match");
        world.recv_with(1, len, |request| *request = tagged(7, len)).unwrap();
        world.drive(1, Budget::PROGRESS);
        world.run(SECOND);
        assert_eq!(world.completions(0).len(), 1, "{len} bytes");
        assert_eq!(world.received(1, 7), pattern(3, len));
    }
}

#[test]
fn a_matched_send_completes_when_its_message_is_dropped() {
    let mut world = World::new(2, 6, &small(), Faults::NONE);
    matched_send(&mut world, 100);
    world.run(SECOND);
    let node = &mut world.nodes[1];
    node.engine.peek(tagged(7, 0), Peek::Discard, &mut node.memory).unwrap();
    world.drive(1, Budget::PROGRESS);
    world.run(SECOND);
    assert_eq!(world.completions(0).len(), 1);
}

#[test]
fn a_deferred_send_is_reported_to_its_caller_and_not_counted() {
    for notified in [false, true] {
        let mut world = World::new(2, 7, &small(), Faults::NONE);
        world.recv(1, 7, 8);
        let id = world.send_with(0, 1, |r| r.common.signal = false, pattern(1, 8)).unwrap();
        world.nodes[0].engine.defer(id, notified);
        world.run(SECOND);
        assert!(world.completions(0).is_empty());
        let engine = &mut world.nodes[0].engine;
        assert_eq!(engine.op_counters().sends.done, u64::from(notified));
        assert_eq!(engine.poll_deferred(), Some((DeferredId::Op(id), true)));
        assert_eq!(engine.poll_deferred(), None);
        assert_eq!(engine.poll_send_completion().is_some(), notified);
        assert_eq!(engine.posted_operations(), 0);
        world.audit();
    }
}

#[test]
fn a_deferred_receive_is_reported_also_if_its_message_was_first() {
    for first in [false, true] {
        let mut world = World::new(2, 8, &small(), Faults::NONE);
        if first {
            world.send(0, 1, 9, pattern(1, 8));
            world.run(SECOND);
        }
        let node = &mut world.nodes[1];
        let buffer = vec![0; 8].into();
        let posted = node.engine.post_deferred_recv(any(7, 8), false, buffer, &mut node.memory);
        if !first {
            world.send(0, 1, 9, pattern(1, 8));
        }
        world.run(SECOND);
        assert!(world.completions(1).is_empty());
        let engine = &mut world.nodes[1].engine;
        assert_eq!(engine.poll_deferred(), Some((DeferredId::Recv(posted.unwrap()), true)));
        assert_eq!((engine.op_counters().receives.done, engine.posted_receives()), (0, 0));
        world.audit();
    }
}

#[test]
fn a_deferred_operation_that_fails_is_reported_twice() {
    let mut world = World::new(2, 9, &small(), Faults::NONE);
    let id = world.send_with(0, 1, |r| r.common.signal = false, pattern(1, 100_000)).unwrap();
    world.nodes[0].engine.defer(id, false);
    let peer = world.peer(0, 1);
    world.nodes[0].engine.remove_peer(peer).unwrap();
    let engine = &mut world.nodes[0].engine;
    assert_eq!(engine.poll_deferred(), Some((DeferredId::Op(id), false)));
    assert_eq!(engine.op_counters().sends, OpCount::default());
    assert_eq!(engine.poll_send_completion().unwrap().outcome, Err(OpError::Closed));
}

#[test]
fn an_unstarted_operation_is_reported_and_counted_like_a_posted_one() {
    let mut world = World::new(2, 10, &small(), Faults::NONE);
    // An unstarted receive does not take a stored message.
    world.send(1, 0, 9, pattern(1, 8));
    world.run(SECOND);
    let engine = &mut world.nodes[0].engine;
    let error = OpError::Cancelled;
    let mut end = |kind, fetches, multi| {
        let op = UnstartedOp { context: Context(5), kind, fetches, multi, peer: PeerId::NONE };
        engine.fail_unstarted(&op, error).unwrap();
        let sends = matches!(kind, OpKind::Send { .. } | OpKind::Write | OpKind::Atomic);
        let notified = engine.poll_send_completion().or_else(|| engine.poll_recv_completion());
        let notified = notified.unwrap();
        assert_eq!(
            (notified.context, notified.kind, notified.outcome),
            (Context(5), kind, Err(error))
        );
        assert_eq!((notified.ends_buffer, notified.len), (multi && !sends, 0));
    };
    end(OpKind::Send { tagged: true }, false, false);
    end(OpKind::Recv { tagged: false }, false, false);
    end(OpKind::Recv { tagged: true }, false, true);
    end(OpKind::Write, false, false);
    end(OpKind::Atomic, false, false);
    end(OpKind::Atomic, true, false);
    let failed = |failed| OpCount { done: 0, failed };
    let OpCounters { sends, receives, writes, reads, .. } = *engine.op_counters();
    assert_eq!([sends, receives, writes, reads], [1, 2, 2, 1].map(failed));
    // Completions of unstarted operations hold slots, as all completions do.
    let (context, peer, kind) = (Context(5), PeerId::NONE, OpKind::Read);
    let op = UnstartedOp { context, kind, fetches: false, multi: false, peer };
    let posted = std::iter::from_fn(|| engine.fail_unstarted(&op, error).ok()).count() as u64;
    assert_eq!((engine.free_operations(), posted), (0, u64::from(small().sends)));
    world.audit();
}
