// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite through passthrough onto a stand-in for a hardware provider, beside the stand-in
//! itself.
//!
//! In: the tests, and two plans: direct, and through passthrough. Out: the counts of both, and the
//! tests with a worse outcome through passthrough, which have failed. Faults of the stand-in itself
//! show in both runs; no others may show. A test with a worse outcome is repeated in both runs,
//! because some outcomes of stand-ins vary. Only a test that is worse each time counts.

use std::process::ExitCode;

use anyhow::Result;

use crate::runner::{Outcome, Plan, Report, Test, reports};

/// Repetitions of a test with different outcomes.
const AGAIN: usize = 2;

/// Runs `tests` directly and through passthrough.
pub(crate) fn run(tests: &[&'static Test], direct: &Plan, through: &Plan) -> Result<ExitCode> {
    println!("the stand-in itself:");
    let alone = reports(tests, direct)?;
    println!("through passthrough:");
    let passed = reports(tests, through)?;
    let (mut worse, mut unsteady) = (Vec::new(), Vec::new());
    for (test, (alone, passed)) in tests.iter().zip(alone.iter().zip(&passed)) {
        if !is_worse(&passed.outcome, &alone.outcome) {
            continue;
        }
        println!("again: {}", test.name);
        if stays_worse(test, direct, through)? { worse.push(passed) } else { unsteady.push(passed) }
    }
    println!("\n{}\n{}", counts("directly", &alone), counts("through passthrough", &passed));
    for report in &unsteady {
        println!("unsteady {}", report.name());
    }
    for report in &worse {
        println!("\nFAILED {}\n{}", report.name(), report.text());
    }
    let success = worse.is_empty() && passed.iter().any(|it| it.outcome == Outcome::Passed);
    let outcome = if success { "ok" } else { "FAILED" };
    let same = tests.len() - worse.len();
    println!("test result: {outcome}. {same} passed; {} failed", worse.len());
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn stays_worse(test: &&'static Test, direct: &Plan, through: &Plan) -> Result<bool> {
    for _ in 0..AGAIN {
        let (alone, passed) = (reports(&[test], direct)?, reports(&[test], through)?);
        if !is_worse(&passed[0].outcome, &alone[0].outcome) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Passed is better than not offered, which is better than failed.
fn is_worse(through: &Outcome, direct: &Outcome) -> bool {
    let rank = |outcome: &Outcome| match outcome {
        Outcome::Passed => 0,
        Outcome::NotOffered => 1,
        Outcome::Failed => 2,
    };
    rank(through) > rank(direct)
}

fn counts(how: &str, reports: &[Report]) -> String {
    let count = |outcome| reports.iter().filter(|report| report.outcome == outcome).count();
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    format!("{how}: {passed} pass, {failed} fail, {} not offered", count(Outcome::NotOffered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worse_means_that_the_stand_in_does_better() {
        let order = [Outcome::Passed, Outcome::NotOffered, Outcome::Failed];
        for (index, better) in order.iter().enumerate() {
            assert!(order[index + 1..].iter().all(|worse| is_worse(worse, better)));
            assert!(order[..=index].iter().all(|other| !is_worse(other, better)));
        }
    }
}
