// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `xdp-broker` says where it cannot start.

use std::process::Command;

#[test]
fn a_broker_without_a_policy_says_so_in_one_line() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xdp-broker"));
    command.env("RUST_BACKTRACE", "1").args(["--policy", "/nowhere/policy.toml"]);
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    let wanted = "xdp-broker: policy /nowhere/policy.toml (xdp-broker(8), FILES): No such file";
    assert!(said.starts_with(wanted), "{said}");
}
