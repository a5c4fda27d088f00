// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask fabtests`: libfabric's own tests between two hosts, with the provider that was
//! built.
//!
//! In: the folder of an installation of fabtests: the value of [`VARIABLE`], or where the search
//! path has it. Some distributions have a package of that name, Debian has none. Out: the lines and
//! counts of the lab, which knows the outcome of each test. The quick set is the gate of the test
//! run.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::artifacts::LAB;
use crate::build::{self, Profile};
use crate::lab;
use crate::suite::{self, Counts};
use crate::workspace::{Privilege, Workspace, find_command};

/// Names the folder with the programs and `runfabtests.sh`.
const VARIABLE: &str = "OFI_XDP_FABTESTS";
/// Names the folder with the libfabric that they need, its C library and its loader.
const LIBRARIES: &str = "OFI_XDP_FABTESTS_LIBRARIES";
/// The script of every installation.
const SCRIPT: &str = "runfabtests.sh";
/// The reason of a stage that does not run.
pub(crate) const ABSENT: &str =
    "NOT RUN: no fabtests here; OFI_XDP_FABTESTS names their folder (docs/TESTING.md)";

/// The folder of an installation, if there is one.
pub(crate) fn programs() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty());
    match named {
        Some(folder) => Some(PathBuf::from(folder)),
        None => find_command(SCRIPT)?.parent().map(PathBuf::from),
    }
}

/// Runs the quick set in both tiers, and counts the tests with an outcome that is known.
pub(crate) fn count(workspace: &Workspace, programs: &OsStr) -> Result<Counts> {
    let mut arguments = vec![programs.to_owned()];
    if let Some(folder) = std::env::var_os(LIBRARIES).filter(|folder| !folder.is_empty()) {
        arguments.extend(["--libraries".into(), folder]);
    }
    suite::run(command(workspace, &arguments)?)
}

/// Runs it with the arguments of a person.
pub(crate) fn exec(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    let status = command(workspace, arguments)?.status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn command(workspace: &Workspace, arguments: &[OsString]) -> Result<Command> {
    let built = build::build(workspace, Profile::Release)?;
    let lab = built.programs.get(LAB).context("the build made no ofi-xdp-lab")?;
    let mut command = Privilege::for_network()
        .command("env")
        .context("fabtests run between network namespaces: be root, or install sudo")?;
    lab::hand_over(&mut command, workspace);
    command.arg(lab).arg("fabtests").args(arguments);
    Ok(command)
}
