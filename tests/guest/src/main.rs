// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ofi-xdp-guest`: the first and only process of the virtual machine of `cargo xtask vm`.
//!
//! Two hosts whose network cards are emulated ones, one pair for each driver. [`init`] makes a
//! system of an initial file system, [`cards`] gives each pair of cards to two hosts, [`suite`] is
//! the list of tests, in [`zerocopy`], [`conformance`], [`igb`], [`mpi`], [`fallback`],
//! [`vlan`], [`trouble`]; [`mod@bench`] measures; [`report`] brings everything out.
//!
//! It mounts what a Linux program expects, loads the drivers, does its task, says `guest: N passed,
//! N failed`, and turns the machine off, also after a panic.

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
    /// Be there: whether the machine works at all
    Probe,
    /// Run the tests whose name contains one of these, or all
    Test {
        /// Those that take minutes, too
        #[arg(long)]
        slow: bool,
        filter: Vec<String>,
    },
    /// Compare zero-copy, copy and kernel UDP
    Bench {
        /// How often everything is measured
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        filter: Vec<String>,
    },
    /// Give a person a prompt
    Shell,
}

fn main() {
    let outcome = std::panic::catch_unwind(run);
    match outcome {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            eprintln!("error: {error:#}");
            report::verdict(0, 1);
        }
        Err(_) => report::verdict(0, 1),
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
    report::verdict(passed, failed);
    Ok(())
}

/// A shell with job control, on the console.
fn shell() -> anyhow::Result<()> {
    println!("cards: the pairs are by link-layer address, `ip link`; programs are in /ofi");
    // The file makes it take the system's `ip`; its own knows no network namespaces.
    let script = "exec 0<>/dev/ttyS0 1>&0 2>&0; exec busybox env ENV=/etc/profile busybox sh -i";
    let mut command = Command::new("busybox");
    command.args(["setsid", "-c", "busybox", "sh", "-c", script]);
    command.status().context("busybox")?;
    Ok(())
}
