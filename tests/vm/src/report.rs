// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of the machine: the console with the result, and files over the second serial line, a
//! JSON object each (`xtask/src/vm/results.rs` reads them).

use std::fs::File;
use std::io::Write;

use anyhow::Context;

/// The second serial line.
const LINE: &str = "/dev/ttyS1";

/// Sends a file to the host.
///
/// # Errors
/// When the line is missing (an interactive machine has none).
pub(crate) fn file(name: &str, text: &str) -> anyhow::Result<()> {
    let object = serde_json::json!({ "name": name, "text": text });
    let mut line = File::options().write(true).open(LINE).context(LINE)?;
    writeln!(line, "{object}")?;
    Ok(())
}

/// The closing line.
pub(crate) fn result(passed: u64, failed: u64) {
    println!("guest: {passed} passed, {failed} failed");
}
