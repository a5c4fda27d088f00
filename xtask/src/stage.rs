// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages: parts of a test run with a heading each, a table at the end, and one result.
//!
//! In: the list of stages. Out: the table, and the closing line `N passed, N failed`. Called by
//! [`crate::test`]. A stage that fails does not stop the others, except the first (set-up), without
//! which the rest would only repeat its complaint.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::process::now;
use crate::suite::Counts;

/// How a stage that ran to its end came out.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A check without tests of its own holds.
    Passed,
    /// Tests ran; some may have failed.
    Tests(Counts),
    /// It could not be done here, for this reason.
    Skipped(String),
}

/// One part of a run. `run` gets the values that all stages share; an error is a failure.
#[derive(Debug)]
pub(crate) struct Stage<C> {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: fn(&C) -> Result<Outcome>,
}

/// A stage that has run (or was given up: `outcome` is then an error too).
#[derive(Debug)]
struct Row {
    name: &'static str,
    outcome: Result<Outcome, String>,
    took: Duration,
}

/// Runs `stages` in order and prints everything. The exit code is 0 only if nothing failed. If
/// there was a stage of tests, at least one must have run.
pub(crate) fn run_all<C>(stages: &[Stage<C>], context: &C) -> ExitCode {
    println!("stages:");
    for stage in stages {
        println!("    {:<12} {}", stage.name, stage.about);
    }
    let mut rows: Vec<Row> = Vec::with_capacity(stages.len());
    for (index, stage) in stages.iter().enumerate() {
        let row = if rows.first().is_some_and(|first| first.outcome.is_err()) {
            let outcome = Err(format!("not run: {} failed", stages[0].name));
            Row { name: stage.name, outcome, took: Duration::ZERO }
        } else {
            println!("\n==> {}/{} {}: {}", index + 1, stages.len(), stage.name, stage.about);
            run_one(stage, context)
        };
        rows.push(row);
    }
    let (text, success) = report(&rows);
    println!("\n{text}");
    if success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_one<C>(stage: &Stage<C>, context: &C) -> Row {
    let start = now();
    let outcome = (stage.run)(context).map_err(|error| format!("{error:#}"));
    match &outcome {
        Err(error) => println!("FAILED {}: {error}", stage.name),
        Ok(Outcome::Skipped(reason)) => println!("{}", skipped_block(stage.name, reason)),
        Ok(_) => {}
    }
    Row { name: stage.name, outcome, took: start.elapsed() }
}

/// Loud, because a skipped stage looks like success from afar.
pub(crate) fn skipped_block(name: &str, reason: &str) -> String {
    let rule = "!".repeat(72);
    format!("{rule}\n!! SKIPPED {name}: {reason}\n{rule}")
}

/// The closing table with its last line, and whether the run is a success.
fn report(rows: &[Row]) -> (String, bool) {
    let mut total = Counts::default();
    let mut text = String::from("stage         result       seconds\n");
    let mut took = Duration::ZERO;
    for row in rows {
        let (result, note) = match &row.outcome {
            Ok(Outcome::Passed) => ("pass", String::new()),
            Ok(Outcome::Tests(counts)) => {
                total += *counts;
                (if counts.failed == 0 { "pass" } else { "FAIL" }, counts.to_string())
            }
            Ok(Outcome::Skipped(reason)) => ("SKIPPED", reason.clone()),
            Err(error) => {
                total.failed += 1;
                ("FAIL", error.lines().next().unwrap_or_default().to_owned())
            }
        };
        took += row.took;
        let seconds = row.took.as_secs_f64();
        let line = format!("{:<13} {result:<10} {seconds:>9.1}  {note}", row.name);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "total                    {:>9.1}", took.as_secs_f64());
    let no_test = total.passed + total.failed == 0;
    let ran = !(no_test && rows.iter().any(|row| matches!(row.outcome, Ok(Outcome::Tests(_)))));
    if !ran {
        text.push_str("no test ran, which is not a success\n");
    }
    let _ = write!(text, "{} passed, {} failed", total.passed, total.failed);
    (text, ran && total.failed == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(outcome: Result<Outcome, String>) -> Row {
        Row { name: "one", outcome, took: Duration::from_millis(1500) }
    }

    fn tests(passed: u64, failed: u64) -> Result<Outcome, String> {
        Ok(Outcome::Tests(Counts { passed, failed, skipped: 0 }))
    }

    #[test]
    fn counts_of_all_stages_add_up_in_the_last_line() {
        let rows = [row(Ok(Outcome::Passed)), row(tests(3, 0)), row(tests(4, 0))];
        let (text, success) = report(&rows);
        assert_eq!(text.lines().last(), Some("7 passed, 0 failed"));
        assert!(success);
    }

    #[test]
    fn a_failed_test_fails_the_run() {
        let (text, success) = report(&[row(tests(3, 2))]);
        assert!(text.contains("FAIL") && text.ends_with("3 passed, 2 failed"), "{text}");
        assert!(!success);
    }

    #[test]
    fn a_failed_check_counts_as_one_failure() {
        let (text, success) = report(&[row(tests(3, 0)), row(Err("bad format\nmore".into()))]);
        assert!(text.contains("bad format") && !text.contains("more"), "{text}");
        assert!(text.ends_with("3 passed, 1 failed") && !success);
    }

    #[test]
    fn a_skip_is_seen_and_is_no_failure() {
        let (text, success) = report(&[row(tests(1, 0)), row(Ok(Outcome::Skipped("why".into())))]);
        assert!(text.contains("SKIPPED") && text.contains("why") && success, "{text}");
        assert!(skipped_block("root", "why").lines().count() == 3);
    }

    #[test]
    fn skipped_tests_are_shown_in_their_row() {
        let counts = Counts { passed: 3, failed: 0, skipped: 2 };
        let (text, success) = report(&[row(Ok(Outcome::Tests(counts)))]);
        assert!(text.contains("3 passed, 0 failed, 2 skipped\n") && success, "{text}");
        assert!(text.ends_with("3 passed, 0 failed"), "{text}");
    }

    #[test]
    fn a_run_without_a_test_is_no_success() {
        let (text, success) = report(&[row(Ok(Outcome::Passed)), row(tests(0, 0))]);
        assert!(text.ends_with("0 passed, 0 failed") && !success, "{text}");
        let (_, success) = report(&[row(Ok(Outcome::Passed))]);
        assert!(success, "a run of checks alone has no tests to run");
    }

    #[test]
    fn nothing_runs_after_set_up_failed() {
        let refuse: fn(&()) -> Result<Outcome> = |()| anyhow::bail!("no compiler");
        let reached: fn(&()) -> Result<Outcome> = |()| panic!("must not run");
        let stage = |name, run| Stage { name, about: "", run };
        let code = run_all(&[stage("setup", refuse), stage("build", reached)], &());
        assert_eq!(code, ExitCode::FAILURE);
    }
}
