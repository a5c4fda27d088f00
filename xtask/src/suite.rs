// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a test runner, shows its output as it comes, and reads its counts.
//!
//! In: a command line of cargo-nextest or of libtest. Out: [`Counts`] from the runner's own summary
//! lines. Called by [`crate::test`]. A runner that fails without naming a failed test (it did not
//! compile, say) is an error.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::ops::AddAssign;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use anyhow::{Context as _, Result, bail};

/// Tests that ran, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Tests that left something out, passed or not run.
    pub(crate) skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

/// Runs `command` to its end and counts.
pub(crate) fn run(mut command: Command) -> Result<Counts> {
    use std::io::IsTerminal as _;
    if std::io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} did not start", command.get_program().display()))?;
    let out = child.stdout.take().context("no output")?;
    let err = child.stderr.take().context("no error output")?;
    // Two threads: a runner that fills one pipe while we read the other would wait for ever.
    let counts = thread::scope(|scope| {
        let other = scope.spawn(|| show_and_count(err, std::io::stderr()));
        let mut counts = show_and_count(out, std::io::stdout());
        counts += other.join().unwrap_or_default();
        counts
    });
    counts_if_passed(child.wait()?, counts)
}

/// A runner that failed is a failure, whatever its counts.
fn counts_if_passed(status: ExitStatus, mut counts: Counts) -> Result<Counts> {
    if !status.success() && counts.failed == 0 {
        if counts == Counts::default() {
            bail!("the test runner ended with {status} before any test ran");
        }
        counts.failed = 1;
    }
    Ok(counts)
}

fn show_and_count(from: impl Read, mut to: impl Write) -> Counts {
    let mut counts = Counts::default();
    let mut reader = BufReader::new(from);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // A closed terminal does not stop the count.
        let _ = to.write_all(&line).and_then(|()| to.flush());
        if let Some(summary) = summary(&without_colour(&String::from_utf8_lossy(&line))) {
            counts += summary;
        }
        line.clear();
    }
    counts
}

/// The counts in a summary line of a runner, if `line` is one.
///
/// libtest: `test result: ok. 5 passed; 0 failed; 0 ignored; …`, once a test binary.
/// nextest: `     Summary [ 0.1s] 5 tests run: 4 passed, 1 timed out, 2 skipped`, once a
/// run; its skipped tests are those that the filter leaves out.
/// The runner of MPI jobs: as libtest, with `; 2 not run`.
/// The output of a failed test, which nextest repeats indented, may hold a line of libtest's: the
/// indentation tells.
fn summary(line: &str) -> Option<Counts> {
    let parts = if let Some(rest) = line.strip_prefix("test result: ") {
        rest.split_once(". ")?.1.split(';')
    } else if line.trim_start().starts_with("Summary [") {
        line.split_once(" run: ")?.1.split(';')
    } else {
        return None;
    };
    let mut counts = Counts::default();
    for part in parts.flat_map(|part| part.split(',')) {
        let mut words = part.split_whitespace();
        let Some(count) = words.next().and_then(|word| word.parse::<u64>().ok()) else { continue };
        match words.next() {
            Some("passed") => counts.passed += count,
            // "timed out", "exec failed" and "errored" are nextest's other ways to fail.
            Some("failed" | "timed" | "exec" | "errored") => counts.failed += count,
            Some("not") => counts.skipped += count,
            _ => {}
        }
    }
    Some(counts)
}

/// `line` without terminal colour sequences (ESC `[` … letter).
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            let _ = chars.by_ref().find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64) -> Option<Counts> {
        Some(Counts { passed, failed, skipped: 0 })
    }

    #[test]
    fn libtest_summaries_are_counted() {
        let line = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
                    finished in 0.00s";
        assert_eq!(summary(line), counts(5, 0));
        assert_eq!(summary("test result: FAILED. 2 passed; 3 failed; 0 ignored"), counts(2, 3));
        assert_eq!(summary("test result_is_good ... ok"), None);
    }

    #[test]
    fn nextest_summaries_are_counted() {
        let good = "     Summary [   0.012s] 12 tests run: 12 passed (2 slow), 3 skipped";
        assert_eq!(summary(good), counts(12, 0));
        let bad = "Summary [ 1.0s] 9/12 tests run: 5 passed, 2 failed, 1 timed out, 1 exec failed";
        assert_eq!(summary(bad), counts(5, 4));
        assert_eq!(summary("  Summary [   0.001s] 0 tests run: 0 passed, 7 skipped"), counts(0, 0));
    }

    #[test]
    fn jobs_that_were_not_run_are_counted() {
        let line = "test result: ok. 5 passed; 0 failed; 2 not run";
        assert_eq!(summary(line), Some(Counts { passed: 5, failed: 0, skipped: 2 }));
        assert_eq!(summary(line).unwrap().to_string(), "5 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn colour_does_not_hide_a_summary() {
        let line = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.1s] \u{1b}[1m1\u{1b}[0m test run: \
                    \u{1b}[1m1\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped";
        assert_eq!(summary(&without_colour(line)), counts(1, 0));
    }

    #[test]
    fn a_runner_that_fails_without_a_test_is_an_error() {
        assert!(run(Command::new("false")).is_err());
        assert!(run(Command::new("no-such-command-anywhere")).is_err());
        assert_eq!(run(Command::new("true")).unwrap(), Counts::default());
    }

    #[test]
    fn a_runner_that_fails_after_its_summary_is_a_failure() {
        let failure = Command::new("false").status().unwrap();
        let before = counts(2, 0).unwrap();
        assert_eq!(counts_if_passed(failure, before).unwrap(), counts(2, 1).unwrap());
    }

    #[test]
    fn output_is_shown_whole_and_counted() {
        let text = "running 2 tests\ntest result: ok. 2 passed; 0 failed\nlast";
        let mut shown = Vec::new();
        assert_eq!(show_and_count(text.as_bytes(), &mut shown), counts(2, 0).unwrap());
        assert_eq!(shown, text.as_bytes());
    }

    #[test]
    fn the_repeated_output_of_a_failed_test_is_not_counted() {
        assert_eq!(summary("    test result: FAILED. 0 passed; 1 failed; 0 ignored"), None);
    }
}
