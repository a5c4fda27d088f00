// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs with a bound on their time.
//!
//! In: a command and how long it may take. Out: how it ended; one that takes longer is killed with
//! everything it started. Called where a program under test may hang.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How often a running program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    Exit(ExitStatus),
    /// It was killed because its time was over.
    Overdue,
}

impl Ended {
    /// Whether it ended by itself and said that all is well.
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Exit(status) if status.success())
    }
}

/// Runs `command` for `limit` at the most.
pub(crate) fn run_bounded(mut command: Command, limit: Duration) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child =
        command.process_group(0).spawn().with_context(|| format!("{name} did not start"))?;
    let start = now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::Exit(status));
        }
        thread::sleep(LOOK_EVERY);
    }
    kill_group(&mut child)?;
    Ok(Ended::Overdue)
}

/// Runs `command` for `limit` at the most; anything but success is an error.
pub(crate) fn succeed_within(command: Command, limit: Duration) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    match run_bounded(command, limit)? {
        Ended::Exit(status) if status.success() => Ok(()),
        Ended::Exit(status) => bail!("{name} ended with {status}: see above"),
        Ended::Overdue => bail!("{name} took more than {} s", limit.as_secs()),
    }
}

/// Kills the group that a child leads: what it started goes with it.
fn kill_group(child: &mut Child) -> Result<()> {
    let group = format!("-{}", child.id());
    Command::new("kill").args(["-KILL", "--", &group]).status().context("kill did not start")?;
    child.wait()?;
    Ok(())
}

/// The clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock rule is the provider's; this times programs"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_by_itself_or_is_killed_with_its_children() {
        let limit = Duration::from_secs(20);
        assert!(run_bounded(Command::new("true"), limit).unwrap().is_success());
        assert!(!run_bounded(Command::new("false"), limit).unwrap().is_success());
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 600 & sleep 600"]);
        let start = now();
        assert_eq!(run_bounded(shell, Duration::from_millis(50)).unwrap(), Ended::Overdue);
        assert!(start.elapsed() < limit);
    }

    #[test]
    fn anything_but_success_is_an_error() {
        let limit = Duration::from_secs(20);
        assert!(succeed_within(Command::new("true"), limit).is_ok());
        assert!(succeed_within(Command::new("false"), limit).is_err());
        assert!(succeed_within(Command::new("no-such-command-anywhere"), limit).is_err());
    }
}
