// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ofi-xdp-mpi`: real MPI jobs between four hosts over the provider. `cargo xtask mpi` installs
//! the MPIs, compiles the programs and calls it.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ofi_xdp_tests::lab::XdpMode;
use ofi_xdp_tests::mpi::implementation::Mpi;
use ofi_xdp_tests::mpi::job::{Stand, Transport};
use ofi_xdp_tests::mpi::latency;
use ofi_xdp_tests::mpi::program::PROGRAMS;
use ofi_xdp_tests::mpi::suite::{self, Selection};
use ofi_xdp_tests::{interrupt, netns};

/// How many hosts there are.
const HOSTS: u8 = 4;

/// MPI jobs over the provider `xdp`, between four hosts made of network namespaces.
#[derive(Debug, Parser)]
#[command(name = "ofi-xdp-mpi", version)]
struct Cli {
    /// Only this MPI; may be given several times
    #[arg(long, value_enum)]
    mpi: Vec<Mpi>,
    /// Only this way; may be given several times
    #[arg(long, value_enum)]
    mode: Vec<Way>,
    /// Only this program
    #[arg(long, value_parser = programs())]
    program: Option<String>,
    /// Fewer programs
    #[arg(long)]
    quick: bool,
    /// Only measure: ping-pong over the provider and over tcp
    #[arg(long)]
    latency: bool,
    /// Do not measure
    #[arg(long, conflicts_with = "latency")]
    no_latency: bool,
    /// No job starts after so many seconds
    #[arg(long, default_value_t = 1200)]
    limit: u64,
}

/// What carries the messages.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    /// AF_XDP as good as the link allows
    Auto,
    /// AF_XDP in the driver's native mode
    Copy,
    /// AF_XDP in generic mode
    Skb,
    /// Kernel UDP sockets
    Udp,
    /// libfabric's own provider over TCP, to see whether the programs are right
    Tcp,
}

impl From<Way> for Transport {
    fn from(way: Way) -> Self {
        match way {
            Way::Auto => Self::Xdp(XdpMode::Auto),
            Way::Copy => Self::Xdp(XdpMode::Copy),
            Way::Skb => Self::Xdp(XdpMode::Skb),
            Way::Udp => Self::Xdp(XdpMode::Udp),
            Way::Tcp => Self::Tcp,
        }
    }
}

fn programs() -> Vec<&'static str> {
    PROGRAMS.iter().map(|program| program.name).collect()
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match interrupt::install().and_then(|()| run(&cli)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("ofi-xdp-mpi: {error:#}");
            if interrupt::check().is_err() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    netns::sweep()?;
    let stand = Stand::new(HOSTS)?;
    let mpis = if cli.mpi.is_empty() { Mpi::ALL.to_vec() } else { cli.mpi.clone() };
    let installed = |mpi: &Mpi| {
        let launcher = mpi.launcher(stand.folder());
        launcher.as_ref().err().into_iter().for_each(|error| println!("{error:#}"));
        launcher.is_ok()
    };
    let (mpis, missing): (Vec<Mpi>, Vec<Mpi>) = mpis.into_iter().partition(installed);
    if cli.latency {
        latency::print(&stand, &mpis)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut transports: Vec<Transport> = cli.mode.iter().map(|way| (*way).into()).collect();
    if transports.is_empty() {
        transports.extend(Selection::WAYS);
    }
    let selection = Selection {
        mpis,
        transports,
        program: cli.program.clone(),
        quick: cli.quick,
        limit: Duration::from_secs(cli.limit),
    };
    let mut tally = suite::run(&stand, &selection)?;
    tally.failed += missing.len() as u64;
    if cli.program.is_none()
        && !cli.no_latency
        && let Err(error) = latency::print(&stand, &selection.mpis)
    {
        println!("not measured: {error:#}");
    }
    // The form of Rust's own test runner, which `cargo xtask test` counts.
    let word = if tally.failed == 0 { "ok" } else { "FAILED" };
    let not_run = match tally.not_run {
        0 => String::new(),
        jobs => {
            println!("\n!! {jobs} jobs were NOT RUN: the time was over");
            format!("; {jobs} not run")
        }
    };
    println!("\ntest result: {word}. {} passed; {} failed{not_run}", tally.passed, tally.failed);
    Ok(if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
