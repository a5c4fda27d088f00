// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the silence of a peer means to who asks on a bad link (`docs/PROTOCOL.md` §4.5).

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]
#![allow(clippy::std_instead_of_core, reason = "tests have std")]
#![allow(unreachable_pub, missing_docs, missing_debug_implementations, reason = "nobody else's")]

mod world;

use ofi_xdp_core::*;
use std::time::Duration;
use world::*;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than is pushed: its sender waits until a receive is posted.
const LEN: usize = 100_000;

/// Node 0 has announced a long message to node 1, which has no receive for it, and waits.
fn waiting(seed: u64, faults: Faults) -> World {
    let mut world = World::new(2, seed, &small(), faults);
    world.send(0, 1, 5, pattern(1, LEN));
    let calm = |w: &World| {
        let soon = w.time().after(Duration::from_millis(100));
        let stored = w.nodes[1].engine.stored_messages() == 1;
        stored && w.nodes[0].engine.poll_at().is_some_and(|at| at > soon)
    };
    assert!(world.run_until(SECOND * 9, calm));
    world
}

/// The receive is posted: nothing has ended yet, and now all ends well.
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
