// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run`, and what of `bench` takes a network: the lab of package `tests`, with what it needs
//! built, as fast as it can be.
//!
//! In: the lab's own arguments. Out: the lab takes this process's place, so its exit code and its
//! handling of Ctrl-C are the task's. Only the lab runs as root; building stays with the user,
//! whose target folder it is.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::build::{self, Profile};
use crate::setup;
use crate::workspace::{Privilege, Workspace};

/// The program.
pub(crate) const LAB: &str = "ofi-xdp-lab";

/// Sets up, builds, and becomes `ofi-xdp-lab subcommand arguments`. Returns only on failure.
pub(crate) fn exec(
    workspace: &Workspace,
    subcommand: &str,
    arguments: &[OsString],
) -> Result<ExitCode> {
    Err(become_program(command(workspace, subcommand, arguments)?))
}

/// Sets up and builds; `ofi-xdp-lab subcommand arguments`, with the privilege that it needs.
pub(crate) fn command(
    workspace: &Workspace,
    subcommand: &str,
    arguments: &[OsString],
) -> Result<Command> {
    setup::ensure(setup::BUILD_AND_RUN)?;
    // Who only asks how does not wait for what is measured.
    let asks = arguments.iter().any(|one| one == "--help" || one == "-h");
    let built =
        if asks { build::build(workspace, Profile::Release)? } else { build::best(workspace)? };
    let lab = built.programs.get(LAB).with_context(|| format!("package tests has no {LAB}"))?;
    // Made here so that it belongs to the user, who can then remove what the lab writes as root.
    for folder in ["target/run", "target/bench", "target/profile"] {
        fs::create_dir_all(workspace.root().join(folder))?;
    }
    let privilege = Privilege::for_network();
    let Some(mut command) = privilege.command("env") else {
        bail!(
            "the lab makes network namespaces and AF_XDP sockets, which needs root: \
             run this as root or install sudo"
        );
    };
    if privilege != Privilege::Own {
        println!("the lab needs root: starting it through sudo");
    }
    hand_over(&mut command, workspace);
    if let Some(programs) = &built.guided {
        command.arg(variable("OFI_XDP_PROGRAMS", programs.as_os_str()));
    }
    command.arg(lab).arg(subcommand).args(arguments).current_dir(workspace.root());
    Ok(command)
}

/// Adds to `env`'s command line what a program of package `tests` needs of our environment, which
/// sudo drops.
pub(crate) fn hand_over(command: &mut Command, workspace: &Workspace) {
    command.arg(variable("FI_PROVIDER_PATH", workspace.provider_dir().as_os_str()));
    for name in ["FI_LOG_LEVEL", "FI_LOG_PROV", "FI_LOG_SUBSYS", "RUST_BACKTRACE", "RUST_LOG"] {
        if let Some(value) = std::env::var_os(name) {
            command.arg(variable(name, &value));
        }
    }
}

fn become_program(mut command: Command) -> anyhow::Error {
    let error = command.exec();
    anyhow::Error::new(error).context(format!("cannot start {}", command.get_program().display()))
}

/// `NAME=value`, for `env`.
pub(crate) fn variable(name: &str, value: &OsStr) -> OsString {
    let mut text = OsString::from(format!("{name}="));
    text.push(value);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_keeps_its_value_unquoted() {
        assert_eq!(variable("A", OsStr::new("b c")), OsString::from("A=b c"));
    }
}
