// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine reads a long message by rendezvous with requests of its own. Requests of the
//! application to the same peer proceed at the same time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);
/// A length of some 60 rendezvous reads.
const LEN: usize = 4 << 20;
const MESSAGE: u64 = 7;
const OTHER: u64 = 8;

/// Node 1 reads a long message of node 0 by rendezvous, with as many requests as its credit
/// permits.
fn during_rendezvous(config: &Config) -> World {
    let mut world = World::new(2, 3, config, Faults::NONE);
    world.recv(1, MESSAGE, LEN);
    world.send(0, 1, MESSAGE, pattern(1, LEN));
    let begun = |w: &World| w.nodes[1].engine.stats().bytes_placed > LEN as u64 / 8;
    assert!(world.run_until(SECOND, begun));
    world
}

/// The contexts of node 1's completions, in their order, when the message has arrived.
fn order_of_ends(world: &mut World) -> Vec<u64> {
    let whole = |w: &World| w.nodes[1].completions.iter().any(|c| c.context.0 == MESSAGE);
    assert!(world.run_until(SECOND, whole));
    assert!(world.received(1, MESSAGE) == pattern(1, LEN));
    world.completions(1).iter().map(|c| c.context.0).collect()
}

/// Configurations in which one peer has a credit of 16 requests, or of one.
fn configs() -> [Config; 2] {
    [64, 8].map(|responders| Config { rendezvous_reads: 32, responders, ..small() })
}

#[test]
fn a_read_does_not_wait_for_the_end_of_a_rendezvous_message() {
    for config in configs() {
        let mut world = during_rendezvous(&config);
        let remote = world.region(0, 0, 64, Access::READ);
        world.read(1, 0, OTHER, remote, 8);
        assert_eq!(order_of_ends(&mut world), [OTHER, MESSAGE]);
    }
}

#[test]
fn reads_and_parts_of_a_message_take_turns() {
    for config in configs() {
        let mut world = during_rendezvous(&config);
        let remote = world.region(0, 0, 64, Access::READ);
        // Some requests wait at any time.
        let mut reads = 0;
        while !world.nodes[1].completions.iter().any(|c| c.context.0 == MESSAGE) {
            while world.nodes[1].engine.posted_operations() < 20 {
                world.read(1, 0, OTHER, remote, 8);
                reads += 1;
            }
            assert!(reads < 1_000, "the message comes to nothing");
            assert!(world.step());
        }
        let done = world.completions(1).len();
        assert!(done > 20, "{done} reads");
    }
}

#[test]
fn a_rendezvous_read_orders_no_other_operation() {
    for order in [Order::SAR, Order::WAR, Order::RAR] {
        for config in configs() {
            let mut world = during_rendezvous(&Config { order, ..config });
            let remote = world.region(0, 0, 64, Access::READ | Access::WRITE);
            if order == Order::SAR {
                world.send(1, 0, OTHER, vec![1; 8]);
            } else if order == Order::WAR {
                world.write(1, 0, OTHER, remote, None, vec![1; 8]);
            } else {
                world.read(1, 0, OTHER, remote, 8);
            }
            assert_eq!(order_of_ends(&mut world), [OTHER, MESSAGE], "{order:?}");
        }
    }
}

/// Node 0 has named peer 1, which is silent after it has announced `count` matched messages without
/// a byte. Their receives are posted.
fn ends_for_a_silent_peer(config: &Config, count: u64) -> World {
    let mut world = World::new(3, 79, config, Faults::NONE);
    world.peer(0, 1);
    let (peer, now) = (world.peer(1, 0), world.time());
    for _ in 0..count {
        let common = Common::new(peer, Context(0));
        let request = SendRequest { common, len: 0, tag: None, data: None };
        let node = &mut world.nodes[1];
        node.engine.post_matched_send(now, request, vec![].into(), &mut node.memory).unwrap();
    }
    world.drive(1, Budget::PROGRESS);
    let announced = |w: &World| u64::from(w.nodes[0].engine.stored_messages()) == count;
    assert!(world.run_until(Duration::from_millis(1), announced));
    world.link.cut.push(address(1));
    for context in 10..10 + count {
        world.recv(0, context, 0);
    }
    world.drive(0, Budget::PROGRESS);
    world.completions(0);
    world
}

#[test]
fn ends_for_a_silent_peer_leave_slots_for_rendezvous_reads_from_others() {
    let mut world = ends_for_a_silent_peer(&Config { rendezvous_reads: 32, ..small() }, 40);
    world.recv(0, 1, LEN);
    world.send(2, 0, 2, pattern(2, LEN));
    let came = |w: &World| !w.nodes[0].completions.is_empty();
    assert!(world.run_until(Duration::from_secs(1), came));
    assert_eq!(world.completions(0)[0].context.0, 1);
    assert!(world.received(0, 1) == pattern(2, LEN));
    world.audit();
}

#[test]
fn slots_that_a_silent_peer_leaves_go_to_others_at_once() {
    let mut world = ends_for_a_silent_peer(&Config { rendezvous_reads: 1, ..small() }, 1);
    world.recv(0, 1, LEN / 64);
    world.send(2, 0, 2, pattern(2, LEN / 64));
    let is_over = |w: &World| w.nodes[0].engine.stats().peers_failed == 1;
    assert!(world.run_until(Duration::from_secs(20), is_over));
    assert!(world.nodes[0].completions.is_empty());
    assert!(world.nodes[0].engine.poll_at().is_some_and(|at| at <= world.time()));
    let came = |w: &World| !w.nodes[0].completions.is_empty();
    assert!(world.run_until(Duration::from_millis(10), came));
}
