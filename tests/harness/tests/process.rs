// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limits of a child process: the whole time, and the time without output.

use std::time::Duration;

use ofi_xdp_harness::process::{Output, Program};

const LONG: Duration = Duration::from_secs(60);

/// Runs `script` by a shell, with limits for the time without output and for the whole.
fn run(script: &str, silence: Duration, timeout: Duration) -> anyhow::Result<Output> {
    Program::new("sh").args(["-c", script]).start()?.finish_while_printing(silence, timeout)
}

/// The message of the failed run of `script`.
fn failure(script: &str, silence: Duration, timeout: Duration) -> String {
    format!("{:#}", run(script, silence, timeout).unwrap_err())
}

#[test]
fn a_program_that_prints_outlives_the_limit_of_silence() {
    let script = "for line in 1 2 3 4 5 6 7 8; do echo $line >&2; sleep 0.5; done";
    let output = run(script, Duration::from_secs(3), LONG).unwrap();
    assert!(output.status.success());
    assert!(output.stderr.ends_with("8\n"), "{}", output.stderr);
}

#[test]
fn a_silent_program_is_ended_with_its_last_lines() {
    let message = failure("echo last line; sleep 1000", Duration::from_millis(300), LONG);
    assert!(message.contains("no output for 0.3 s") && message.contains("last line"), "{message}");
}

#[test]
fn a_program_that_prints_for_ever_is_ended() {
    let script = "while :; do echo again; sleep 0.1; done";
    let message = failure(script, LONG, Duration::from_millis(500));
    assert!(message.contains("not within 0.5 s"), "{message}");
}
