// SPDX-License-Identifier: MIT OR Apache-2.0
//! Everything ends, and then all nodes are silent: invariants 25, 26 and 28 to 30.
//!
//! In: the state of a run after its faults have stopped. Out: a complaint. Called by the world in
//! the liveness phase.

use super::{Checked, broken};
use crate::app::{Oracle, State};
use crate::scenario::Scenario;
use ofi_xdp_core::Engine;

/// Progress calls that a run may take for each operation and each node.
const STEPS_MAX: u64 = 10_000;

/// The time after the faults in which everything must end, in nanoseconds. It is twice the peer
/// time-out, the longest back-off, and the time of the bytes themselves.
#[must_use]
pub fn bound(scenario: &Scenario) -> u64 {
    let bytes = u64::from(scenario.ops) * scenario.app.len_max.max(2000);
    let transfer = match scenario.link.rate {
        0 => 0,
        rate => bytes.saturating_mul(20_000_000_000) / rate,
    };
    let round_trips = u64::from(scenario.ops) * 40 * scenario.link.delay_ns;
    let frozen = scenario.clock.stall_us * 4_000;
    let late = scenario.duplicate.later_us * 1000;
    let usual = 2_000_000 * scenario.peer_timeout_ms + 5_000_000_000 + late;
    usual + transfer + round_trips + frozen + forgotten(scenario)
}

/// An engine keeps times in 32 bits of 64 ns. After a clock has jumped by more than half of that
/// the past looks like the future, and timers may be late by that much.
#[must_use]
pub const fn forgotten(scenario: &Scenario) -> u64 {
    if scenario.clock.jump_us > 60_000_000 { 300_000_000_000 } else { 0 }
}

/// 25, 28, 29: every operation has ended.
///
/// # Errors
/// The invariant is broken.
pub fn ended(oracle: &Oracle, within: u64) -> Checked {
    let waits = |op: &&crate::app::Op| {
        op.state == State::Pending && op.signal && oracle.send(op.id).is_some()
    };
    match oracle.ops().iter().find(waits) {
        Some(op) => broken(25, format!("not ended {within} ns after the faults: {op:?}")),
        None => Ok(()),
    }
}

/// 26: a run takes a bounded number of steps.
///
/// # Errors
/// The invariant is broken.
pub fn steps(count: u64, scenario: &Scenario) -> Checked {
    if count > STEPS_MAX * (20 + u64::from(scenario.ops) + u64::from(scenario.nodes)) {
        broken(26, format!("no end after {count} steps"))
    } else {
        Ok(())
    }
}

/// 30: an engine with nothing to do has nothing to send and no timer.
///
/// # Errors
/// The invariant is broken.
pub fn is_silent(engine: &Engine<'_>, node: usize) -> Checked {
    if engine.wants_transmit() || engine.poll_at().is_some() {
        return broken(30, format!("node {node} is not silent: timer {:?}", engine.poll_at()));
    }
    Ok(())
}
