// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run`, and the suites of `bench` that need a network: the lab of package `tests`, with the PGO
//! build of the provider.
//!
//! In: the lab's own arguments. Out: the lab takes this process's place, so its exit code and its
//! handling of Ctrl-C are the task's. Only the lab runs as root; the build runs as the
//! user, because the target folder is the user's.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::artifacts::LAB;
use crate::build::{self, Profile};
use crate::process::variable;
use crate::setup;
use crate::workspace::{Privilege, Workspace};

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
    // Help needs no PGO build.
    let asks = arguments.iter().any(|one| one == "--help" || one == "-h");
    let built =
        if asks { build::build(workspace, Profile::Release)? } else { build::best(workspace)? };
    let lab = built.programs.get(LAB).with_context(|| format!("the build made no {LAB}"))?;
    // Made here so that they belong to the user. Then the user can remove the files that root
    // writes.
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
    if let Some(programs) = &built.pgo_programs {
        command.arg(variable("OFI_XDP_PROGRAMS", programs.as_os_str()));
    }
    command.arg(lab).arg(subcommand).args(arguments).current_dir(workspace.root());
    Ok(command)
}

/// Adds to `env`'s command line the variables that a program of package `tests` needs: sudo drops
/// the environment.
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
