// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of parts that a test leaves out because a requirement is missing.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several test programs")]

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::thread;

/// A requirement that can be installed is missing: a failure if `CI` is set.
#[track_caller]
pub fn skipped(why: &str) {
    let is_ci = env::var("CI").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()));
    assert!(!is_ci, "{why}");
    left_out(why);
}

/// A part that cannot run on this machine. It is reported in the file that `cargo xtask test` names
/// and shows, because the output of a passed test is hidden.
pub fn left_out(why: &str) {
    eprintln!("SKIPPED: {why}");
    let Some(list) = env::var_os("OFI_XDP_SKIPPED") else { return };
    let test = thread::current().name().unwrap_or_default().to_owned();
    // A single write, as other processes append too.
    let line = format!("{}::{test}\t{}\n", env!("CARGO_CRATE_NAME"), why.replace('\n', " "));
    let mut list = File::options().append(true).open(list).expect("made by cargo xtask test");
    list.write_all(line.as_bytes()).expect("it has room");
}
