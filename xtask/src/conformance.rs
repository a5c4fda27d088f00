// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask conformance`: the promises of libfabric's man pages, on this or another provider.
//!
//! In: the arguments of `tests/conformance`, and which libfabric. Out: its lines and counts. Our
//! provider is the one that was built, on kernel sockets and the loopback interface: what is under
//! test is the interface, and a run needs no privilege and disturbs nobody. libfabric 2 is Debian
//! 13's, which the tests of package `ffi` fetch into the target folder.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};

use crate::build::{self, Profile};
use crate::suite::{self, Counts};
use crate::workspace::Workspace;

const PACKAGE: &str = "ofi-xdp-conformance";

/// Which libfabric the suite runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Libfabric {
    /// The installed one.
    Installed,
    /// Debian 13's libfabric 2.
    Two,
}

/// Builds the suite alone.
fn suite(workspace: &Workspace) -> Result<PathBuf> {
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--release", "--package", PACKAGE]);
    ensure!(cargo.status()?.success(), "{PACKAGE} does not build: see above");
    Ok(workspace.target_dir().join("release").join(PACKAGE))
}

/// The folder with libfabric 2 and its C library, if it has been fetched.
fn libfabric_2(workspace: &Workspace) -> Option<PathBuf> {
    let products = ["debug", "release"].map(|profile| workspace.target_dir().join(profile));
    let folders = products.map(|folder| {
        folder.join("deps/libfabric-tests/debian-13/root").join("usr/lib/x86_64-linux-gnu")
    });
    folders.into_iter().find(|folder| folder.join("libfabric.so.1").exists())
}

/// The command that runs the suite, or `None` where libfabric 2 has not been fetched.
fn command(workspace: &Workspace, libfabric: Libfabric) -> Result<Option<Command>> {
    let program = suite(workspace)?;
    let mut command = Command::new(&program);
    if libfabric == Libfabric::Two {
        let Some(libraries) = libfabric_2(workspace) else { return Ok(None) };
        command.env("CONFORMANCE_LIBRARIES", libraries);
    }
    command.env("FI_PROVIDER_PATH", workspace.provider_dir());
    command.env("FI_XDP_IFACE", "lo").env("FI_XDP_MODE", "udp");
    Ok(Some(command))
}

/// Runs it with the arguments of a person.
pub(crate) fn exec(
    workspace: &Workspace,
    libfabric: Libfabric,
    arguments: &[OsString],
) -> Result<ExitCode> {
    build::build(workspace, Profile::Release)?;
    let command = command(workspace, libfabric)?;
    let mut command = command.context(
        "libfabric 2 is fetched by `cargo xtask test libfabric_2`: it is not there (yet)",
    )?;
    let status = command.args(arguments).status()?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs all of it, and counts; `None` where this libfabric is not there.
pub(crate) fn count(workspace: &Workspace, libfabric: Libfabric) -> Result<Option<Counts>> {
    let Some(command) = command(workspace, libfabric)? else { return Ok(None) };
    suite::run(command).map(Some)
}
