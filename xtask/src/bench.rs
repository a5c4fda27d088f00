// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask bench`: which program measures which suite.
//!
//! In: the command line. Out: `target/bench/SUITE.json`, a table, the targets and
//! `target/bench/report.html`. The engine's suite needs no privilege and no network; the lab's do,
//! and the lab makes the page of all that was measured.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};

use crate::artifacts::LAB;
use crate::build::{self, Profile};
use crate::workspace::Workspace;
use crate::{engine, lab, setup};

/// Runs one suite, or all: first the engine's, then the lab's.
pub(crate) fn bench(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    let has = |name: &str| arguments.iter().any(|one| one == name);
    let suite = arguments.first().and_then(|one| one.to_str()).filter(|one| !one.starts_with('-'));
    match suite {
        Some("engine") if has("--record") => {
            engine::record(workspace)?;
            Ok(ExitCode::SUCCESS)
        }
        Some("engine") => {
            let code = engine::bench(workspace, has("--quick"))?;
            tell(workspace, arguments)?;
            Ok(code)
        }
        Some("matching") => {
            let code = engine::matching(workspace, has("--quick"))?;
            if code == ExitCode::SUCCESS {
                return lab::exec(workspace, "bench", arguments);
            }
            Ok(code)
        }
        Some("report") => tell(workspace, arguments),
        Some(one) => {
            if one == "scale" {
                engine::compile(workspace)?;
            }
            lab::exec(workspace, "bench", arguments)
        }
        None if has("--help") => lab::exec(workspace, "bench", arguments),
        None => {
            let code = engine::bench(workspace, has("--quick"))?;
            if code == ExitCode::SUCCESS {
                return lab::exec(workspace, "bench", arguments);
            }
            // The rest is measured all the same, and cannot make this a success.
            lab::command(workspace, Profile::Pgo, "bench", arguments)?.status()?;
            Ok(code)
        }
    }
}

/// The table of targets and the page, from earlier measurements. It needs no privilege.
fn tell(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    setup::ensure(setup::BUILD_AND_RUN)?;
    let built = build::build(workspace, Profile::Release)?;
    let lab = built.programs.get(LAB).context("the build made no ofi-xdp-lab")?;
    let mut command = Command::new(lab);
    let arguments = arguments.iter().filter(|one| *one != "--quick");
    let status = command.arg("bench").args(arguments).current_dir(workspace.root()).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
