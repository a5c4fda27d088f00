// SPDX-License-Identifier: MIT OR Apache-2.0
//! `run`, `profile`, and the suites of `bench` that need a network: the lab of package `tests`.
//!
//! In: the build of the provider, and the lab's own arguments. Out: the lab takes this process's
//! place, so its exit code and its handling of Ctrl-C are the task's. Only the lab runs as root;
//! the build runs as the user, because the target folder is the user's.

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::artifacts::LAB;
use crate::build::{self, Profile};
use crate::process::{now, variable};
use crate::setup;
use crate::workspace::{Privilege, Workspace};

/// The variables for the lab: the build that it measures, and the times before it
/// (`tests/bench/lab/src/made.rs`).
const BUILD: &str = "OFI_XDP_BUILD";
const SPENT: &str = "OFI_XDP_SPENT";

/// The argument of [`run`] that the lab does not get.
const PGO: &str = "--pgo";

/// `cargo xtask run`: with the quick build, which takes a quarter of the time to make, unless
/// [`PGO`] is among the arguments.
pub(crate) fn run(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    let (profile, arguments) = profile_of(arguments);
    let command = command(workspace, profile, "run", &arguments)?;
    if profile == Profile::Run {
        println!(
            "build      quick; `cargo xtask run {PGO}` measures the faster build, as installed"
        );
    }
    Err(become_program(command))
}

/// The profile that the arguments ask for, and those of the lab.
fn profile_of(arguments: &[OsString]) -> (Profile, Vec<OsString>) {
    let (pgo, others): (Vec<_>, Vec<_>) = arguments.iter().cloned().partition(|one| one == PGO);
    (if pgo.is_empty() { Profile::Run } else { Profile::Pgo }, others)
}

/// Sets up, makes the PGO build, and becomes `ofi-xdp-lab subcommand arguments`. Returns only on
/// failure.
pub(crate) fn exec(
    workspace: &Workspace,
    subcommand: &str,
    arguments: &[OsString],
) -> Result<ExitCode> {
    Err(become_program(command(workspace, Profile::Pgo, subcommand, arguments)?))
}

/// Builds the lab alone, and becomes `ofi-xdp-lab report arguments`, in the folder of the caller.
/// Returns only on failure.
pub(crate) fn report(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    setup::ensure(&[setup::Purpose::Build])?;
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", LAB, "--bin", LAB]);
    ensure!(cargo.status()?.success(), "the lab does not build: see above");
    let mut command = Command::new(workspace.target_dir().join("release").join(LAB));
    command.arg("report").args(arguments);
    Err(become_program(command))
}

/// Sets up and builds; `ofi-xdp-lab subcommand arguments`, with the privilege that it needs.
pub(crate) fn command(
    workspace: &Workspace,
    profile: Profile,
    subcommand: &str,
    arguments: &[OsString],
) -> Result<Command> {
    let begin = now();
    setup::ensure(setup::BUILD_AND_RUN)?;
    let set_up = begin.elapsed();
    // Help needs no PGO build.
    let asks = arguments.iter().any(|one| one == "--help" || one == "-h");
    let built = match profile {
        Profile::Pgo if !asks => build::best(workspace)?,
        Profile::Pgo => build::build(workspace, Profile::Release)?,
        plain => build::build(workspace, plain)?,
    };
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
    command.arg(variable(BUILD, built.profile.name().as_ref()));
    command.arg(variable(SPENT, spent(set_up, begin.elapsed() - set_up).as_ref()));
    if let Some(programs) = &built.pgo_programs {
        command.arg(variable("OFI_XDP_PROGRAMS", programs.as_os_str()));
    }
    command.arg(lab).arg(subcommand).args(arguments).current_dir(workspace.root());
    Ok(command)
}

/// The times before the lab, as it prints them.
fn spent(set_up: Duration, build: Duration) -> String {
    format!("set-up {:.0} s, build {:.0} s", set_up.as_secs_f64(), build.as_secs_f64())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_gets_the_times_of_set_up_and_build() {
        let (set_up, build) = (Duration::from_millis(700), Duration::from_millis(89_600));
        assert_eq!(spent(set_up, build), "set-up 1 s, build 90 s");
    }

    #[test]
    fn a_run_measures_the_quick_build_unless_the_other_is_asked_for() {
        for (given, profile) in [
            (&["--quick", "--nic", "eth0"][..], Profile::Run),
            (&["--quick", "--pgo", "--nic", "eth0"], Profile::Pgo),
        ] {
            let given: Vec<OsString> = given.iter().map(OsString::from).collect();
            let of_the_lab = ["--quick", "--nic", "eth0"].map(OsString::from).to_vec();
            assert_eq!(profile_of(&given), (profile, of_the_lab));
        }
    }
}
