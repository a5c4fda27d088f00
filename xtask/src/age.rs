// SPDX-License-Identifier: MIT OR Apache-2.0
//! `age`: four hosts with verified traffic under faults, for minutes or hours.
//!
//! In: length and seed. Out: the program's table, and an error for what it found. The program of
//! `tests/age` runs as root. Called by people, and by a stage of `test` with [`STAGE_MINUTES`].

use anyhow::{Context as _, Result, bail};

use crate::build::{self, Profile};
use crate::lab;
use crate::setup;
use crate::workspace::{Privilege, Workspace};

/// The program.
const PROGRAM: &str = "ofi-xdp-age";
/// Length of the run in the stage.
pub(crate) const STAGE_MINUTES: u64 = 3;

/// Builds, and runs the program.
pub(crate) fn age(workspace: &Workspace, minutes: u64, seed: u64) -> Result<()> {
    let privilege = Privilege::for_network();
    let mut command = privilege.command("env").context(
        "it runs between network namespaces, which needs root: use root, or `sudo -v` first",
    )?;
    setup::ensure(setup::BUILD_AND_RUN)?;
    let built = build::build(workspace, Profile::Release)?;
    let program = built.programs.get(PROGRAM).with_context(|| format!("no program {PROGRAM}"))?;
    lab::hand_over(&mut command, workspace);
    command.arg(program).arg("run").args(["--minutes", &minutes.to_string()]);
    command.args(["--seed", &seed.to_string()]).current_dir(workspace.root());
    if !command.status()?.success() {
        bail!("`cargo xtask age --minutes {minutes} --seed {seed}` failed: see above");
    }
    Ok(())
}
