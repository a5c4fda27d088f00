// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many random runs, and the smallest scenario that still shows a failure.
//!
//! In: seeds. Out: sums over the runs, or the first failure, shrunk. Bound: [`SHRINK_RUNS`] runs to
//! shrink one failure.

use crate::coverage::Coverage;
use crate::invariants::Violation;
use crate::net::FaultCounts;
use crate::run::{Report, run};
use crate::scenario::{FaultClass, Scenario};

/// Runs that shrinking a failure may take.
const SHRINK_RUNS: u32 = 80;

/// Sums over runs.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Runs.
    pub runs: u64,
    /// Packets.
    pub packets: u64,
    /// Virtual nanoseconds.
    pub time: u64,
    /// Transitions.
    pub coverage: Coverage,
    /// Faults.
    pub faults: FaultCounts,
}

impl Sums {
    /// Adds a run.
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.packets += report.packets;
        self.time += report.time;
        self.coverage.add(&report.coverage);
        self.faults.add(&report.faults);
    }
}

/// A run that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The smallest scenario that was found to fail likewise.
    pub scenario: Scenario,
    /// The failure in it.
    pub violation: Violation,
    /// The failure before it was shrunk.
    pub original: Violation,
}

/// Runs the swarm's scenario of a seed.
///
/// # Errors
/// The failure, not shrunk.
pub fn one(seed: u64) -> Result<Report, Violation> {
    run(seed, &Scenario::swarm(seed))
}

/// Makes the failing scenario of a seed as small as it gets while the same invariant fails.
#[must_use]
pub fn shrink(seed: u64, scenario: &Scenario, violation: &Violation) -> Failure {
    let original = violation.clone();
    let (mut best, mut found) = (scenario.clone(), violation.clone());
    let mut runs = 0;
    let mut improved = true;
    while improved && runs < SHRINK_RUNS {
        improved = false;
        let mut attempts: Vec<Scenario> = FaultClass::ALL
            .iter()
            .filter(|class| class.is_in(&best))
            .map(|class| class.without(&best))
            .collect();
        attempts.extend(best.smaller());
        for attempt in attempts {
            runs += 1;
            match run(seed, &attempt) {
                Err(violation) if violation.invariant == original.invariant => {
                    (best, found, improved) = (attempt, violation, true);
                    break;
                }
                _ if runs >= SHRINK_RUNS => break,
                _ => {}
            }
        }
    }
    Failure { seed, scenario: best, violation: found, original }
}
