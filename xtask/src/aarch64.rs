// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project on aarch64: compiled here, run by an emulator.
//!
//! In: Rust's library for the target, a C compiler for it, Debian's packages of that architecture,
//! which are unpacked and not installed. Out: a count: the tests of the engine and of the crates
//! below it, and a ping-pong of the cross-compiled provider by Debian's own `fi_pingpong`. On
//! another system than Debian: the reason for none. Called by the stage `aarch64`. Bound: [`LIMIT`]
//! for each program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use crate::artifacts::{PROVIDER_FILE, replace, run_cargo};
use crate::process::succeed_within;
use crate::setup::{self, Purpose};
use crate::suite::{self, Counts};
use crate::vm::apt::{Apt, once};
use crate::workspace::{Workspace, is_ci};

/// The target.
const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Packages with the tests that run: they need no kernel beyond that of the emulator.
const TESTED: [&str; 2] = ["ofi-xdp-core", "ofi-xdp-checksum"];
/// Core's tests of several engines that run: each kind of operation, and faults of the link.
const ENGINES: [&str; 4] = ["connections", "faults", "messages", "remote"];
/// An emulator is slower by a factor of tens: fewer random cases, and code that is optimised.
const SLOW: [(&str, &str); 3] =
    [("PROPTEST_CASES", "8"), ("OFI_XDP_SEEDS", "5"), ("CARGO_PROFILE_TEST_OPT_LEVEL", "1")];
/// The provider.
const PROVIDER: &str = "ofi-xdp-ffi";
/// The packages of programs, which compile.
const PROGRAMS: [&str; 4] = ["ofi-xdp-broker", "ofi-xdp-perf", "ofi-xdp-run", "ofi-xdp-top"];
/// Debian's packages: libelf and zlib to link with, libfabric and what it needs to run.
const PACKAGES: [&str; 15] = [
    "ibverbs-providers",
    "libatomic1",
    "libc6",
    "libelf-dev",
    "libelf1",
    "libfabric-bin",
    "libfabric1",
    "libgcc-s1",
    "libibverbs1",
    "libnl-3-200",
    "libnl-route-3-200",
    "librdmacm1",
    "zlib1g",
    "zlib1g-dev",
    "libfabric-dev",
];
/// Two processes of `fi_pingpong`, each by `$EMULATED`.
const PING_PONG: &str = "$EMULATED -p xdp -e rdm -I 1000 -S 1024 & sleep 3
    $EMULATED -p xdp -e rdm -I 1000 -S 1024 127.0.0.1; wait $!";
/// An emulated ping-pong takes some seconds.
const LIMIT: Duration = Duration::from_secs(90);

/// Runs all; an error is a failure, and text the reason why it cannot be done here.
pub(crate) fn run(workspace: &Workspace) -> Result<Result<Counts, String>> {
    if let Err(error) = add_target() {
        return Ok(Err(format!("{error:#}")));
    }
    let suite = match suite(&fs::read_to_string("/etc/os-release").unwrap_or_default()) {
        Ok(suite) => suite,
        Err(reason) => return Ok(Err(reason)),
    };
    setup::ensure(&[Purpose::Build, Purpose::Aarch64])?;
    let folder = workspace.target_dir().join("aarch64");
    let root = folder.join("root");
    let unpacked = once(&root, |root| Apt::new(&folder, &suite, "arm64")?.unpack(&PACKAGES, root));
    match unpacked {
        Err(error) if !is_ci() => return Ok(Err(format!("Debian's libraries: {error:#}"))),
        other => other?,
    }
    let mut counts = suite::run(tests(workspace, &root))?;
    let mut check = cargo(workspace, &root);
    check.args(["check", "--target", TARGET, "--bins"]);
    check.args(PROGRAMS.iter().flat_map(|package| ["--package", package]));
    ensure!(check.status()?.success(), "a program does not compile: see above");
    ping_pong(&folder, &root, &provider(workspace, &root)?)?;
    println!("ok       fi_pingpong over the provider on an emulated aarch64");
    counts.passed += 1;
    Ok(Ok(counts))
}

/// Debian's name of this system. The libraries have to fit the C library of the cross compiler.
fn suite(os_release: &str) -> Result<String, String> {
    let value = |key: &str| os_release.lines().find_map(|line| line.strip_prefix(key));
    let codename = value("VERSION_CODENAME=").filter(|_| value("ID=") == Some("debian"));
    let codename =
        codename.ok_or("its libraries are Debian's, and this is not a Debian release")?;
    Ok(codename.trim_matches('"').to_owned())
}

/// Adds the target to the toolchain, unless it has it.
fn add_target() -> Result<()> {
    let output = Command::new("rustup").args(["target", "add", TARGET]).output();
    let output = output.context("no rustup, which adds the target")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "rustup target add {TARGET}: {}", said.trim());
    Ok(())
}

/// cargo with a C compiler and libraries for the target.
fn cargo(workspace: &Workspace, root: &Path) -> Command {
    let mut cargo = workspace.cargo();
    let prefix = format!("CARGO_TARGET_{}", TARGET.to_uppercase().replace('-', "_"));
    let shown = root.display();
    let search = ["usr/lib", "lib"].map(|lib| format!("-L native={shown}/{lib}/aarch64-linux-gnu"));
    let flags = format!("-D warnings {}", search.join(" "));
    let suffix = TARGET.replace('-', "_");
    cargo
        .env(format!("{prefix}_LINKER"), "aarch64-linux-gnu-gcc")
        .env(format!("{prefix}_RUNNER"), format!("qemu-aarch64 -L {shown}"))
        .env(format!("{prefix}_RUSTFLAGS"), flags)
        .env(format!("CC_{suffix}"), "aarch64-linux-gnu-gcc")
        .env(format!("AR_{suffix}"), "aarch64-linux-gnu-ar")
        .env(format!("CFLAGS_{suffix}"), format!("-I{shown}/usr/include"))
        .env("PKG_CONFIG_ALLOW_CROSS", "1")
        .env("PKG_CONFIG_SYSROOT_DIR", root)
        .env("PKG_CONFIG_LIBDIR", root.join("usr/lib/aarch64-linux-gnu/pkgconfig"));
    cargo
}

fn tests(workspace: &Workspace, root: &Path) -> Command {
    let mut cargo = cargo(workspace, root);
    cargo.args(["test", "--target", TARGET, "--lib", "--no-fail-fast"]);
    cargo.args(ENGINES.iter().flat_map(|test| ["--test", test])).envs(SLOW);
    cargo.args(TESTED.iter().flat_map(|package| ["--package", package]));
    cargo
}

/// Builds the provider, and puts it into a folder under the name that libfabric expects.
fn provider(workspace: &Workspace, root: &Path) -> Result<PathBuf> {
    let mut cargo = cargo(workspace, root);
    cargo.args(["build", "--target", TARGET, "--lib", "--package", PROVIDER]);
    let library = run_cargo(&mut cargo)?.library.context("cargo built no cdylib")?;
    let folder = workspace.target_dir().join("aarch64/provider");
    replace(&library, &folder.join(PROVIDER_FILE))?;
    Ok(folder)
}

fn ping_pong(folder: &Path, root: &Path, provider: &Path) -> Result<()> {
    let shown = root.display();
    let emulated = format!("qemu-aarch64 -L {shown} {shown}/usr/bin/fi_pingpong");
    let mut command = Command::new("sh");
    command.args(["-ec", PING_PONG]).current_dir(folder);
    command.env("EMULATED", emulated).env("FI_PROVIDER_PATH", provider);
    succeed_within(command, LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_of_this_release_of_debian() {
        let debian = "NAME=x\nID=debian\nVERSION_CODENAME=trixie\n";
        assert_eq!(suite(debian).as_deref(), Ok("trixie"));
        let ubuntu = "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n";
        for other in [ubuntu, "ID=debian\n", ""] {
            assert!(suite(other).is_err(), "{other}");
        }
    }
}
