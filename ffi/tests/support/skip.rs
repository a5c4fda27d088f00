// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a test leaves out for want of something, told where it is seen.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "shared by several test programs")]

use std::env;
use std::fs::File;
use std::io::Write as _;
use std::thread;

/// What can be had is missing: a failure where `CI` is set.
#[track_caller]
pub fn skipped(why: &str) {
    let is_ci = env::var("CI").is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()));
    assert!(!is_ci, "{why}");
    left_out(why);
}

/// It cannot be done here. Noted in the file that `cargo xtask test` names and shows, as nobody
/// sees what a passed test prints.
pub fn left_out(why: &str) {
    eprintln!("SKIPPED: {why}");
    let Some(list) = env::var_os("OFI_XDP_SKIPPED") else { return };
    let test = thread::current().name().unwrap_or_default().to_owned();
    // One write, as others append too.
    let line = format!("{}::{test}\t{}\n", env!("CARGO_CRATE_NAME"), why.replace('\n', " "));
    let mut list = File::options().append(true).open(list).expect("made by cargo xtask test");
    list.write_all(line.as_bytes()).expect("it has room");
}
