// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long round trips: the sender's minimum, and the window that follows from it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use std::time::Duration;
use world::*;

const MESSAGES: u64 = 60;
const MESSAGE_LEN: usize = 20_000;

/// Node 0 sends node 1 some 900 packets.
fn bulk(world: &mut World) {
    for context in 0..MESSAGES {
        world.recv(1, context, MESSAGE_LEN);
        world.send(0, 1, context, pattern(context, MESSAGE_LEN));
    }
    let all = |w: &World| w.nodes[0].completions.len() == MESSAGES as usize;
    assert!(world.run_until(Duration::from_secs(60), all));
    assert!(world.completions(0).iter().all(|c| c.outcome.is_ok()));
}

#[test]
fn an_idle_path_with_a_long_round_trip_gets_a_window_that_grows() {
    for one_way in [1, 5, 25, 31, 33, 40].map(Duration::from_millis) {
        let faults = Faults { delay: one_way.as_nanos() as u64, ..Faults::NONE };
        let mut world = World::new(2, 5, &small(), faults);
        world.polls_again = true;
        for time in ["first", "second"] {
            bulk(&mut world);
            let report = world.nodes[0].engine.peer_reports().next().unwrap();
            assert!(report.congestion_window > 16 << 16, "{one_way:?}, {time}: {report:?}");
            let least = report.round_trip_least.abs_diff(one_way * 2);
            assert!(least < Duration::from_micros(2), "{one_way:?}, {time}: {report:?}");
            world.run(one_way * 2 + Duration::from_millis(50));
            assert_eq!(world.nodes[0].engine.connections(), 0, "what was kept is all there is");
        }
    }
}
