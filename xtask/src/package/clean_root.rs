// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `.deb` in a clean root: installed, used without a variable or privilege, removed.
//!
//! In: the package. Out: a count of the checks; their lines are in the file `results` beside it.
//! The root is the machine's own below an overlay in memory, in namespaces of its own: nothing of
//! it outlives the check, and whatever the package leaves behind is seen in the overlay.
//! `clean_root.sh` is the check. Called by the stage `packages`. Bound: [`LIMIT`].

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::process::{run_bounded, variable};
use crate::stage::skipped_block;
use crate::suite::Counts;
use crate::workspace::{Privilege, Workspace, find_command, is_ci};

/// For some tens of checks, most of them a second.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(240);

/// Runs the checks.
pub(super) fn check(workspace: &Workspace, privilege: Privilege, deb: &Path) -> Result<Counts> {
    if let Some(reason) = impossible(privilege) {
        if is_ci() {
            bail!("the packages were not installed: {reason}");
        }
        println!("{}", skipped_block("the clean root", &reason));
        return Ok(Counts { passed: 0, failed: 0, skipped: 1 });
    }
    let results = deb.with_file_name("results");
    let script = workspace.root().join("xtask/src/package/clean_root.sh");
    let mut command = privilege.command("env").unwrap_or_else(|| Command::new("env"));
    command.arg(variable("RESULTS", results.as_os_str()));
    let document = workspace.root().join("docs/install.md");
    command.arg(variable("INSTALL_DOCUMENT", document.as_os_str()));
    command.args(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh"]);
    command.arg(script).arg(deb).stdin(Stdio::null());
    let ended = run_bounded(command, LIMIT)?;
    let counts = count(&std::fs::read_to_string(&results).unwrap_or_default());
    if !ended.is_success() && counts.failed == 0 {
        bail!("the check in the clean root did not come to its end: {ended:?}");
    }
    Ok(counts)
}

/// Why the machine cannot be used as a clean root.
fn impossible(privilege: Privilege) -> Option<String> {
    if !matches!(privilege, Privilege::Own | Privilege::Sudo) {
        return Some("needs root, for namespaces and an overlay".to_owned());
    }
    let programs = ["unshare", "setpriv", "dpkg", "fi_info", "ip", "systemd-socket-activate"];
    let missing = programs.into_iter().find(|program| find_command(program).is_none())?;
    Some(format!("no {missing} on this machine"))
}

/// Lines `ok NAME`, `FAILED NAME`, `skipped NAME`.
fn count(results: &str) -> Counts {
    let with = |word: &str| results.lines().filter(|line| line.starts_with(word)).count() as u64;
    Counts { passed: with("ok "), failed: with("FAILED "), skipped: with("skipped ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_counted() {
        let results = "ok installs\nFAILED purges: left\nskipped lintian: none here\nok runs\n";
        assert_eq!(count(results), Counts { passed: 2, failed: 1, skipped: 1 });
    }

    #[test]
    fn without_privilege_it_says_so() {
        assert!(impossible(Privilege::None).unwrap().contains("root"));
    }
}
