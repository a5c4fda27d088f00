// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a connected endpoint leaves in an engine that others share, after its peer is removed and
//! its completions are discarded: nothing that is polled, nothing that another endpoint finds.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);
/// The length of a message that is announced.
const LONG: usize = 100_000;

/// Closes the endpoint with `peer` at node 1.
fn close(world: &mut World, peer: PeerId) {
    let engine = &mut world.nodes[1].engine;
    engine.remove_peer(peer).unwrap();
    engine.cancel_from(peer);
    engine.discard_completions(peer, drop);
}

/// Ends of node 1 that were not discarded.
fn ends(world: &mut World) -> Vec<(u64, Result<(), OpError>)> {
    world.drive(1, Budget::PROGRESS);
    world.completions(1).iter().map(|end| (end.context.0, end.outcome)).collect()
}

#[test]
fn a_long_message_behind_many_of_another_endpoint_ends_without_a_completion() {
    // More than one call looks at.
    const OTHERS: u64 = 200;
    let config = Config { sends: 256, recvs: 256, ..small() };
    let (mut world, pairs) = connected_pairs(&config, 4, Faults::NONE);
    let post = |world: &mut World, context, [from, to]: [PeerId; 2]| {
        let request = |it: &mut RecvRequest| (it.context, it.from) = (Context(context), Some(to));
        world.recv_with(1, LONG, request).unwrap();
        world.send_on(0, from, context, pattern(context, LONG));
    };
    let accepted = |world: &World| world.nodes[1].engine.stats().messages_accepted;
    // Posted before the connections are open: few packets announce them all, and hardly a byte has
    // come. Three peers have all reads that are open at once; the other receives wait.
    let others = [pairs[2], pairs[3]].into_iter().chain(std::iter::repeat(pairs[0]));
    (0..OTHERS).zip(others).for_each(|(context, pair)| post(&mut world, context, pair));
    assert!(world.run_until(SECOND, |world| accepted(world) == OTHERS));
    post(&mut world, OTHERS, pairs[1]);
    assert!(world.run_until(SECOND, |world| accepted(world) > OTHERS));
    world.link.cut.push(address(0));
    world.link.cut.push(address(1));
    close(&mut world, pairs[1][1]);
    world.run(Duration::from_millis(100));
    assert!(!ends(&mut world).iter().any(|end| end.0 == OTHERS));
    world.audit();
}

#[test]
fn a_deferred_operation_that_ends_with_its_endpoint_is_reported_to_its_caller_alone() {
    let (mut world, pairs) = connected_pairs(&small(), 2, Faults::NONE);
    world.run(SECOND);
    let node = &mut world.nodes[1];
    let from = |context, peer| RecvRequest { from: Some(peer), ..any(context, 8) };
    let mut post = |context, peer| {
        let buffer = vec![0; 8].into();
        let request = from(context, peer);
        node.engine.post_deferred_recv(request, true, buffer, &mut node.memory).unwrap()
    };
    let (gone, kept) = (post(1, pairs[0][1]), post(2, pairs[1][1]));
    let sent = {
        let request = |it: &mut SendRequest| it.common.signal = false;
        world.send_to(1, pairs[0][1], request, pattern(1, LONG)).unwrap()
    };
    world.nodes[1].engine.defer(sent, true);
    close(&mut world, pairs[0][1]);
    world.nodes[1].engine.cancel_from(pairs[1][1]);
    let engine = &mut world.nodes[1].engine;
    let mut reported: Vec<_> = std::iter::from_fn(|| engine.poll_deferred()).collect();
    reported.sort_by_key(|(id, _)| matches!(id, DeferredId::Op(_)));
    let [gone, kept] = [gone, kept].map(DeferredId::Recv);
    assert_eq!(reported, [(gone, false), (kept, false), (DeferredId::Op(sent), false)]);
    assert_eq!(ends(&mut world), [(2, Err(OpError::Cancelled))]);
    let engine = &mut world.nodes[1].engine;
    assert_eq!((engine.posted_operations(), engine.posted_receives()), (0, 0));
    world.audit();
}

#[test]
fn a_claimed_message_ends_with_its_endpoint_and_is_no_other_endpoints() {
    let (mut world, pairs) = connected_pairs(&small(), 3, Faults::NONE);
    for (number, pair) in pairs.iter().enumerate() {
        world.send_on(0, pair[0], number as u64, pattern(number as u64, 8));
    }
    world.run(SECOND);
    let from = |pair: [PeerId; 2], len| RecvRequest { from: Some(pair[1]), ..any(7, len) };
    for &pair in &pairs[..2] {
        let node = &mut world.nodes[1];
        node.engine.peek(from(pair, 0), Peek::Claim, &mut node.memory).unwrap();
    }
    assert_eq!(ends(&mut world), [(7, Ok(())), (7, Ok(()))]);
    let claim = |world: &mut World, pair| {
        let node = &mut world.nodes[1];
        node.engine.post_claimed(from(pair, 8), vec![0; 8].into(), &mut node.memory)
    };
    assert_eq!(claim(&mut world, pairs[2]), Err(PostError::NotClaimed));
    claim(&mut world, pairs[1]).unwrap();
    world.run(SECOND);
    let received = world.completions(1);
    assert_eq!(received.iter().map(|it| it.peer).collect::<Vec<_>>(), [pairs[1][1]]);
    assert_eq!(world.nodes[1].engine.stored_messages(), 2);
    close(&mut world, pairs[0][1]);
    assert_eq!(world.nodes[1].engine.stored_messages(), 1, "the claimed one is freed");
    world.audit();
}
