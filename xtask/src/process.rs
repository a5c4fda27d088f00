// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs with a bound on their time.
//!
//! In: a command and its time limit. Out: its exit status. A program that takes longer is killed
//! with all its children; an interrupt of this process kills all programs. Called for programs that
//! may hang. They cannot read the terminal: `sudo` asks before ([`Privilege::asked`]).

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio, exit};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::workspace::Privilege;

/// The interval between two looks at a running program.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// For the end of a program after its kill.
const END_LIMIT: Duration = Duration::from_secs(5);

/// The exit code of a shell for a program that an interrupt ended.
const INTERRUPTED: i32 = 130;

/// The groups of all programs that run: each is in a group of its own, which no signal from the
/// terminal reaches.
static GROUPS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    Exit(ExitStatus),
    /// It was killed because its time was over.
    Overdue,
}

impl Ended {
    /// Whether it ended by itself with success.
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Self::Exit(status) if status.success())
    }
}

/// Runs `command` for `limit` at the most.
pub(crate) fn run_bounded(command: Command, limit: Duration) -> Result<Ended> {
    let name = command.get_program().to_string_lossy().into_owned();
    take_children_along();
    let mut group = Group::start(command).with_context(|| format!("{name} did not start"))?;
    Ok(group.wait(limit)?.map_or(Ended::Overdue, Ended::Exit))
}

/// A program that runs, as the leader of a group. Dropped, nothing of the group is left.
struct Group {
    child: Child,
}

impl Group {
    fn start(mut command: Command) -> Result<Self> {
        // Held until the group is noted, so that no interrupt comes between.
        let mut groups = groups();
        let child = command.process_group(0).spawn()?;
        groups.push(child.id());
        Ok(Self { child })
    }

    /// How its leader ended; nothing if it runs for longer than `limit`.
    fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let start = now();
        while start.elapsed() < limit {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(None)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut groups = groups();
        // Its number is not used again before it was waited for, or while one of the group lives.
        let ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if !ended {
            kill_group(self.child.id());
            // Bounded: an interrupt waits for the lock meanwhile.
            let _ = self.wait(END_LIMIT);
        }
        groups.retain(|&group| group != self.child.id());
    }
}

fn groups() -> MutexGuard<'static, Vec<u32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on SIGINT, SIGTERM and SIGHUP end all that runs before they end this process.
fn take_children_along() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let set = ctrlc::set_handler(|| {
            // The lock is never released, so no program is started any more.
            let groups = groups();
            groups.iter().for_each(|&group| kill_group(group));
            exit(INTERRUPTED);
        });
        if let Err(error) = set {
            eprintln!("an interrupt will leave programs behind: {error}");
        }
    });
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

/// Kills the process group of a child, with all its children.
fn kill_group(leader: u32) {
    let kills = |mut kill: Command| {
        kill.args(["-KILL", "--", &format!("-{leader}")])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        kill.status().is_ok_and(|status| status.success())
    };
    // sudo and its children are root's.
    if !kills(Command::new("kill")) && !Privilege::Sudo.command("kill").is_some_and(kills) {
        eprintln!("process {leader} and what it started cannot be killed");
    }
}

/// The clock.
#[expect(
    clippy::disallowed_methods,
    reason = "the clock rule is the provider's; this times programs"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// `NAME=value`, for `env`.
pub(crate) fn variable(name: &str, value: &OsStr) -> OsString {
    let mut text = OsString::from(format!("{name}="));
    text.push(value);
    text
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

    #[test]
    fn a_variable_keeps_its_value_unquoted() {
        assert_eq!(variable("A", OsStr::new("b c")), OsString::from("A=b c"));
    }
}
