// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench engine`: what the engine costs without a network, and the gate on its
//! instructions (`--record` writes them down).
//!
//! In: the arguments of `tests/engine-bench`. Out: its table and `target/bench/engine.json`, with
//! the targets that the simulator measures. The gate counts instructions with callgrind, which
//! gives the same number on a busy machine.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::build::{self, Profile};
use crate::process::succeed_within;
use crate::setup::{self, Purpose};
use crate::simulator;
use crate::workspace::Workspace;

const PACKAGE: &str = "ofi-xdp-engine-bench";

/// Where the instructions are written down.
const LEDGER: &str = "tests/engine-bench/instructions.toml";

/// Some short runs under callgrind.
const COUNT_LIMIT: Duration = Duration::from_secs(300);

/// Builds the program and says where it is.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", PACKAGE]);
    ensure!(cargo.status()?.success(), "{PACKAGE} does not build: see above");
    Ok(workspace.target_dir().join("release").join(PACKAGE))
}

/// Measures and reports.
pub(crate) fn bench(workspace: &Workspace, quick: bool) -> Result<ExitCode> {
    setup::ensure(&[Purpose::Count])?;
    let mut command = Command::new(build(workspace)?);
    command.arg("measure").current_dir(workspace.root());
    if quick {
        command.arg("--quick");
    }
    command.arg("--out").arg(workspace.root().join("target/bench/engine.json"));
    if simulator::exists(workspace) {
        command.arg("--simulator").arg(simulator::build(workspace)?);
    }
    let status = command.status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails where something costs more than is written down.
pub(crate) fn instructions(workspace: &Workspace) -> Result<()> {
    count(workspace, &[])
}

/// Writes down what it costs now.
pub(crate) fn record(workspace: &Workspace) -> Result<()> {
    count(workspace, &["--record"])
}

fn count(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    setup::ensure(&[Purpose::Count])?;
    // Reads of a completion queue are counted through the provider.
    build::build(workspace, Profile::Release)?;
    let mut command = Command::new(build(workspace)?);
    command.args(["instructions", "--ledger"]).arg(workspace.root().join(LEDGER)).args(arguments);
    succeed_within(command, COUNT_LIMIT)
}
