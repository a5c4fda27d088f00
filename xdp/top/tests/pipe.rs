// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-top` writes plain text where its output is no terminal, and ends with the reader. Its
//! failures are one line.

use std::io::Read as _;
use std::process::{Command, Stdio};

#[test]
fn a_pipe_gets_no_escape_codes_and_its_end_ends_the_program() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdp-top"));
    command.args(["--interval", "0.1", "--folder", folder]).stdout(Stdio::piped());
    let mut top = command.spawn().unwrap();
    let mut first = [0; 8];
    let mut output = top.stdout.take().unwrap();
    output.read_exact(&mut first).unwrap();
    assert!(!first.contains(&0x1b), "{first:?}");
    drop(output);
    assert!(top.wait().unwrap().success());
}

#[test]
fn a_failure_is_one_line() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdp-top"));
    command.env("RUST_BACKTRACE", "1").args(["--json", "--folder", "/proc/self/status"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.starts_with("xdp-top: cannot read /proc/self/status: "), "{said}");
}
