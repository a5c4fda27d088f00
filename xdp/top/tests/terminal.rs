// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-top` on a terminal ends with it: `script` (util-linux) is the terminal.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Steps of 100 ms that an end may take.
const STEPS: u32 = 100;

#[test]
fn the_end_of_the_terminal_ends_the_program() {
    let folder = env!("CARGO_TARGET_TMPDIR");
    let program = format!("exec {} --folder {folder}", env!("CARGO_BIN_EXE_xdp-top"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--return", "--command", &program, "/dev/null"]);
    script.env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut script = script.spawn().expect("script, of util-linux");
    let mut shown = [0; 64];
    script.stdout.take().unwrap().read_exact(&mut shown).unwrap();
    let children = format!("/proc/{0}/task/{0}/children", script.id());
    let children = fs::read_to_string(children).unwrap();
    let top = children.trim().to_owned();
    assert!(fs::read_to_string(format!("/proc/{top}/comm")).unwrap().starts_with("xdp-top"));
    script.kill().unwrap();
    script.wait().unwrap();
    for _ in 0..STEPS {
        // A zombie, or the number of another program.
        let status = fs::read_to_string(format!("/proc/{top}/status")).unwrap_or_default();
        if !status.contains("Name:\txdp-top") || status.contains("State:\tZ") {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Command::new("kill").args(["-KILL", &top]).status().unwrap();
    panic!("xdp-top, process {top}, goes on without its terminal");
}
