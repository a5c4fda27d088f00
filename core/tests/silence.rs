// SPDX-License-Identifier: MIT OR Apache-2.0
//! Silence of a peer (`docs/PROTOCOL.md` §4.5): seen by a side with a bad link, and by a side that
//! did not read its packets.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);
/// A length beyond the eager limit: the sender waits until a receive is posted.
const LEN: usize = 100_000;

/// Node 0 has announced a long message to node 1, which has no receive for it.
fn waiting(seed: u64, faults: Faults) -> World {
    let mut world = World::new(2, seed, &small(), faults);
    world.send(0, 1, 5, pattern(1, LEN));
    let announced = |w: &World| {
        let soon = w.time().after(Duration::from_millis(100));
        let stored = w.nodes[1].engine.stored_messages() == 1;
        stored && w.nodes[0].engine.poll_at().is_some_and(|at| at > soon)
    };
    assert!(world.run_until(SECOND * 9, announced));
    world
}

/// Posts the receive: no operation has ended yet, and all end successfully now.
fn arrives(mut world: World) {
    assert_eq!(world.completions(0), []);
    world.recv(1, 1, LEN);
    world.drive(1, Budget::PROGRESS);
    assert!(world.run_until(SECOND * 9, |w| !w.nodes[0].completions.is_empty()));
    assert_eq!(world.completions(0)[0].outcome, Ok(()));
    assert_eq!(world.received(1, 1), pattern(1, LEN));
}

#[test]
fn a_long_message_waits_for_its_receive_on_a_bad_link() {
    for seed in 0..3 {
        let mut world = waiting(seed, Faults { loss: 10.0, ..Faults::NONE });
        world.run(SECOND * 3600);
        arrives(world);
    }
}

#[test]
fn a_stopped_application_pings_before_it_gives_up_a_peer() {
    for seconds in [3, 9, 12, 60, 130, 150, 200, 275, 412, 1_000_000] {
        let mut world = waiting(4, Faults::NONE);
        for _ in 0..5 {
            world.now += seconds * 1_000_000_000;
            world.run(Duration::from_millis(1));
        }
        arrives(world);
    }
}

/// Each call brings the packets that the medium has kept meanwhile: a few probes are enough.
#[test]
fn a_slow_poller_gives_up_a_dead_peer_after_a_few_polls() {
    for seconds in [1, 2, 3, 5, 20, 200, 1_000_000] {
        let mut world = waiting(5, Faults::NONE);
        world.link.cut.push(address(1));
        let mut polls = 0;
        while world.nodes[0].completions.is_empty() {
            world.now += seconds * 1_000_000_000;
            world.drive(0, Budget::PROGRESS);
            world.audit();
            polls += 1;
            assert!(polls <= 5.max(10 / seconds + 1), "{seconds} s");
        }
        assert_eq!(world.completions(0)[0].outcome, Err(OpError::TimedOut));
        assert!(polls >= 4.max(10 / seconds), "{seconds} s: {polls} polls");
    }
}

/// No packet is lost, and all are late: a process that has no core reads none of them.
#[test]
fn a_receiver_without_a_core_costs_no_packet() {
    const LEN: usize = 1 << 20;
    /// Steps of a receiver between two times without a core.
    const TURNS: u32 = 8;
    let config = Config { port_packets: 16 << 10, ..small() };
    let mut world = World::new(2, 5, &config, Faults::NONE);
    let remote = world.region(1, 1 << 30, LEN, Access::WRITE);
    for context in 0..10 {
        world.write(0, 1, context, remote, None, pattern(context, LEN));
        for turn in 1.. {
            // 4 ms of another process on the receiver's core.
            let steps = if turn == TURNS { 400 } else { 1 };
            for _ in 0..steps {
                world.now += 10_000;
                world.drive(0, Budget::PROGRESS);
            }
            world.drive(1, Budget::PROGRESS);
            if !world.completions(0).is_empty() {
                break;
            }
            assert!(turn < 100 * TURNS, "write {context} does not end");
        }
    }
    let stats = world.nodes[0].engine.stats();
    assert!(stats.timeouts >= 10, "{stats:?}");
    assert_eq!((stats.retransmissions, stats.losses_by_ack), (0, 0), "{stats:?}");
}
