// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transfers of applications that read their completion queue at intervals.
//!
//! `perf-lazy` on one machine, `perf-lazy HOST --provider xdp --transfer write
//! --size 1048576 --depth 4 --every 100 --server-every never` on another.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ofi_xdp_bench::lazy::{self, Cell, Limits, PollInterval, Transfer};
use ofi_xdp_perf::cli::{ServerArguments, listen, outcome, pin, with_port};
use ofi_xdp_perf::control::Control;

/// Longest wait for the server to listen.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The server to measure one cell at, HOST or HOST:PORT; without it this program is the server
    host: Option<String>,
    #[command(flatten)]
    server: ServerArguments,
    #[command(flatten)]
    cell: CellArguments,
}

#[derive(Debug, clap::Args)]
struct CellArguments {
    /// The provider, by its full name: xdp, tcp, "tcp;`ofi_rxm`"
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// The kind of transfer
    #[arg(long, value_enum, default_value = "write")]
    transfer: Transfer,
    /// Bytes in an operation
    #[arg(long, default_value_t = 1 << 20, value_name = "BYTES")]
    size: usize,
    /// Most outstanding operations
    #[arg(long, default_value_t = 4, value_name = "N")]
    depth: usize,
    /// Sleep of the client between two reads of its completion queue
    #[arg(long, default_value = "0", value_name = "US")]
    every: PollInterval,
    /// The server's sleep, or "never": it makes no call during the transfer; as the client's if
    /// none is given
    #[arg(long, value_name = "US")]
    server_every: Option<PollInterval>,
    /// Time in which operations are posted
    #[arg(long, default_value_t = 500, value_name = "MS")]
    time: u64,
    /// Longest further time for their completions
    #[arg(long, default_value_t = 2000, value_name = "MS")]
    grace: u64,
}

fn measure(host: &str, arguments: CellArguments) -> anyhow::Result<()> {
    let CellArguments { provider, transfer, size, depth, .. } = arguments;
    let client = arguments.every;
    let server = arguments.server_every.unwrap_or(client);
    let limits = Limits {
        time: Duration::from_millis(arguments.time),
        grace: Duration::from_millis(arguments.grace),
    };
    let control = Control::connect(&with_port(host), CONNECT_TIMEOUT, |_| ())?;
    let cell = Cell { provider, transfer, size, depth, client, server };
    println!("{}", serde_json::to_string(&lazy::run(control, &cell, limits)?)?);
    Ok(())
}

fn main() -> ExitCode {
    let Cli { host, server, cell } = Cli::parse();
    outcome(match host {
        None => listen(&server, lazy::serve),
        Some(host) => pin(server.core).and_then(|()| measure(&host, cell)),
    })
}
