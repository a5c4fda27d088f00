// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts that poll late: invariant 32, a host's delay never shrinks a congestion window.
//!
//! In: nothing. Out: the story's result. One stream runs between hosts that poll at once, and
//! between hosts that poll up to 10 ms late, at random or in step. Caller: the corpus.

use crate::invariants::{Violation, broken};
use crate::measure::finish;
use crate::scenario::{Link, Pause, Pools, Scenario};
use crate::world::World;

/// Bytes of a message, which is pushed.
const MESSAGE: u64 = 64 << 10;
/// Messages of a stream.
const MESSAGES: u32 = 200;
/// The window may be smaller than between hosts that poll at once by a fifth.
const SHARE_PERCENT: u64 = 80;

/// A stream's congestion window at its end, in packets, and the packets that were sent again.
#[derive(Clone, Copy, Debug)]
struct Seen {
    window: u64,
    again: u64,
    timeouts: u64,
}

fn stream(pause: Pause) -> Result<Seen, Violation> {
    let link = Link { delay_ns: 20_000, rate: 1_250_000_000, queue: 8 << 20, ..Link::default() };
    let scenario =
        Scenario { nodes: 2, ops: 0, pools: Pools::Large, link, pause, ..Scenario::default() };
    let mut world = World::new(1, &scenario);
    for _ in 0..MESSAGES {
        world.recv(1, None, MESSAGE, None);
        world.send(0, 1, MESSAGE);
    }
    finish(&mut world)?;
    Ok(world.nodes[0].engine.with(|engine| {
        let window =
            engine.peer_reports().map(|report| report.congestion_window).max().unwrap_or(0);
        let stats = engine.stats();
        Seen {
            window: u64::from(window >> 16),
            again: stats.retransmissions,
            timeouts: stats.timeouts,
        }
    }))
}

/// 32: the window between late hosts is that between hosts that poll at once, and nothing is sent
/// again that was not lost.
///
/// # Errors
/// The invariant is broken.
pub fn late_hosts() -> Result<(), Violation> {
    let prompt = stream(Pause::default())?;
    for late_us in [10, 100, 1_000, 10_000] {
        let random = Pause { late_us, ..Pause::default() };
        let in_step = Pause { step_us: late_us, ..Pause::default() };
        for pause in [random, in_step] {
            let seen = stream(pause.clone())?;
            let is_small = seen.window * 100 < prompt.window * SHARE_PERCENT;
            if is_small || seen.timeouts > 0 || seen.again > 0 {
                let found = broken(32, format!("{pause:?}: {seen:?}; prompt hosts: {prompt:?}"));
                return found.map_err(|(invariant, what)| Violation { invariant, what, at: 0 });
            }
        }
    }
    Ok(())
}
