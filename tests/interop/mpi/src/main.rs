// SPDX-License-Identifier: MIT OR Apache-2.0
//! `ofi-xdp-mpi`: real MPI jobs between four hosts over the provider. `cargo xtask mpi` installs
//! the MPIs, compiles the programs and calls it.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::{interrupt, netns};
use ofi_xdp_mpi::implementation::Mpi;
use ofi_xdp_mpi::job::Stand;
use ofi_xdp_mpi::latency;
use ofi_xdp_mpi::program::PROGRAMS;
use ofi_xdp_mpi::suite::{self, Selection};
use ofi_xdp_mpi::transport::Transport;

/// Number of hosts.
const HOSTS: u8 = 4;

/// MPI jobs over the provider `xdp`, between four hosts made of network namespaces.
#[derive(Debug, Parser)]
#[command(name = "ofi-xdp-mpi", version)]
struct Cli {
    /// Only this MPI; may be given several times
    #[arg(long, value_enum)]
    mpi: Vec<Mpi>,
    /// Only this transport; may be given several times
    #[arg(long, value_enum)]
    mode: Vec<TransportArgument>,
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

/// Transports of messages.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransportArgument {
    /// The best AF_XDP mode of the link
    Auto,
    /// AF_XDP in the driver's native mode
    Copy,
    /// AF_XDP in generic mode
    Skb,
    /// Kernel UDP sockets
    Udp,
    /// libfabric's own provider over TCP, as a check of the programs
    Tcp,
}

impl From<TransportArgument> for Transport {
    fn from(argument: TransportArgument) -> Self {
        match argument {
            TransportArgument::Auto => Self::Xdp(XdpMode::Auto),
            TransportArgument::Copy => Self::Xdp(XdpMode::Copy),
            TransportArgument::Skb => Self::Xdp(XdpMode::Skb),
            TransportArgument::Udp => Self::Xdp(XdpMode::Udp),
            TransportArgument::Tcp => Self::Tcp,
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

/// The MPIs that a run measures.
fn measured(selection: &Selection) -> Vec<Mpi> {
    let held = |mpi: &&Mpi| !(selection.sampled && **mpi == Mpi::Impi);
    selection.mpis.iter().filter(held).copied().collect()
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
    let mut transports: Vec<Transport> = cli.mode.iter().map(|one| (*one).into()).collect();
    if transports.is_empty() {
        transports.extend(Selection::TRANSPORTS);
    }
    let selection = Selection {
        mpis,
        transports,
        program: cli.program.clone(),
        quick: cli.quick,
        sampled: cli.mpi.is_empty(),
        limit: Duration::from_secs(cli.limit),
    };
    let mut outcomes = suite::run(&stand, &selection)?;
    outcomes.failed += missing.len() as u64;
    if cli.program.is_none()
        && !cli.no_latency
        && let Err(error) = latency::print(&stand, &measured(&selection))
    {
        println!("not measured: {error:#}");
    }
    // The format of Rust's test runner, which `cargo xtask test` counts.
    let word = if outcomes.failed == 0 { "ok" } else { "FAILED" };
    let not_run = match outcomes.not_run {
        0 => String::new(),
        jobs => {
            println!("\n!! {jobs} jobs were NOT RUN: the time was over");
            format!("; {jobs} not run")
        }
    };
    println!(
        "\ntest result: {word}. {} passed; {} failed{not_run}",
        outcomes.passed, outcomes.failed
    );
    Ok(if outcomes.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
