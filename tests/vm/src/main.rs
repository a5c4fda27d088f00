// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ofi-xdp-vm-guest`: the first and only process of the virtual machine of `cargo xtask vm`.
//!
//! Two hosts with emulated network cards, one pair for each driver. [`init`] makes a system from an
//! initial file system, [`cards`] gives each pair of cards to two hosts. [`suite`] is the list of
//! tests, in [`zerocopy`], [`conformance`], [`igb`], [`mpi`], [`fallback`], [`vlan`], [`trouble`].
//! [`mod@bench`] measures; [`report`] sends the results to the host.
//!
//! The program mounts the usual file systems, loads the drivers, does its task, prints `guest: N
//! passed, N failed`, and turns the machine off, also after a panic.

mod bench;
mod cards;
mod conformance;
mod fallback;
mod igb;
mod init;
mod mpi;
mod report;
mod suite;
mod trouble;
mod vlan;
mod zerocopy;

use std::process::Command;

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Start and stop: check that the machine works at all
    Probe,
    /// Run the tests with a name that contains one of these, or all
    Test {
        /// Also tests that take minutes
        #[arg(long)]
        slow: bool,
        filter: Vec<String>,
    },
    /// Compare zero-copy, copy and kernel UDP
    Bench {
        /// Number of rounds
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        filter: Vec<String>,
    },
    /// Start an interactive shell
    Shell,
}

fn main() {
    let outcome = std::panic::catch_unwind(run);
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            eprintln!("error: {error:#}");
            report::result(0, 1);
        }
        Err(_) => report::result(0, 1),
    }
    init::power_off();
}

fn run() -> anyhow::Result<()> {
    ensure!(std::process::id() == 1, "this is the first process of a virtual machine");
    init::mount_all()?;
    init::load_modules()?;
    let (passed, failed) = match Cli::parse().task {
        Task::Probe => (1, 0),
        Task::Test { slow, filter } => suite::run(&filter, slow)?,
        Task::Bench { rounds, filter } => bench::run(rounds, &filter)?,
        Task::Shell => {
            shell()?;
            (1, 0)
        }
    };
    report::result(passed, failed);
    Ok(())
}

/// A shell with job control, on the console.
fn shell() -> anyhow::Result<()> {
    println!("cards: the pairs are by link-layer address, `ip link`; programs are in /ofi");
    // The file makes the shell take the system's `ip`; busybox's own knows no network namespaces.
    let script = "exec 0<>/dev/ttyS0 1>&0 2>&0; exec busybox env ENV=/etc/profile busybox sh -i";
    let mut command = Command::new("busybox");
    command.args(["setsid", "-c", "busybox", "sh", "-c", script]);
    command.status().context("busybox")?;
    Ok(())
}
