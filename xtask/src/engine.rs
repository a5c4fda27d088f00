// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench engine`: the cost of the engine without a network, and the gate on its
//! instructions (`--record` updates the ledger).
//!
//! In: the arguments of `tests/bench/engine`. Out: its table and `target/bench/engine.json`, with
//! the targets that the simulator measures. The gate counts the instructions of a release build
//! with callgrind, which gives the same number on a busy machine. It has link-time optimisation in
//! the stage too: without it the numbers are others. Times are of the PGO build.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::artifacts::ENGINE_BENCH;
use crate::build::{self, Profile};
use crate::process::succeed_within;
use crate::setup::{self, Purpose};
use crate::simulator;
use crate::workspace::Workspace;

/// The instruction ledger.
const LEDGER: &str = "tests/bench/engine/instructions.toml";

/// Time limit of some short runs under callgrind.
const COUNT_LIMIT: Duration = Duration::from_secs(300);

/// The provider, and the programs that count.
const COUNTED: [&str; 11] = [
    "--package",
    "ofi-xdp-ffi",
    "--package",
    ENGINE_BENCH,
    "--lib",
    "--bin",
    ENGINE_BENCH,
    "--bin",
    "ofi-xdp-engine-paths",
    "--bin",
    "ofi-xdp-engine-worst",
];

/// Builds the program as cargo does, and says where it is.
pub(crate) fn compile(workspace: &Workspace) -> Result<PathBuf> {
    compile_with(workspace, &["--package", ENGINE_BENCH])
}

/// Builds what `selection` names, and says where the program is.
fn compile_with(workspace: &Workspace, selection: &[&str]) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release"]).args(selection);
    ensure!(cargo.status()?.success(), "{ENGINE_BENCH} does not build: see above");
    Ok(workspace.target_dir().join("release").join(ENGINE_BENCH))
}

/// Measures and reports.
pub(crate) fn bench(workspace: &Workspace, quick: bool) -> Result<ExitCode> {
    setup::ensure(&[Purpose::Count])?;
    let program = match build::best(workspace)?.pgo_programs {
        Some(folder) => folder.join(ENGINE_BENCH),
        None => compile(workspace)?,
    };
    let mut command = Command::new(program);
    command.arg("measure").current_dir(workspace.root());
    if quick {
        command.arg("--quick");
    }
    let records = workspace.root().join("target/bench/engine.json");
    // Without it, a failed run would report the figures of an earlier one.
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

/// Measures a message among many receives and stored messages, and reports.
pub(crate) fn matching(workspace: &Workspace, quick: bool) -> Result<ExitCode> {
    let mut command = Command::new(compile(workspace)?.with_file_name("ofi-xdp-engine-matching"));
    command.current_dir(workspace.root());
    if quick {
        command.arg("--quick");
    }
    command.arg("--out").arg(workspace.root().join("target/bench/engine-matching.json"));
    let status = command.status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails if a row costs more than the ledger says.
pub(crate) fn instructions(workspace: &Workspace) -> Result<()> {
    count(workspace, &[])
}

/// Writes the present counts to the ledger.
pub(crate) fn record(workspace: &Workspace) -> Result<()> {
    count(workspace, &["--record"])
}

fn count(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    setup::ensure(&[Purpose::Count])?;
    // The program that reads a completion queue is one of the tests. The provider that it counts
    // takes the place of that build.
    build::build(workspace, Profile::Release)?;
    let mut command = Command::new(compile_with(&workspace.with_lto(), &COUNTED)?);
    command.args(["instructions", "--ledger"]).arg(workspace.root().join(LEDGER)).args(arguments);
    succeed_within(command, COUNT_LIMIT)
}
