// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-top` writes plain text where its output is no terminal, and ends with the reader.

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
