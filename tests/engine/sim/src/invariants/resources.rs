// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pools, timers, budgets and measurements: invariants 20 to 24, and 31.
//!
//! In: an engine after a call. Out: a complaint. Called by the world after each progress call, and
//! at the end of a run.

use super::{Checked, broken};
use ofi_xdp_core::{Budget, Engine, Instant, PeerAddress, Progress, TIMERS_PER_ADVANCE};

/// 22: after a progress call at `now` no timer is overdue, unless there were more than one fires.
///
/// # Errors
/// The invariant is broken.
pub fn timers(engine: &Engine<'_>, now: Instant, connections: u32) -> Checked {
    let overdue = engine.poll_at().is_some_and(|at| at < now);
    if overdue && connections <= TIMERS_PER_ADVANCE {
        return broken(22, format!("a timer of {:?} did not fire by {now:?}", engine.poll_at()));
    }
    Ok(())
}

/// 23: a progress call keeps its budget.
///
/// # Errors
/// The invariant is broken.
pub fn budget(progress: Progress, budget: Budget) -> Checked {
    if progress.received > budget.rx_packets || progress.transmitted > budget.tx_packets {
        return broken(23, format!("{progress:?} with {budget:?}"));
    }
    Ok(())
}

/// 10 to 12, 16, 20, 22, 24: the engine's own audit holds.
///
/// # Errors
/// An invariant is broken.
pub fn audit(engine: &mut Engine<'_>) -> Checked {
    if let Err(violation) = engine.audit() {
        let text = violation.to_string();
        let number = text.trim_start_matches('(').split(')').next().and_then(|n| n.parse().ok());
        return broken(number.unwrap_or(20), text);
    }
    Ok(())
}

/// 31: no round trip is measured shorter than `path`, in nanoseconds. The clocks of nodes differ by
/// less than a twentieth, and the clock of packets has ticks of 64 ns.
///
/// # Errors
/// The invariant is broken.
pub fn round_trips(engine: &Engine<'_>, own: PeerAddress, path: u64) -> Checked {
    let least = u128::from(path - path / 20).saturating_sub(500);
    for report in engine.peer_reports().filter(|report| report.address != own) {
        let measured = report.round_trip_least.as_nanos();
        if measured > 0 && measured < least {
            return broken(31, format!("{measured} ns measured on a path of {path} ns"));
        }
    }
    Ok(())
}

/// 20: an engine at rest holds nothing.
///
/// # Errors
/// The invariant is broken.
pub fn at_rest(engine: &Engine<'_>) -> Checked {
    let (stored, posted) = (engine.stored_messages(), engine.posted_receives());
    let (ops, active) = (engine.posted_operations(), engine.connections());
    if [stored, posted, ops, active] != [0; 4] || engine.has_work() {
        let what = format!(
            "{stored} stored, {posted} receives, {ops} operations, {active} active, has work: {}",
            engine.has_work()
        );
        return broken(20, what);
    }
    Ok(())
}

/// 21: no packet is under way at rest.
///
/// # Errors
/// The invariant is broken.
pub fn network_at_rest(under_way: usize) -> Checked {
    if under_way > 0 {
        return broken(21, format!("{under_way} packets have no owner"));
    }
    Ok(())
}

/// 13: a packet that is refused by validation leaves no trace but in the counters. `ingest` takes
/// in one packet at `now`.
///
/// # Errors
/// The invariant is broken.
pub fn refused_without_trace<'s>(
    engine: &mut Engine<'s>,
    now: Instant,
    ingest: impl FnOnce(&mut Engine<'s>),
) -> Checked {
    let (dropped, digest) = (refused(engine), engine.digest(now));
    ingest(engine);
    if refused(engine) > dropped && engine.digest(now) != digest {
        return broken(13, "a refused packet changed the engine");
    }
    Ok(())
}

/// Packets that validation has rejected so far. A rejected packet changes nothing.
fn refused(engine: &Engine<'_>) -> u64 {
    use ofi_xdp_core::DropReason;
    let all = [
        DropReason::Truncated,
        DropReason::Version,
        DropReason::Authentication,
        DropReason::Kind,
        DropReason::Checksum,
        DropReason::Unprotected,
        DropReason::Malformed,
        DropReason::WrongSource,
        DropReason::Stale,
        DropReason::AckOfUnsent,
        DropReason::UnprovenReset,
    ];
    all.iter().map(|&reason| engine.stats().dropped(reason)).sum()
}
