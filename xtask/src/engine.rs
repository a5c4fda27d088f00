// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench engine`: what the engine costs without a network, and the gate on its
//! instructions (`--record` writes them down).
//!
//! In: the arguments of `tests/engine-bench`. Out: its table and `target/bench/engine.json`, with
//! the targets that the simulator measures. The gate counts instructions with callgrind, which
//! gives the same number on a busy machine, of a build as cargo makes it; times are of the best
//! build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::build::{self, Profile};
use crate::process::succeed_within;
use crate::setup::{self, Purpose};
use crate::simulator;
use crate::workspace::Workspace;

/// The package, and its program.
pub(crate) const PACKAGE: &str = "ofi-xdp-engine-bench";

/// Where the instructions are written down.
const LEDGER: &str = "tests/engine-bench/instructions.toml";

/// Some short runs under callgrind.
const COUNT_LIMIT: Duration = Duration::from_secs(300);

/// Its workloads, and how many operations of each show a compiler what runs how often.
const WORK: [&str; 7] = ["ping-pong", "singles", "messages", "packets", "writes", "reads", "bulk"];
const OPERATIONS: &str = "20000";
/// Some seconds, where counting is compiled in.
const WORK_LIMIT: Duration = Duration::from_secs(120);

/// Builds the program as cargo does, and says where it is.
pub(crate) fn compile(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", PACKAGE]);
    ensure!(cargo.status()?.success(), "{PACKAGE} does not build: see above");
    Ok(workspace.target_dir().join("release").join(PACKAGE))
}

/// Measures and reports.
pub(crate) fn bench(workspace: &Workspace, quick: bool) -> Result<ExitCode> {
    setup::ensure(&[Purpose::Count])?;
    let program = match build::best(workspace)?.guided {
        Some(folder) => folder.join(PACKAGE),
        None => compile(workspace)?,
    };
    let mut command = Command::new(program);
    command.arg("measure").current_dir(workspace.root());
    if quick {
        command.arg("--quick");
    }
    let records = workspace.root().join("target/bench/engine.json");
    // Should it fail, what an earlier run measured is not told as this one's.
    if records.exists() {
        fs::remove_file(&records)?;
    }
    command.arg("--out").arg(records);
    if simulator::exists(workspace) {
        command.arg("--simulator").arg(simulator::build(workspace)?);
    }
    let status = command.status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Lets `program` do everything that it has once, for a profile.
pub(crate) fn work(program: &Path) -> Result<()> {
    let once = |arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null());
        succeed_within(command, WORK_LIMIT)
    };
    WORK.iter().try_for_each(|work| once(&["work", work, OPERATIONS]))?;
    once(&["peers", "--quick"])
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
    let mut command = Command::new(compile(workspace)?);
    command.args(["instructions", "--ledger"]).arg(workspace.root().join(LEDGER)).args(arguments);
    succeed_within(command, COUNT_LIMIT)
}
