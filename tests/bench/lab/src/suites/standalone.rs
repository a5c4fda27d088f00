// SPDX-License-Identifier: MIT OR Apache-2.0
//! The measurements without a session. Suite `scale`: insertions into address vectors, connections
//! of connected endpoints, and the engine with many peers. Suite `cpu`: reads that find nothing.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use ofi_xdp_bench::report::{Connections, EmptyReads, Insertion};

use crate::measure::{Candidate, Environment, LinkUse};
use crate::report::Record;
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::topology::{Side, TwoHosts};

/// Number of inserted addresses.
const ADDRESSES: u32 = 1_000_000;
/// Number of connections, and that of a quick run.
const CONNECTIONS: u32 = 10_000;
/// See [`CONNECTIONS`].
const CONNECTIONS_QUICK: u32 = 1000;
/// The metric of reads that find nothing.
pub(super) const EMPTY_READ: &str = "empty_read";
/// Time limit of each program.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The programs, found before the first measurement.
#[derive(Clone, Debug)]
pub struct Programs {
    peers: PathBuf,
    connections: PathBuf,
    engine: PathBuf,
}

impl Programs {
    /// Finds the programs.
    ///
    /// # Errors
    /// When one has not been built.
    pub fn find() -> anyhow::Result<Self> {
        Ok(Self {
            peers: paths::program("peers")?,
            connections: paths::program("connections")?,
            engine: paths::program("ofi-xdp-engine-bench")?,
        })
    }
}

/// The insertion of a million addresses, for all candidates with address vectors: time and resident
/// memory.
///
/// # Errors
/// When a program fails.
pub fn insertions(
    programs: &Programs,
    environment: &Environment,
    rounds: usize,
) -> anyhow::Result<Vec<Record>> {
    let who = [
        Candidate::xdp(XdpMode::Udp),
        Candidate::provider("tcp;ofi_rxm"),
        Candidate::provider("udp;ofi_rxd"),
    ];
    let mut measured = vec![Vec::new(); who.len()];
    for _ in 0..rounds {
        for (candidate, measured) in who.iter().zip(&mut measured) {
            interrupt::check()?;
            measured.push(insertion(programs, environment, candidate)?);
        }
    }
    let mut records = Vec::new();
    for (candidate, rounds) in who.iter().zip(&measured) {
        let mut add = |metric: &str, unit: &str, of: fn(&Insertion) -> f64| {
            let values: Vec<f64> = rounds.iter().map(of).collect();
            let key = (candidate.peer, candidate.mode.as_str());
            let record = Record::plain("scale", key, 0, metric, &values);
            records.extend(record.map(|record| record.in_unit(unit)));
        };
        add("insertion_time", "s", |one| one.seconds);
        add("insertion_memory", "B", |one| one.resident_bytes as f64);
        add("address_memory", "B", |one| one.resident_bytes as f64 / one.count as f64);
    }
    Ok(records)
}

fn insertion(
    programs: &Programs,
    environment: &Environment,
    who: &Candidate,
) -> anyhow::Result<Insertion> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let program = Program::new(&programs.peers)
        .args(["--provider", who.peer, "--local", &local.to_string()])
        .args(["--count", &ADDRESSES.to_string()])
        .envs(who.variables(Some("lo"))?);
    let output = environment.here(program, LinkUse::Loopback)?.run(TIMEOUT)?.success()?;
    serde_json::from_str(&output.stdout).context("the insertion's report is not understood")
}

/// Connections of connected endpoints between two processes of one host: their rate, and the memory
/// of one at rest. One round is enough: each figure is a mean over all of them.
///
/// # Errors
/// When a program fails.
pub fn connections(
    programs: &Programs,
    environment: &Environment,
    quick: bool,
) -> anyhow::Result<Vec<Record>> {
    let mut records = Vec::new();
    for who in [Candidate::xdp(XdpMode::Udp), Candidate::provider("tcp")] {
        interrupt::check()?;
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST).to_string();
        let count = if quick { CONNECTIONS_QUICK } else { CONNECTIONS };
        let program = Program::new(&programs.connections)
            .args(["--provider", who.peer, "--local", &local, "--count", &count.to_string()])
            .envs(who.variables(Some("lo"))?);
        let output = environment.here(program, LinkUse::Loopback)?.run(TIMEOUT)?.success()?;
        let one: Connections = serde_json::from_str(&output.stdout)
            .context("the report of the connections is not understood")?;
        let count = one.count as f64;
        for (metric, unit, value) in [
            ("connect_rate", "/s", count / one.seconds),
            // Two processes share the work.
            ("connect_rate_per_core", "/s", 2.0 * count / one.cpu_seconds),
            ("close_rate", "/s", count / one.close_seconds),
            ("connection_memory", "B", one.growth_bytes),
            ("connection_memory_with_queues", "B", one.resident_bytes as f64 / count),
        ] {
            let key = (who.peer, who.mode.as_str());
            let record = Record::plain("scale", key, 0, metric, &[value]);
            records.extend(record.map(|record| record.in_unit(unit)));
        }
    }
    Ok(records)
}

/// Reads of a completion queue that find nothing, in turn for each candidate.
///
/// # Errors
/// When the program fails, or has not been built.
pub fn empty_reads(hosts: &TwoHosts, rounds: usize) -> anyhow::Result<Vec<Record>> {
    let path = paths::program("reads")?;
    let modes = [XdpMode::Auto, XdpMode::Skb, XdpMode::Udp].map(Candidate::xdp);
    // `tcp` itself has no endpoint of this type.
    let who = modes.into_iter().chain([Candidate::provider("tcp;ofi_rxm")]);
    let who: Vec<Candidate> = who.collect();
    let mut measured = vec![Vec::new(); who.len()];
    for _ in 0..rounds {
        for (candidate, measured) in who.iter().zip(&mut measured) {
            interrupt::check()?;
            let link = hosts.link(candidate.link_number);
            let output = Program::new(&path)
                .inside(hosts.host(Side::B))?
                .args(["--provider", candidate.peer, "--local", &link.v4(Side::B).to_string()])
                .envs(candidate.variables(None)?)
                .run(TIMEOUT)?
                .success()?;
            let reads: EmptyReads = serde_json::from_str(&output.stdout)
                .context("the report of the reads is not understood")?;
            measured.extend(reads.read_ns);
        }
    }
    let records = who.iter().zip(&measured).filter_map(|(candidate, times)| {
        let key = (candidate.peer, candidate.mode.as_str());
        Some(Record::plain("cpu", key, 0, EMPTY_READ, times)?.in_unit("ns"))
    });
    Ok(records.collect())
}

/// The engine in memory, with one peer and with ten thousand.
///
/// # Errors
/// When the program fails.
pub fn many_peers(programs: &Programs, quick: bool) -> anyhow::Result<Vec<Record>> {
    let mut program = Program::new(&programs.engine).arg("peers");
    if quick {
        program = program.arg("--quick");
    }
    let output = program.run(TIMEOUT)?.success()?;
    serde_json::from_str(&output.stdout).context("the engine's report is not understood")
}
