// SPDX-License-Identifier: MIT OR Apache-2.0
//! Set-up: probes each requirement, and installs the missing ones where that is possible.
//!
//! In: the purposes a task has. Out: everything they need is there, or an error with the list and
//! the command that mends it. Called first by every task that needs more than Rust; on a machine
//! that has everything this takes well under 0.2 s. Asks nothing, so that it works without a
//! terminal.

mod packages;
mod requirement;

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use self::packages::{PackageManager, apt_has};
use self::requirement::{Check, REQUIREMENTS, Requirement, System};
use crate::workspace::{Privilege, is_ci};

pub(crate) use self::requirement::Purpose;

/// For `build`, `run` and `bench`.
pub(crate) const BUILD_AND_RUN: &[Purpose] = &[Purpose::Build, Purpose::Run];

/// For `test`.
pub(crate) const TESTS: &[Purpose] = &[Purpose::Build, Purpose::Run, Purpose::Test];

/// For `test --all`.
pub(crate) const EVERYTHING: &[Purpose] = &[
    Purpose::Build,
    Purpose::Run,
    Purpose::Test,
    Purpose::Bindings,
    Purpose::Check,
    Purpose::Fuzz,
    Purpose::Count,
    Purpose::Package,
    Purpose::PackageTest,
    Purpose::Aarch64,
];

/// Makes sure that each requirement of `purposes` is met, and installs missing packages.
///
/// A requirement that no package brings here is named and left out: some kernels have no tools.
///
/// # Errors
/// If it cannot install, with the missing requirements and the command to give.
pub(crate) fn ensure(purposes: &[Purpose]) -> Result<()> {
    let missing = missing(purposes, &System);
    if missing.is_empty() {
        return Ok(());
    }
    println!("{}", describe(&missing));
    let manager = PackageManager::detect().with_context(|| {
        "no package manager known here (apt-get, dnf, zypper, pacman): install the above by hand"
    })?;
    let privilege = Privilege::for_files();
    let mut found = manager.packages(&missing, &apt_has);
    let has_no_lists = !found.left_out.is_empty() && !apt_has("gcc");
    if has_no_lists && privilege != Privilege::None {
        apt(privilege, &["update"])?;
        found = manager.packages(&missing, &apt_has);
    }
    for one in &found.left_out {
        println!("set-up: left out, as no package has it for this kernel: {}", one.test);
    }
    if found.names.is_empty() {
        return Ok(());
    }
    let command = manager.install_command(&found.names);
    if !manager.installs_unattended() || privilege == Privilege::None {
        bail!("the packages above are missing; install them with\n\n    {command}\n");
    }
    let shown = if privilege == Privilege::Own { &command["sudo ".len()..] } else { &command };
    println!("set-up: {shown}");
    install_with_apt(&found.names, privilege)?;
    let mut still = self::missing(purposes, &System);
    still.retain(|one| found.left_out.iter().all(|left| left.test != one.test));
    if !still.is_empty() {
        bail!("installed, yet not usable:\n{}", describe(&still));
    }
    Ok(())
}

/// Requirements of `purposes` with a probe that fails.
fn missing(purposes: &[Purpose], probe: &dyn Check) -> Vec<&'static Requirement> {
    REQUIREMENTS
        .iter()
        .filter(|one| purposes.contains(&one.purpose) && !probe.holds(&one.test))
        .collect()
}

fn describe(missing: &[&Requirement]) -> String {
    let mut text = String::from("set-up: missing on this machine:");
    for one in missing {
        let _ = write!(text, "\n    {:<28} {}", one.test.to_string(), one.why);
    }
    text
}

/// Package lists are refreshed only when the installation fails without.
fn install_with_apt(packages: &[String], privilege: Privilege) -> Result<()> {
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(packages.iter().map(String::as_str));
    if apt(privilege, &install)? {
        return Ok(());
    }
    println!("set-up: refreshing the package lists");
    if !apt(privilege, &["update"])? {
        bail!("`apt-get update` failed (its output is above)");
    }
    if !apt(privilege, &install)? {
        bail!("`apt-get install` failed (its output is above)");
    }
    Ok(())
}

/// Whether `apt-get arguments` succeeded. Its output is shown to people, and in an automatic build
/// only when it failed.
fn apt(privilege: Privilege, arguments: &[&str]) -> Result<bool> {
    let mut command = privilege.command("env").context("installing packages needs root")?;
    command
        .args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=120"])
        .args(arguments);
    if privilege != Privilege::SudoAsks {
        command.stdin(Stdio::null());
    }
    run_quietly(command, is_ci())
}

fn run_quietly(mut command: Command, quiet: bool) -> Result<bool> {
    let program = command.get_program().to_owned();
    let started = || format!("{} did not start", program.display());
    if !quiet {
        return Ok(command.status().with_context(started)?.success());
    }
    let output = command.output().with_context(started)?;
    if !output.status.success() {
        print!("{}", String::from_utf8_lossy(&output.stdout));
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(output.status.success())
}

#[cfg(test)]
mod tests {
    use super::requirement::Test;
    use super::*;

    /// A machine that has all but some things.
    struct Without(&'static [Test]);

    impl Check for Without {
        fn holds(&self, test: &Test) -> bool {
            !self.0.contains(test)
        }
    }

    #[test]
    fn a_complete_machine_misses_nothing() {
        assert!(missing(EVERYTHING, &Without(&[])).is_empty());
    }

    #[test]
    fn a_missing_header_names_its_package_and_reason() {
        let lacking = Without(&[Test::Header("rdma/fabric.h"), Test::Command("clang")]);
        let missing = missing(BUILD_AND_RUN, &lacking);
        assert_eq!(missing.len(), 2);
        let text = describe(&missing);
        assert!(text.contains("rdma/fabric.h") && text.contains("clang"), "{text}");
        let packages = |manager: PackageManager| manager.packages(&missing, &|_| true).names;
        assert_eq!(packages(PackageManager::Apt), ["clang", "libfabric-dev"]);
        assert_eq!(packages(PackageManager::Dnf), ["clang", "libfabric-devel"]);
    }

    #[test]
    fn a_run_needs_no_bpftool() {
        let lacking = Without(&[Test::Runs("bpftool")]);
        assert!(missing(BUILD_AND_RUN, &lacking).is_empty());
        assert_eq!(missing(TESTS, &lacking).len(), 1);
    }

    #[test]
    fn a_purpose_not_asked_for_is_not_missed() {
        let lacking = Without(&[Test::Library("libclang")]);
        assert!(missing(BUILD_AND_RUN, &lacking).is_empty());
        assert_eq!(missing(EVERYTHING, &lacking).len(), 1);
    }

    #[test]
    fn the_install_command_is_one_a_person_can_paste() {
        let command = PackageManager::Apt.install_command(&["m4".to_owned(), "clang".to_owned()]);
        assert_eq!(command, "sudo apt-get install -y --no-install-recommends m4 clang");
    }

    #[test]
    fn a_failing_command_is_false_and_an_absent_one_an_error() {
        assert!(run_quietly(Command::new("true"), true).unwrap());
        assert!(!run_quietly(Command::new("false"), true).unwrap());
        assert!(run_quietly(Command::new("no-such-command-anywhere"), true).is_err());
    }
}
