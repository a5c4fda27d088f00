// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask top`: `xdp-top`, built in release.
//!
//! In: its own arguments. Out: it takes this process's place. Needs no privilege and no C library.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};

use crate::workspace::Workspace;

/// The package, and the program in it.
const PACKAGE: &str = "ofi-xdp-top";
pub(crate) const PROGRAM: &str = "xdp-top";

/// Builds it and says where it is.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", PACKAGE]);
    ensure!(cargo.status()?.success(), "{PACKAGE} does not build: see above");
    Ok(workspace.target_dir().join("release").join(PROGRAM))
}

/// Builds, and becomes it. Returns only on failure.
pub(crate) fn exec(workspace: &Workspace, arguments: &[OsString]) -> Result<ExitCode> {
    let program = build(workspace)?;
    let error = Command::new(&program).args(arguments).exec();
    bail!("cannot start {}: {error}", program.display())
}
