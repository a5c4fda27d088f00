// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs that are waited for within a bound.
//!
//! In: a command and the longest wait. Out: its output and how it ended. Called by `nic` and
//! `peer`. Bounds: the wait, after which the program is killed, and [`BYTES_MAX`] of output.

use std::io::{self, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for a program that reads the state of this host.
const ANSWER: Duration = Duration::from_secs(5);
/// Output that is read, at most. A program that writes more is stopped at the end of its wait.
const BYTES_MAX: u64 = 4 << 20;
/// Time between two looks at a running program.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for the output of a program that has ended: a child of it may have the pipe.
const DRAIN: Duration = Duration::from_secs(1);

/// A point in time after which nothing is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// After `wait` from now on.
    #[expect(clippy::disallowed_methods, reason = "the clock of the checks, read here only")]
    pub(super) fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    /// The time until then.
    #[expect(clippy::disallowed_methods, reason = "the clock of the checks, read here only")]
    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// A program that has ended, or was killed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Ended {
    /// Whether its exit status is 0.
    pub(super) succeeded: bool,
    /// Whether it was killed at the end of its wait.
    pub(super) timed_out: bool,
    /// Standard output.
    pub(super) output: String,
    /// Standard error.
    pub(super) errors: String,
}

/// Runs `command` for `wait` at the longest. `look` gets its process id some times a second.
///
/// # Errors
/// It cannot be started, or waited for.
pub(super) fn run(
    command: &mut Command,
    wait: Duration,
    mut look: impl FnMut(u32),
) -> io::Result<Ended> {
    let deadline = Deadline::after(wait);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (output, errors) = (reader(child.stdout.take()), reader(child.stderr.take()));
    // bound: deadline
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if deadline.left().is_zero() {
            child.kill()?;
            child.wait()?;
            break None;
        }
        look(child.id());
        std::thread::sleep(LOOK);
    };
    let text = |of: Receiver<String>| of.recv_timeout(DRAIN).unwrap_or_default();
    Ok(Ended {
        succeeded: status.is_some_and(|status| status.success()),
        timed_out: status.is_none(),
        output: text(output),
        errors: text(errors),
    })
}

/// The text of a pipe, from a thread that reads it until its end.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // The bytes before a failure are the output.
            let _ = pipe.take(BYTES_MAX).read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// The answer of a program about this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ProgramAnswer {
    /// Its standard output.
    Text(String),
    /// It is not installed.
    Missing,
    /// It failed, or did not end.
    Failed,
}

impl ProgramAnswer {
    /// The text, if there is one.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Missing | Self::Failed => None,
        }
    }
}

/// The answer of `program`.
pub(super) fn answer(program: &str, arguments: &[&str]) -> ProgramAnswer {
    match run(Command::new(program).args(arguments), ANSWER, |_| ()) {
        Ok(ended) if ended.succeeded => ProgramAnswer::Text(ended.output),
        Err(error) if error.kind() == io::ErrorKind::NotFound => ProgramAnswer::Missing,
        Ok(_) | Err(_) => ProgramAnswer::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, wait: Duration) -> Ended {
        let mut looks = 0;
        let ended = run(Command::new("sh").args(["-c", text]), wait, |_| looks += 1).unwrap();
        assert!(looks <= wait.as_millis() / LOOK.as_millis() + 1, "{looks} looks");
        ended
    }

    #[test]
    fn a_program_has_its_output_and_its_status() {
        let ended = shell("echo out; echo err >&2; exit 3", Duration::from_secs(20));
        assert_eq!((ended.output.as_str(), ended.errors.as_str()), ("out\n", "err\n"));
        assert!(!ended.succeeded && !ended.timed_out);
        assert_eq!(answer("sh", &["-c", "echo x"]), ProgramAnswer::Text("x\n".to_owned()));
        assert_eq!(answer("sh", &["-c", "exit 1"]), ProgramAnswer::Failed);
        assert_eq!(answer("no-such-program", &[]), ProgramAnswer::Missing);
    }

    /// The child of the shell keeps the pipe: neither is waited for.
    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let patience = Deadline::after(Duration::from_secs(20));
        let ended = shell("echo out; sleep 30", Duration::from_millis(200));
        assert!(ended.timed_out && !ended.succeeded);
        assert!(!patience.left().is_zero(), "it was waited for");
    }

    #[test]
    fn more_output_than_is_read_stops_the_program() {
        let ended = shell("yes", Duration::from_millis(500));
        assert!(ended.output.len() as u64 <= BYTES_MAX);
    }
}
