// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hop that drops long packets silently: invariant 35, transfers go on within a second.
//!
//! In: nothing. Out: the story's result. A stream of messages runs over a path that becomes short
//! at its start or in its middle, and long again later. Caller: the corpus.

use crate::invariants::{Violation, broken};
use crate::measure::finish;
use crate::run::drain;
use crate::scenario::{Hop, Link, Loss, Pools, Scenario};
use crate::world::World;

/// The payload of a 9,000-byte MTU.
const JUMBO: u16 = 8972;
/// Bytes of a message, which is pushed: one that takes several packets on each path, and one that
/// fits a packet of the long path.
const MESSAGE: u64 = 64 << 10;
const SHORT_MESSAGE: u64 = 6000;
/// Messages of a stream: 13 MB of the longer ones, 10 ms at the rate of the link.
const MESSAGES: u32 = 200;
/// The time that the path may cost, in nanoseconds.
const WITHIN: u64 = 1_000_000_000;

/// A stream of messages of `len` bytes. Returns its time.
fn stream(world: &mut World, len: u64) -> Result<u64, Violation> {
    let start = world.now;
    for _ in 0..MESSAGES {
        world.recv(1, None, len, None);
        world.send(0, 1, len);
    }
    Ok(finish(world)? - start)
}

/// The longest packet that the sender sends at present.
fn packet_max(world: &World) -> u32 {
    world.nodes[0].engine.with(|engine| {
        engine.peer_reports().map(|report| report.packet_max).max().unwrap_or_default()
    })
}

/// 35: a stream on a path that becomes short takes less than a second more than on a path that does
/// not. With the next stream the longest packets that pass are found, also when the path is long
/// again.
///
/// # Errors
/// The invariant is broken.
pub fn hop_with_a_smaller_mtu() -> Result<(), Violation> {
    let complain = |what: String| {
        let found = broken(35, what);
        found.map_err(|(invariant, what)| Violation { invariant, what, at: 0 })
    };
    for delay_ns in [5_000, 100_000, 5_000_000, 40_000_000] {
        for (passes, from_us) in [(1216, 0), (1472, 0), (1400, 3_000), (4470, 5_000)] {
            for iid in [0.0, 0.001] {
                let link = Link { delay_ns, rate: 1_250_000_000, ..Link::default() };
                let hop = Hop { passes, from_us: from_us + delay_ns * 6 / 1000, until_us: 0 };
                let scenario = Scenario {
                    nodes: 2,
                    ops: 0,
                    pools: Pools::Large,
                    link,
                    mtu: vec![JUMBO],
                    loss: Loss { iid, ..Loss::default() },
                    ..Scenario::default()
                };
                let usual = stream(&mut World::new(1, &scenario), MESSAGE)?;
                let mut world = World::new(1, &Scenario { hop, ..scenario });
                let took = stream(&mut world, MESSAGE)?;
                // A search takes rounds, and a stream may end before its last one.
                stream(&mut world, MESSAGE)?;
                let found = packet_max(&world);
                let lost = passes - found as u16;
                if took > 2 * usual + WITHIN || (iid == 0.0 && lost >= 64) {
                    let what = format!("{took} ns for {usual}, {found} bytes");
                    complain(format!("{what} of {passes} after {from_us} us, {delay_ns} ns"))?;
                }
                world.scenario.hop = Hop::default();
                // The time after which larger packets are tried again.
                let until = world.now + 1_500_000_000;
                world.run_until(until)?;
                stream(&mut world, SHORT_MESSAGE)?;
                stream(&mut world, MESSAGE)?;
                let found = packet_max(&world);
                if found < u32::from(JUMBO) - 8 {
                    complain(format!("{found} bytes on a path that is long again"))?;
                }
                drain(&mut world)?;
            }
        }
    }
    Ok(())
}
