// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts that passed tests leave out. The output of a passed test is not shown, so a file has them.
//!
//! In: the command of a test runner. Out: its counts, with the tests that left something out, and
//! the reasons on the terminal. A test writes a line (its name, a tab, the reason) to the file that
//! [`VARIABLE`] names; `ffi/tests/support/skip.rs` does. Called by the stages that run tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::stage::skipped_block;
use crate::suite::{self, Counts};
use crate::workspace::Workspace;

/// Names the file to the tests.
const VARIABLE: &str = "OFI_XDP_SKIPPED";

/// Runs `command` to its end, counts its tests, and prints the parts that were left out.
pub(super) fn run(workspace: &Workspace, mut command: Command) -> Result<Counts> {
    let file = workspace.root().join("target/skipped");
    // Made here so that it belongs to the user, also where tests run as root.
    fs::create_dir_all(workspace.root().join("target"))?;
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))?;
    command.env(VARIABLE, &file);
    let mut counts = suite::run(command)?;
    for (why, tests) in by_reason(&fs::read_to_string(&file)?) {
        counts.skipped += tests;
        println!("{}", skipped_block(&format!("in {tests} tests"), why));
    }
    Ok(counts)
}

/// Reasons, and how many tests named each.
fn by_reason(lines: &str) -> BTreeMap<&str, u64> {
    let mut reasons = BTreeMap::new();
    for (_, why) in lines.lines().collect::<BTreeSet<_>>().iter().filter_map(|l| l.split_once('\t'))
    {
        *reasons.entry(why).or_default() += 1;
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_printed_once_with_the_number_of_tests() {
        let lines = "a\tno mirror\nb\tno mirror\na\tno mirror\nc\tno valgrind\n";
        let reasons: Vec<_> = by_reason(lines).into_iter().collect();
        assert_eq!(reasons, [("no mirror", 2), ("no valgrind", 1)]);
        assert!(by_reason("").is_empty());
    }
}
