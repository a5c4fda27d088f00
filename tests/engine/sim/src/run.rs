// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: a safety phase with faults, a liveness phase without, silence, and the last checks.
//!
//! In: a seed and a scenario. Out: a [`Report`], or the first [`Violation`]. A panic of the engine
//! is a violation as well. The same seed and scenario give the same run, packet by packet.

use crate::coverage::Coverage;
use crate::invariants::{Violation, delivery, liveness, resources, rma};
use crate::net::FaultCounts;
use crate::scenario::Scenario;
use crate::trace::Trace;
use crate::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The longest that a safety phase may take beyond ten times its time, in nanoseconds. Pauses, and
/// nodes that are away, keep the application from posting.
const SAFETY_MAX: u64 = 2_000_000_000;
/// How long a run with forged packets goes on after its faults, in nanoseconds.
const FORGED: u64 = 500_000_000;
/// The time after the last end in which there may still be packets and timers. It is the longest
/// delay of a duplicate, the peer time-out of forgotten connections, and the silent time.
const SILENCE_MAX: u64 = 60_000_000_000;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Identifies every packet of the run.
    pub digest: u64,
    /// Packets sent.
    pub packets: u64,
    /// Virtual time in nanoseconds.
    pub time: u64,
    /// The transitions that occurred.
    pub coverage: Coverage,
    /// The injected faults.
    pub faults: FaultCounts,
}

/// Runs a scenario.
///
/// # Errors
/// The first violation.
pub fn run(seed: u64, scenario: &Scenario) -> Result<Report, Violation> {
    run_traced(seed, scenario, Trace::default())
}

/// Runs a scenario and records it.
///
/// # Errors
/// The first violation.
pub fn run_traced(seed: u64, scenario: &Scenario, trace: Trace) -> Result<Report, Violation> {
    let attempt = AssertUnwindSafe(|| {
        let mut world = World::new(seed, scenario);
        world.trace = trace;
        let played = play(&mut world);
        played.map_err(|mut violation| {
            if violation.invariant == 26 {
                violation.what.push_str(&format!(" ({})", restless(&world)));
            }
            violation
        })
    });
    catch_unwind(attempt).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        Err(Violation { invariant: 0, what: text.to_owned(), at: 0 })
    })
}

/// Both phases.
///
/// # Errors
/// The first violation.
pub fn play(world: &mut World) -> Result<Report, Violation> {
    world.plan_app();
    world.plan_faults();
    let safety = world.scenario.safety_us * 1000;
    let limit = SAFETY_MAX + 10 * safety;
    // bound: every step takes time or an operation
    while world.now < limit && (world.app.left > 0 || world.now < safety) {
        if !world.step(limit)? {
            break;
        }
    }
    drain(world)?;
    close_one_node(world)?;
    for node in 0..world.scenario.nodes {
        world.bury(node);
    }
    Ok(Report {
        digest: world.trace.digest(),
        packets: world.trace.packets(),
        time: world.now,
        coverage: world.coverage.clone(),
        faults: world.net.counts,
    })
}

/// The liveness phase: everything ends, then all nodes are silent, then the final checks run.
///
/// # Errors
/// A violation.
pub fn drain(world: &mut World) -> Result<(), Violation> {
    world.end_faults();
    let begin = world.now;
    let found = world.begin_draining();
    check(world, found)?;
    if world.oracle.anything_goes {
        // A forger with the secrets can make an operation wait for ever. Only the bounds and the
        // audit must hold.
        world.run_until(begin + FORGED)?;
        let audited = audit_all(world);
        return check(world, audited);
    }
    let bound = liveness::bound(&world.scenario);
    // bound: virtual time
    while !world.is_drained() {
        if !world.step(begin + bound)? {
            let found = liveness::ended(&world.oracle, bound);
            check(world, found)?;
            let states = restless(world);
            let what = format!("not at rest {bound} ns after the faults: {states}");
            return check(world, Err((25, what)));
        }
    }
    world.app.finished = true;
    for node in 0..world.scenario.nodes {
        let found = world.cancel_receives(node);
        check(world, found)?;
    }
    fall_silent(world)?;
    let found = last_checks(world);
    check(world, found)
}

/// The reasons why nodes are not idle.
fn restless(world: &World) -> String {
    let state = |(number, node): (usize, &crate::node::Node)| {
        node.engine.with(|engine| {
            format!(
                "node {number}: has work {}, {} stored, {} receives, {} operations, timer {:?} of \
                 {:?}; ",
                engine.has_work(),
                engine.stored_messages(),
                engine.posted_receives(),
                engine.posted_operations(),
                engine.poll_at(),
                node.clock.read(world.now),
            )
        })
    };
    world.nodes.iter().enumerate().map(state).collect()
}

/// 30: nothing happens any more, and nothing is left to happen.
fn fall_silent(world: &mut World) -> Result<(), Violation> {
    let late = world.scenario.duplicate.later_us * 1000
        + world.scenario.peer_timeout_ms * 2_000_000
        + liveness::forgotten(&world.scenario);
    let until = world.now + SILENCE_MAX + late;
    world.run_until_silent(until)?;
    if let Some(at) = world.next_event() {
        return check(world, Err((30, format!("not silent: the next event comes at {at}"))));
    }
    let is_silent = |(number, node): (usize, &crate::node::Node)| {
        node.engine.with(|engine| liveness::is_silent(engine, number))
    };
    let found = world.nodes.iter().enumerate().try_for_each(is_silent);
    check(world, found)
}

fn last_checks(world: &mut World) -> Result<(), (u8, String)> {
    for node in &mut world.nodes {
        node.engine.with_mut(|engine| {
            resources::audit(engine)?;
            resources::at_rest(engine)
        })?;
    }
    resources::network_at_rest(world.packets.under_way())?;
    world.check_regions()?;
    let lives: Vec<u32> = world.nodes.iter().map(|node| node.life).collect();
    let put_out = |node: &crate::node::Node| node.engine.with(|e| e.stats().messages_put_out);
    let put_out: Vec<u64> = world.nodes.iter().map(put_out).collect();
    delivery::all_arrived(&world.oracle, &lives, &put_out)?;
    rma::all_data_reported(&world.oracle, &lives)
}

/// One node closes: its peers get its close notification, and it is idle again.
fn close_one_node(world: &mut World) -> Result<(), Violation> {
    if world.oracle.anything_goes {
        return Ok(());
    }
    let now = world.local(0);
    world.nodes[0].engine.with_mut(|engine| engine.close(now));
    world.wake(0, world.now);
    fall_silent(world)?;
    let audited = audit_all(world);
    check(world, audited)
}

fn audit_all(world: &mut World) -> Result<(), (u8, String)> {
    world.nodes.iter_mut().try_for_each(|node| node.engine.with_mut(resources::audit))
}

fn check(world: &World, found: Result<(), (u8, String)>) -> Result<(), Violation> {
    found.map_err(|(invariant, what)| Violation { invariant, what, at: world.now })
}
