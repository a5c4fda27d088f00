// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask vm`: a virtual machine with network cards for zero-copy, which veth cannot do.
//!
//! In: the guest's task. Out: its result, and in `target/vm/<job>` its console (`console.log`) and
//! the files that it gives back. [`kernel`] fetches Debian's kernel, [`image`] packs an initial
//! file system with the built programs, [`mod@machine`] boots both with an [`emulator`]. The
//! guest's first and only process is `ofi-xdp-vm-guest` (`tests/vm`). Only QEMU is installed, and
//! the guest needs no privilege on the host.

pub(crate) mod apt;
mod archive;
mod emulator;
mod image;
mod kernel;
mod libraries;
mod machine;
mod modules;
mod results;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Subcommand};

use self::machine::{Accelerator, Machine};
use crate::build::{self, Built, Profile};
use crate::setup::{self, Purpose};
use crate::suite::Counts;
use crate::workspace::Workspace;

/// How long the guest may take for its tests, by emulation on two busy cores.
const TEST_LIMIT: Duration = Duration::from_secs(285);
/// How long with the slow ones: each has a limit of its own.
const SLOW_LIMIT: Duration = Duration::from_secs(5400);
/// How long it may take to measure, with every instruction counted.
const BENCH_LIMIT: Duration = Duration::from_secs(2400);

/// The tasks of `cargo xtask vm`.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Tests in the guest: zero-copy, the modes that it falls back to, and faults
    Test {
        #[command(flatten)]
        options: Options,
        /// Those that take minutes by emulation, too: a gibibyte, whole pages of the conformance
        /// suite, every MPI mode
        #[arg(long)]
        slow: bool,
        /// Only tests with one of these in their names
        #[arg(value_name = "FILTER")]
        filter: Vec<String>,
    },
    /// Zero-copy against copy against kernel UDP: rates and bandwidths in one run of the guest
    Bench {
        #[command(flatten)]
        options: Options,
        /// Only the lines of the table that contain one of these (one word each)
        #[arg(value_name = "FILTER")]
        filter: Vec<String>,
    },
    /// A prompt in the guest; `poweroff -f` ends it
    Shell {
        #[command(flatten)]
        options: Options,
    },
}

/// Arguments of all of them.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Options {
    /// How the guest's processors work; auto: KVM where it boots this guest, else emulation
    #[arg(long, value_enum, default_value = "auto")]
    accel: Accelerator,
}

/// Does it.
pub(crate) fn vm(workspace: &Workspace, task: &Task) -> Result<ExitCode> {
    match task {
        Task::Test { options, slow, filter } => {
            Ok(exit_code(test(workspace, *options, *slow, filter)?))
        }
        Task::Bench { options, filter } => {
            let (machine, folder) = machine(workspace, build::best, *options, "bench")?;
            // Counted instructions are the same in every round.
            let rounds = if options.accel == Accelerator::Count { "1" } else { "3" };
            let mut arguments = Vec::from(["bench", "--rounds", rounds].map(str::to_owned));
            arguments.extend(filter.iter().cloned());
            let counts = run(&machine, &folder, &arguments, BENCH_LIMIT)?;
            println!("results: {}", folder.display());
            Ok(exit_code(counts))
        }
        Task::Shell { options } => machine(workspace, plain, *options, "shell")?.0.shell(),
    }
}

/// As the stage of `cargo xtask test`.
pub(crate) fn stage(workspace: &Workspace) -> Result<Counts> {
    test(workspace, Options { accel: Accelerator::Auto }, false, &[])
}

/// The reason why no guest can run here, if there is one. Fetches missing parts.
pub(crate) fn unavailable(workspace: &Workspace) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("the guest is for x86_64".to_owned());
    }
    let had = setup::ensure(&[Purpose::Vm]).and_then(|()| kernel::fetch(&folder(workspace)));
    had.err().map(|error| format!("{error:#}"))
}

fn test(workspace: &Workspace, options: Options, slow: bool, filter: &[String]) -> Result<Counts> {
    let (machine, folder) = machine(workspace, plain, options, "test")?;
    let mut arguments = vec!["test".to_owned()];
    arguments.extend(slow.then(|| "--slow".to_owned()));
    arguments.extend(filter.iter().cloned());
    run(&machine, &folder, &arguments, if slow { SLOW_LIMIT } else { TEST_LIMIT })
}

fn exit_code(counts: Counts) -> ExitCode {
    println!("{counts}");
    if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where all of this lies.
fn folder(workspace: &Workspace) -> PathBuf {
    workspace.root().join("target/vm")
}

fn plain(workspace: &Workspace) -> Result<Built> {
    build::build(workspace, Profile::Release)
}

/// Sets up, builds and packs; the machine, and an empty folder for the results of `job`.
fn machine(
    workspace: &Workspace,
    build: impl FnOnce(&Workspace) -> Result<Built>,
    options: Options,
    job: &str,
) -> Result<(Machine, PathBuf)> {
    setup::ensure(&[Purpose::Build, Purpose::Run, Purpose::Test, Purpose::Vm])?;
    let folder = folder(workspace);
    let kernel = kernel::fetch(&folder)?;
    let built = build(workspace)?;
    let image = folder.join("guest.cpio");
    image::pack(workspace, &built, &kernel, &image)?;
    let emulator = emulator::find(&folder);
    let processors = machine::processors();
    let mut machine =
        Machine { emulator, kernel, image, accelerator: Accelerator::Tcg, processors };
    machine.accelerator = machine.choose(options.accel)?;
    let results = folder.join(job);
    // The results of an earlier run.
    if results.exists() {
        fs::remove_dir_all(&results).with_context(|| results.display().to_string())?;
    }
    fs::create_dir_all(&results)?;
    Ok((machine, results))
}

/// Boots, runs `arguments` in the guest, and reads its results.
fn run(
    machine: &Machine,
    folder: &std::path::Path,
    arguments: &[String],
    limit: Duration,
) -> Result<Counts> {
    let ended = machine.run(arguments, folder, limit)?;
    results::unpack(folder)?;
    let console = folder.join("console.log");
    let text = fs::read(&console).with_context(|| console.display().to_string())?;
    let counts = results::counts(&String::from_utf8_lossy(&text));
    ensure!(ended, "the guest was not done after {} s: {}", limit.as_secs(), console.display());
    counts.with_context(|| format!("the guest ended without a result: {}", console.display()))
}
