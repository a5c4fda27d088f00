// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the suite `scale` measures without a session: insertions into address vectors, and the
//! engine among many peers.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use ofi_xdp_examples::report::Insertion;

use crate::interrupt;
use crate::lab::{Contestant, Field, LinkUse, XdpMode};
use crate::paths;
use crate::process::Program;
use crate::report::Record;

/// Addresses inserted.
const ADDRESSES: u32 = 1_000_000;
/// How long either program may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The programs, found before anything is measured.
#[derive(Clone, Debug)]
pub struct Programs {
    peers: PathBuf,
    engine: PathBuf,
}

impl Programs {
    /// Looks for them.
    ///
    /// # Errors
    /// When one has not been built.
    pub fn find() -> anyhow::Result<Self> {
        Ok(Self {
            peers: paths::program("peers")?,
            engine: paths::program("ofi-xdp-engine-bench")?,
        })
    }
}

/// A million addresses into the vectors of all that have one: time and resident memory.
///
/// # Errors
/// When a program fails.
pub fn insertions(
    programs: &Programs,
    field: &Field,
    rounds: usize,
) -> anyhow::Result<Vec<Record>> {
    let who = [
        Contestant::xdp(XdpMode::Udp),
        Contestant::provider("tcp;ofi_rxm"),
        Contestant::provider("udp;ofi_rxd"),
    ];
    let mut measured = vec![Vec::new(); who.len()];
    for _ in 0..rounds {
        for (contestant, measured) in who.iter().zip(&mut measured) {
            interrupt::check()?;
            measured.push(insertion(programs, field, contestant)?);
        }
    }
    let mut records = Vec::new();
    for (contestant, rounds) in who.iter().zip(&measured) {
        let mut add = |metric: &str, unit: &str, of: fn(&Insertion) -> f64| {
            let values: Vec<f64> = rounds.iter().map(of).collect();
            let key = (contestant.peer, contestant.mode.as_str());
            let record = Record::plain("scale", key, 0, metric, &values);
            records.extend(record.map(|record| record.in_unit(unit)));
        };
        add("insertion_time", "s", |one| one.seconds);
        add("insertion_memory", "B", |one| one.resident_bytes as f64);
        add("address_memory", "B", |one| one.resident_bytes as f64 / one.count as f64);
    }
    Ok(records)
}

fn insertion(programs: &Programs, field: &Field, who: &Contestant) -> anyhow::Result<Insertion> {
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let program = Program::new(&programs.peers)
        .args(["--provider", who.peer, "--local", &local.to_string()])
        .args(["--count", &ADDRESSES.to_string()])
        .envs(who.environment(Some("lo"))?);
    let output = field.here(program, LinkUse::Loopback)?.run(PATIENCE)?.success()?;
    serde_json::from_str(&output.stdout).context("the insertion's report is not understood")
}

/// The engine in memory, with one peer and with ten thousand in turn.
///
/// # Errors
/// When the program fails.
pub fn many_peers(programs: &Programs, quick: bool) -> anyhow::Result<Vec<Record>> {
    let mut program = Program::new(&programs.engine).arg("peers");
    if quick {
        program = program.arg("--quick");
    }
    let output = program.run(PATIENCE)?.success()?;
    serde_json::from_str(&output.stdout).context("the engine's report is not understood")
}
