// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the provider, the examples and the lab, and leaves the provider under its own name.
//!
//! In: how far to optimise. Out: `target/provider/libxdp-fi.so` and the paths of the programs. The
//! provider is replaced in one step: a process that has loaded the old file keeps it. Called by
//! most tasks: tests use the plain build, `run` the quick one; installation and the other
//! measurements use [`best`]. Cargo names
//! the library `libxdp_fi.so`; libfabric loads files with the ending `-fi.so` (fabric(7)).

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::artifacts::{Artifacts, LAB, PROVIDER_FILE, replace, run_cargo};
use crate::workspace::Workspace;
use crate::{pgo, setup};

/// Packages that are always built together, the provider first. Another selection could give a
/// shared dependency other features, so that the tests would see another build.
const PACKAGES: &[&str] = &[
    "ofi-xdp-ffi",
    "ofi-xdp-age",
    "ofi-xdp-bench",
    "ofi-xdp-broker",
    "ofi-xdp-e2e",
    "ofi-xdp-examples",
    "ofi-xdp-harness",
    "ofi-xdp-lab",
    "ofi-xdp-mpi",
    "ofi-xdp-perf",
    "ofi-xdp-run",
    "ofi-xdp-top",
    "ofi-xdp-vm-guest",
];

/// Packages of a run: the provider, and what measures it. Called on a new machine, where each more
/// is waited for.
const RUN_PACKAGES: &[&str] = &[
    "ofi-xdp-ffi",
    "ofi-xdp-bench",
    "ofi-xdp-examples",
    "ofi-xdp-harness",
    "ofi-xdp-lab",
    "ofi-xdp-perf",
];

/// How far to optimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Optimisation within each crate alone, and only the packages of a run: half the time of
    /// [`Self::Release`].
    Run,
    /// Cargo's own release profile.
    Release,
    /// As [`Self::Release`], the library alone.
    Provider,
    /// No optimisation.
    Debug,
    /// A profile of the provider under load (`pgo.rs`).
    Pgo,
}

impl Profile {
    /// The name beside figures.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Run => "quick build",
            Self::Release | Self::Provider => "release build",
            Self::Debug => "debug build",
            Self::Pgo => "PGO build",
        }
    }
}

/// The results of a build.
#[derive(Debug)]
pub(crate) struct Built {
    /// `target/provider/libxdp-fi.so`.
    pub(crate) provider: PathBuf,
    /// Path of each program, by name.
    pub(crate) programs: BTreeMap<String, PathBuf>,
    /// The folder of the programs of the PGO build.
    pub(crate) pgo_programs: Option<PathBuf>,
    /// The profile of the provider.
    pub(crate) profile: Profile,
}

/// Sets up and makes the fastest build: the PGO build. If that fails, it prints the reason and
/// makes a release build.
pub(crate) fn best(workspace: &Workspace) -> Result<Built> {
    build(workspace, Profile::Pgo).or_else(|error| {
        eprintln!("no PGO build, so the provider is slower than it could be: {error:#}");
        build(workspace, Profile::Release)
    })
}

/// Sets up, builds, and installs the provider in `target/provider`.
pub(crate) fn build(workspace: &Workspace, profile: Profile) -> Result<Built> {
    setup::ensure(&[setup::Purpose::Build])?;
    let mut cargo = workspace.cargo();
    cargo.args(["build", "--lib", "--bins"]);
    let packages = match profile {
        Profile::Run => RUN_PACKAGES,
        Profile::Provider => &PACKAGES[..1],
        Profile::Release | Profile::Debug | Profile::Pgo => PACKAGES,
    };
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    cargo.args(match profile {
        Profile::Run => &["--profile", "quick"][..],
        Profile::Debug => &[],
        Profile::Release | Profile::Provider | Profile::Pgo => &["--release"],
    });
    let Artifacts { library, programs } = run_cargo(&mut cargo)?;
    let library = library.context("cargo built no cdylib xdp_fi: see ffi/Cargo.toml")?;
    let provider = workspace.provider_dir().join(PROVIDER_FILE);
    let mut built = Built { provider, programs, pgo_programs: None, profile };
    if profile == Profile::Pgo {
        let lab = built.programs.get(LAB).context("the build made no ofi-xdp-lab")?;
        let made = pgo::build(workspace, lab)?;
        replace(&made.provider, &built.provider)?;
        built.pgo_programs = Some(made.programs);
    } else {
        replace(&library, &built.provider)?;
    }
    Ok(built)
}
