// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates `ffi/libfabric-sys/src/bindings.rs` from the libfabric headers, or checks that it is
//! up to date.
//!
//! In: the system's libfabric headers. Out: the file, or an error. The generator is a program of
//! the package `ofi-xdp-libfabric-sys`: it needs libclang, and this package must build without.

use std::process::Command;

use anyhow::{Result, bail};

use crate::setup::{self, Purpose};
use crate::workspace::Workspace;

/// The committed bindings describe this release, the oldest that is supported; later ones append.
const HEADERS: &str = "1.17";

/// Runs the generator; with `check` it writes nothing and fails on a difference.
pub(crate) fn bindings(workspace: &Workspace, check: bool) -> Result<()> {
    setup::ensure(&[Purpose::Build, Purpose::Bindings])?;
    if let Some(reason) = unsuitable_headers() {
        bail!("{reason}");
    }
    let mut cargo = generator(workspace);
    if check {
        cargo.arg("--check");
    }
    let status = cargo.status()?;
    if !status.success() {
        bail!("the bindings generator failed ({status}): see above");
    }
    Ok(())
}

/// Why the headers here cannot be used: another release gives other bindings.
pub(crate) fn unsuitable_headers() -> Option<String> {
    let output = Command::new("pkg-config").args(["--modversion", "libfabric"]).output().ok();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let version = version.unwrap_or_default();
    let suitable = version == HEADERS || version.starts_with(&format!("{HEADERS}."));
    (!suitable).then(|| {
        format!("the bindings are made from libfabric {HEADERS}; the headers here are {version:?}")
    })
}

fn generator(workspace: &Workspace) -> Command {
    let mut cargo = workspace.cargo();
    cargo.args(["run", "--package", "ofi-xdp-libfabric-sys", "--features", "bindgen"]);
    cargo.args(["--bin", "bindings", "--"]);
    cargo
}
