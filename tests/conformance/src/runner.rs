// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs each test in a process of its own, and counts.
//!
//! In: the chosen tests. Out: a line for each, failures in full, the counts, and the exit code. A
//! test that crashes, hangs or exits is one failed test. An optional feature that a provider leaves
//! out is reported as "not offered". For a provider with a list of these (`not-offered/`), any
//! other missing feature is a failure. An entry that is not missing any more is a failure, too.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::process::{Child, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::world::{NotOffered, World};

/// A promise, and the test of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    /// `man page::promise`.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&World) -> Result<()>,
}

/// The tests of a module, in the order in which they are given: that of the man page.
macro_rules! tests {
    ($page:literal: $($name:ident)*) => {
        /// The tests of this page.
        pub(crate) const TESTS: &[$crate::runner::Test] = &[$(
            $crate::runner::Test { name: concat!($page, "::", stringify!($name)), run: $name },
        )*];
    };
}
pub(crate) use tests;

/// A test with this in its name takes long or much memory, and runs only if it is asked for.
pub(crate) const SLOW: &str = "slow_";

/// A test with this in its name waits for the peer time-out.
const DEAD: &str = "dead_peer";

/// How a test came out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Passed,
    Failed,
    NotOffered,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    name: &'static str,
    pub(crate) outcome: Outcome,
    /// Why, unless it passed.
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    milliseconds: u128,
}

impl Report {
    /// Of the test.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// The reason, as lines that are printed below its name.
    pub(crate) fn text(&self) -> String {
        indented(&self.text)
    }
}

/// How to run.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) jobs: usize,
    pub(crate) limit: Duration,
    pub(crate) json: bool,
    /// Arguments that make a child test the same provider.
    pub(crate) arguments: Vec<String>,
    /// Variables of its environment, beyond this process's own.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// The file for libfabric's log; without it the log is part of the test's output.
    pub(crate) log: Option<Mutex<File>>,
    /// Features that may be missing; `None` if any optional one may.
    pub(crate) accepted: Option<BTreeSet<String>>,
}

/// Exit codes of a child.
const PASSED: u8 = 0;
const NOT_OFFERED: u8 = 3;

/// Runs one test in this process, and says how it came out by the exit code.
pub(crate) fn run_here(test: &Test, world: &World) -> ExitCode {
    match (test.run)(world) {
        Ok(()) => ExitCode::from(PASSED),
        Err(error) if error.is::<NotOffered>() => {
            eprintln!("{error:#}");
            ExitCode::from(NOT_OFFERED)
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `tests` and sums up.
pub(crate) fn run_all(tests: &[&'static Test], plan: &Plan) -> Result<ExitCode> {
    summary(&reports(tests, plan)?, plan)
}

/// Runs `tests`, each in a process of its own, several at a time. The reports are in their order.
pub(crate) fn reports(tests: &[&'static Test], plan: &Plan) -> Result<Vec<Report>> {
    let reports = Mutex::new(Vec::with_capacity(tests.len()));
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(test) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = judged(run_apart(test, plan)?, plan.accepted.as_ref());
            if !plan.json {
                show(&report);
            }
            reports.lock().expect("no worker panicked").push(report);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
    })?;
    let mut reports = reports.into_inner().expect("no worker panicked");
    let position = |report: &Report| tests.iter().position(|test| test.name == report.name);
    reports.sort_by_key(position);
    Ok(reports)
}

fn summary(reports: &[Report], plan: &Plan) -> Result<ExitCode> {
    let count = |outcome| reports.iter().filter(|report| report.outcome == outcome).count();
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    let missing = count(Outcome::NotOffered);
    let success = failed == 0 && passed > 0;
    if plan.json {
        println!("{}", serde_json::to_string_pretty(reports)?);
    } else {
        for report in reports.iter().filter(|report| report.outcome == Outcome::Failed) {
            println!("\nFAILED {}\n{}", report.name, indented(&report.text));
        }
        for report in reports.iter().filter(|report| report.outcome == Outcome::NotOffered) {
            println!("{}: {}", report.name, report.text.trim());
        }
        let outcome = if success { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {outcome}. {passed} passed; {failed} failed; {missing} not offered"
        );
    }
    Ok(if success { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(report: &Report) {
    let word = match report.outcome {
        Outcome::Passed => "pass",
        Outcome::Failed => "FAIL",
        Outcome::NotOffered => "none",
    };
    println!("{word} {:>6} ms  {}", report.milliseconds, report.name);
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

/// Compares the report with the list: the two must have the same features.
fn judged(mut report: Report, accepted: Option<&BTreeSet<String>>) -> Report {
    let Some(accepted) = accepted else { return report };
    let listed = accepted.contains(report.name);
    match (&report.outcome, listed) {
        (Outcome::NotOffered, false) => {
            report.outcome = Outcome::Failed;
            report.text += "and the list in tests/conformance/not-offered has no such entry";
        }
        (Outcome::Passed, true) => {
            report.outcome = Outcome::Failed;
            "it passes: remove it from the list in tests/conformance/not-offered"
                .clone_into(&mut report.text);
        }
        _ => {}
    }
    report
}

/// Runs one test as a child of this process.
fn run_apart(test: &'static Test, plan: &Plan) -> Result<Report> {
    let mut command = crate::peer::relaunch()?;
    command.args(&plan.arguments).current_dir(std::env::temp_dir()).args(["--here", test.name]);
    if test.name.contains(DEAD) {
        // The provider's default is longer than a test should take; other providers do not have
        // this variable.
        command.env("FI_XDP_PEER_TIMEOUT", "1500");
    }
    // Libraries of other providers would leave files with the trace of a crash here.
    command.env("IPATH_NO_BACKTRACE", "1").env("HFI_NO_BACKTRACE", "1");
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    let start = Instant::now();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let limit = if test.name.contains(SLOW) { plan.limit * 10 } else { plan.limit };
    let (status, said) = wait(child.context("the test's process")?, limit)?;
    let mut text = match &plan.log {
        Some(log) => without_log(&said, &mut *log.lock().expect("no worker panicked"))?,
        None => said,
    };
    let outcome = match status {
        Some(status) if status.code() == Some(i32::from(PASSED)) => Outcome::Passed,
        Some(status) if status.code() == Some(i32::from(NOT_OFFERED)) => Outcome::NotOffered,
        Some(status) => {
            text += &format!("({status})");
            Outcome::Failed
        }
        None => {
            text += &format!("(killed: it had not ended after {limit:?})");
            Outcome::Failed
        }
    };
    Ok(Report { name: test.name, outcome, text, milliseconds: start.elapsed().as_millis() })
}

/// Waits for a child, kills it after its time limit, and returns its output.
fn wait(mut child: Child, limit: Duration) -> Result<(Option<std::process::ExitStatus>, String)> {
    let mut stderr = child.stderr.take().context("no pipe")?;
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // A broken pipe ends the text.
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() > end {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = reader.join().unwrap_or_default();
    Ok((status, text))
}

/// Moves the lines of libfabric's log from a test's output to `log`.
fn without_log(said: &str, log: &mut impl std::io::Write) -> Result<String> {
    let mut text = String::new();
    for line in said.lines() {
        if line.starts_with("libfabric:") {
            writeln!(log, "{line}")?;
        } else {
            text.extend([line, "\n"]);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod judgement {
    use super::*;

    fn report(outcome: Outcome) -> Report {
        Report { name: "page::promise", outcome, text: String::new(), milliseconds: 0 }
    }

    fn outcome(report_of: Outcome, accepted: Option<&[&str]>) -> Outcome {
        let accepted = accepted.map(|list| list.iter().map(|one| String::from(*one)).collect());
        judged(report(report_of), accepted.as_ref()).outcome
    }

    #[test]
    fn a_missing_feature_passes_only_where_it_is_listed() {
        let listed: &[&str] = &["page::promise"];
        assert_eq!(outcome(Outcome::NotOffered, None), Outcome::NotOffered);
        assert_eq!(outcome(Outcome::NotOffered, Some(listed)), Outcome::NotOffered);
        assert_eq!(outcome(Outcome::NotOffered, Some(&[])), Outcome::Failed);
    }

    #[test]
    fn the_log_is_kept_apart() {
        let mut log = Vec::new();
        let said = "libfabric:1:xdp: a\nwrong\nlibfabric:1:xdp: b\n";
        assert_eq!(without_log(said, &mut log).unwrap(), "wrong\n");
        assert_eq!(log, b"libfabric:1:xdp: a\nlibfabric:1:xdp: b\n");
    }

    #[test]
    fn an_entry_that_is_offered_after_all_fails() {
        assert_eq!(outcome(Outcome::Passed, Some(&["page::promise"])), Outcome::Failed);
        assert_eq!(outcome(Outcome::Passed, Some(&[])), Outcome::Passed);
        assert_eq!(outcome(Outcome::Failed, Some(&["page::promise"])), Outcome::Failed);
    }
}
