// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of inserting many addresses: `peers --provider xdp --local 198.18.0.1`.
//!
//! One endpoint inserts addresses of 10.0.0.0/8 in one call, and prints time and resident memory as
//! one JSON object. Nothing is sent.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Instant;

use anyhow::{Context, ensure};
use clap::Parser;
use ofi_xdp_bench::report::Insertion;
use ofi_xdp_bench::want::tagged_messages;
use ofi_xdp_libfabric::{Endpoint, Info, Setup, Wait};

/// The port of every peer.
const PORT: u16 = 7000;
/// The first peer's address, and the number of addresses after it.
const FIRST: u32 = 0x0a00_0001;
const COUNT_MAX: u32 = 0x00ff_ffff;

#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// The provider, by its full name
    #[arg(long, default_value = "xdp", value_name = "NAME")]
    provider: String,
    /// The local address
    #[arg(long, value_name = "IP")]
    local: IpAddr,
    /// Number of addresses
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    count: u32,
}

fn main() -> anyhow::Result<()> {
    let Cli { provider, local, count } = Cli::parse();
    ensure!(count <= COUNT_MAX, "10.0.0.0/8 has {COUNT_MAX} addresses");
    let info = Info::find(&tagged_messages(&provider, local, None))?;
    let mut endpoint = Endpoint::open(&info, Setup { slots: 16, size: 64, wait: Wait::Spin })?;
    let peer = |number| SocketAddrV4::new(Ipv4Addr::from(FIRST + number), PORT);
    let peers: Vec<SocketAddrV4> = (0..count).map(peer).collect();

    let before = resident()?;
    let start = Instant::now();
    endpoint.insert_many(&info, &peers)?;
    let seconds = start.elapsed().as_secs_f64();
    let resident_bytes = resident()?.saturating_sub(before);
    let insertion = Insertion { provider, count: count.into(), seconds, resident_bytes };
    println!("{}", serde_json::to_string(&insertion)?);
    // Exits without closing anything: some providers take minutes to free a million addresses.
    std::process::exit(0)
}

/// Resident memory of this process, in bytes (`proc_pid_status(5)`).
fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("/proc/self/status has no VmRSS")? * 1024)
}
