// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of a read that finds nothing: `reads --provider xdp --local 198.18.0.1`.
//!
//! One endpoint without a peer reads its completion queue without pause. The program prints the
//! mean of each round as one JSON object. Bound: the rounds.

use std::net::IpAddr;
use std::time::Instant;

use anyhow::ensure;
use clap::Parser;
use ofi_xdp_bench::report::EmptyReads;
use ofi_xdp_bench::want::tagged_messages;
use ofi_xdp_libfabric::{Endpoint, Info, Setup, Wait};

/// Reads of a round: some ten milliseconds.
const READS: u32 = 200_000;

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The provider, by its full name
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// The local address
    #[arg(long, value_name = "IP")]
    local: IpAddr,
    /// Rounds after the first, which is not measured
    #[arg(long, default_value_t = 20, value_name = "N")]
    rounds: usize,
}

fn main() -> anyhow::Result<()> {
    let Cli { provider, local, rounds } = Cli::parse();
    let info = Info::find(&tagged_messages(&provider, local, None))?;
    let mut endpoint = Endpoint::open(&info, Setup { slots: 16, size: 64, wait: Wait::Spin })?;
    round(&mut endpoint)?;
    let read_ns = (0..rounds).map(|_| round(&mut endpoint)).collect::<anyhow::Result<_>>()?;
    println!("{}", serde_json::to_string(&EmptyReads { provider, read_ns })?);
    Ok(())
}

/// The mean time of a read, in ns.
fn round(endpoint: &mut Endpoint) -> anyhow::Result<f64> {
    let start = Instant::now();
    for _ in 0..READS {
        ensure!(endpoint.poll(|_| ())? == 0, "a completion without an operation");
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(READS))
}
