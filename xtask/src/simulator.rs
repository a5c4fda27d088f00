// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask sim`: the simulator of package `tests/engine/sim`, built in release.
//!
//! In: the simulator's own arguments, or the short forms `--seed S` and `--swarm MINUTES`. Out: the
//! simulator takes this process's place. The stage of `cargo xtask test` runs its tests and a swarm
//! with a bound on its time.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::process::succeed_within;
use crate::workspace::Workspace;

/// The package, and the program in it.
pub(crate) const PACKAGE: &str = "ofi-xdp-sim";

/// The test that runs the first seeds of [`swarm`].
pub(crate) const SWARM_TEST: &str = "a_swarm_breaks_nothing";

/// The seeds of an automatic build, from 0 on, and its time limit.
const SWARM_SEEDS: u32 = 2000;
const SWARM_LIMIT: Duration = Duration::from_secs(4 * 60);

/// Whether the package is in the workspace.
pub(crate) fn exists(workspace: &Workspace) -> bool {
    workspace.root().join("tests/engine/sim/Cargo.toml").exists()
}

/// Builds the simulator and says where it is.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    ensure!(exists(workspace), "there is no package tests/engine/sim in this workspace");
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", PACKAGE, "--bin", PACKAGE]);
    ensure!(cargo.status()?.success(), "the simulator does not build: see above");
    Ok(workspace.target_dir().join("release").join(PACKAGE))
}

/// Builds, and becomes the simulator. Returns only on failure.
pub(crate) fn exec(workspace: &Workspace, arguments: Vec<OsString>) -> Result<ExitCode> {
    let program = build(workspace)?;
    let error =
        Command::new(&program).args(spelled_out(arguments)).current_dir(workspace.root()).exec();
    bail!("cannot start {}: {error}", program.display())
}

/// `--swarm M …` is `swarm --minutes M …`, and other options are those of `run`.
fn spelled_out(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let Some(first) = arguments.first().and_then(|first| first.to_str()) else { return arguments };
    if let Some(minutes) = first.strip_prefix("--swarm") {
        let minutes = minutes.strip_prefix('=').map(OsString::from);
        arguments[0] = "--minutes".into();
        if let Some(minutes) = minutes {
            arguments.insert(1, minutes);
        }
        arguments.insert(0, "swarm".into());
    } else if first.starts_with("--") && first != "--help" {
        arguments.insert(0, "run".into());
    }
    arguments
}

/// A random swarm, which fails on a rule that does not hold or a transition that was never taken.
pub(crate) fn swarm(workspace: &Workspace) -> Result<()> {
    let mut command = Command::new(build(workspace)?);
    command.args(["swarm", "--seeds", &SWARM_SEEDS.to_string()]).current_dir(workspace.root());
    succeed_within(command, SWARM_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms_are_spelled_out() {
        let check = |given: &[&str], wanted: &[&str]| {
            assert_eq!(spelled_out(given.iter().map(OsString::from).collect()), wanted);
        };
        check(&["--seed", "7", "--trace"], &["run", "--seed", "7", "--trace"]);
        check(&["--swarm", "3"], &["swarm", "--minutes", "3"]);
        check(&["--swarm=3", "--first", "9"], &["swarm", "--minutes", "3", "--first", "9"]);
        check(&["corpus"], &["corpus"]);
        check(&["--help"], &["--help"]);
        check(&[], &[]);
    }
}
