// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `path`: transfers through a relay that delays, loses and limits, alone and beside
//! streams of kernel TCP.
//!
//! In: quick or full. Out: records of bandwidths, of shares, and of the relay itself. All
//! candidates use the same two hosts with two links; each path is set on the relays in turn.

use std::time::Duration;

use anyhow::Context;

use crate::measure::{Candidate, Entry, Environment, LinkUse, READ, Results, TAGGED, WRITE, run};
use crate::report::{Metric, Record};
use ofi_xdp_harness::flood::flood;
use ofi_xdp_harness::relay::PathOptions;
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::topology::{LinkOptions, TwoHosts};

mod beside;
mod table;

pub use table::PATH;
pub(super) use table::{SHARE, least_ratio, ratio_to_tcp};

const MEBIBYTE: usize = 1 << 20;
const SIZES: [usize; 2] = [MEBIBYTE, 64 * MEBIBYTE];
const GIGABIT: u64 = 1_000_000_000;
/// Delays in µs, and those of a quick run.
const DELAYS: &[u64] = &[0, 50, 500, 5000, 25_000];
const DELAYS_QUICK: &[u64] = &[0, 500, 5000];
/// Losses of a million, those of a quick run, and those with a bottleneck.
const LOSSES: &[u32] = &[0, 100, 1000, 10_000];
const LOSSES_FEW: &[u32] = &[0, 1000];
/// Rates of the bottleneck.
const RATES: [u64; 2] = [GIGABIT, 5 * GIGABIT];
/// The rate of the bottleneck where threads share processors. The relay runs the receiver's part of
/// kernel TCP, too: at 1 Gb/s it takes a whole processor, and its lateness is a second queue.
const RATE_SHARED: u64 = GIGABIT / 5;
/// At [`RATE_SHARED`] a measurement takes so many times as long.
const SLOW_TIMES: u64 = 4;
/// Threads that need a processor: two hosts that spin, the relay, both ends of other traffic.
const THREADS: usize = 5;
/// Time limits: of an answer, and of a session.
const ANSWER_MS: &str = "14000";
const SESSION: Duration = Duration::from_secs(15);
/// Duration of the measurement of the relay's limit.
const LIMIT: Duration = Duration::from_millis(500);

/// The suite.
#[derive(Debug)]
pub struct PathSuite {
    quick: bool,
    environment: Environment,
}

impl PathSuite {
    /// The hosts and their relays.
    ///
    /// # Errors
    /// Without privilege, or without TAP devices.
    pub fn new(quick: bool) -> anyhow::Result<Self> {
        let link = LinkOptions { relay: Some(PathOptions::default()), ..LinkOptions::default() };
        let environment = Environment::Hosts(TwoHosts::new(&[link; 2])?);
        Ok(Self { quick, environment })
    }

    fn hosts(&self) -> anyhow::Result<&TwoHosts> {
        match &self.environment {
            Environment::Hosts(hosts) => Ok(hosts),
            Environment::Machine { .. } => anyhow::bail!("a machine has no relay"),
        }
    }

    /// The relay's limit: a flood of full packets.
    ///
    /// # Errors
    /// When the relay does not answer.
    pub fn limit(&self) -> anyhow::Result<Vec<Record>> {
        let report = flood(self.hosts()?, LinkUse::Plain.number(), LIMIT)?;
        println!("the relay's limit: {report}\n");
        let record = |metric, unit: &str, value| {
            let record = Record::plain(PATH, ("relay", "flood"), 1472, metric, &[value]);
            record.map(|record| record.in_unit(unit))
        };
        let rate = record("frame_rate", "1/s", report.frame_rate());
        let per_core = record("frames_per_core", "1/s", report.frames_per_core());
        Ok(rate.into_iter().chain(per_core).collect())
    }

    /// All transfers, path by path. A transfer that fails is printed, and has a bandwidth of 0.
    ///
    /// # Errors
    /// After SIGINT and the like.
    pub fn transfers(&self) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        for path in paths(cores(), self.quick) {
            self.set(path)?;
            let transfers = transfers(self.quick);
            let entries = transfers.iter().map(|transfer| transfer.entry(path)).collect();
            let results = run((PATH, 1), &self.environment, entries)?;
            records.extend(bandwidths(&results, &transfers));
            records.extend(self.relays(path)?);
            for series in &results.series {
                for failure in &series.failures {
                    let (label, operation) = (series.candidate.label(), series.candidate.operation);
                    eprintln!("{label}, {operation}, {path}: {failure}");
                }
            }
        }
        Ok(records)
    }

    /// Sets the path on both relays.
    fn set(&self, path: PathOptions) -> anyhow::Result<()> {
        for link in [LinkUse::Xdp, LinkUse::Plain] {
            let relay = self.hosts()?.relay_of(link.number()).context("a link without a relay")?;
            relay.set(path)?;
            relay.report()?;
        }
        Ok(())
    }

    /// The relays' reports of a path, printed; how late they were.
    fn relays(&self, path: PathOptions) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        for (link, mode) in [(LinkUse::Xdp, "link of AF_XDP"), (LinkUse::Plain, "plain link")] {
            let relay = self.hosts()?.relay_of(link.number()).context("a link without a relay")?;
            let report = relay.report()?;
            println!("relay, {path}, {mode}: {report}");
            let late = report.late(0.99).as_nanos() as f64;
            let record = Record::plain(PATH, ("relay", mode), 0, "late_p99", &[late]);
            records.extend(record.map(|record| named(record.in_unit("ns"), path)));
        }
        Ok(records)
    }
}

/// The records as tables for a terminal.
#[must_use]
pub fn tables(records: &[Record]) -> String {
    table::tables(records)
}

/// A record on a path.
fn named(record: Record, path: PathOptions) -> Record {
    Record { link: Some(path.to_string()), ..record }
}

/// Processors of this machine.
fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The rates of the bottleneck on a machine of `cores` processors.
fn rates(cores: usize) -> &'static [u64] {
    if cores >= THREADS { &RATES } else { &[RATE_SHARED] }
}

/// The paths on a machine of `cores` processors: each delay with each loss, then with each rate. A
/// quick run has all losses and one rate: none, or the one of few processors.
fn paths(cores: usize, quick: bool) -> Vec<PathOptions> {
    let mut all = Vec::new();
    let mut add = |losses: &[u32], rate: Option<u64>| {
        for delay in if quick { DELAYS_QUICK } else { DELAYS } {
            for loss_ppm in losses.iter().copied() {
                let delay = Duration::from_micros(*delay);
                all.push(PathOptions { delay, loss_ppm, rate, ..PathOptions::default() });
            }
        }
    };
    if quick {
        add(LOSSES_FEW, (cores < THREADS).then_some(RATE_SHARED));
        return all;
    }
    add(LOSSES, None);
    for rate in rates(cores) {
        add(LOSSES_FEW, Some(*rate));
    }
    all
}

/// One measurement.
#[derive(Clone, Debug)]
struct Transfer {
    candidate: Candidate,
    /// Bytes in a message.
    size: usize,
    time_ms: u64,
}

impl Transfer {
    /// The entry of the suite, through `path`.
    fn entry(&self, path: PathOptions) -> Entry {
        let Self { candidate, size, time_ms } = self;
        let workload = match (candidate.operation, *size) {
            (READ, MEBIBYTE) => format!("{size}x16"),
            (TAGGED, MEBIBYTE) => format!("{size}x1x4"),
            (_, MEBIBYTE) => format!("{size}x1x16"),
            _ => format!("{size}x1"),
        };
        // A large transfer is measured from its first byte: some need seconds.
        let warm_up = if *size == MEBIBYTE { "16" } else { "0" };
        // At that rate there would be some nine transfers, and one more or less an eighth.
        let is_slow = path.rate == Some(RATE_SHARED);
        let time_ms = if is_slow { time_ms * SLOW_TIMES } else { *time_ms }.to_string();
        let options = ["--time", &time_ms, "--warm-up", warm_up, "--timeout", ANSWER_MS];
        let mut arguments: Vec<String> = options.map(String::from).into();
        arguments.extend([String::from("--stream"), workload]);
        Entry { timeout: SESSION, ..Entry::new(candidate.clone().through(path), arguments) }
    }
}

/// The transfers through each path.
fn transfers(quick: bool) -> Vec<Transfer> {
    let mut all = Vec::new();
    let time_ms = if quick { 400 } else { 500 };
    let operations: &[&'static str] = if quick { &[WRITE] } else { &[WRITE, READ, TAGGED] };
    for operation in operations.iter().copied() {
        for size in SIZES {
            for candidate in candidates(size, quick) {
                let candidate = match operation {
                    TAGGED => candidate,
                    one_sided => candidate.one_sided(one_sided),
                };
                all.push(Transfer { candidate, size, time_ms });
            }
        }
    }
    all
}

/// The transports; a quick run measures large transfers of `auto` and `tcp` alone.
fn candidates(size: usize, quick: bool) -> Vec<Candidate> {
    let mut all = vec![Candidate::xdp(XdpMode::Auto)];
    if !quick {
        all.push(Candidate::xdp(XdpMode::Skb));
    }
    if !quick || size == MEBIBYTE {
        all.push(Candidate::xdp(XdpMode::Udp));
    }
    all.push(Candidate::provider("tcp"));
    if !quick {
        all.push(Candidate::provider("udp;ofi_rxd"));
    }
    all
}

/// The bandwidths of a path. A transfer that did not end in time has a bandwidth of 0.
fn bandwidths(results: &Results, transfers: &[Transfer]) -> Vec<Record> {
    let pairs = results.series.iter().zip(transfers);
    let records = pairs.filter_map(|(series, transfer)| {
        let mut values = series.values(Metric::Bandwidth, transfer.size);
        if values.is_empty() {
            values.push(0.0);
        }
        Record::new(PATH, &series.candidate, transfer.size, Metric::Bandwidth, &values)
    });
    records.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_and_each_transfer_is_measured_once() {
        let runs = [(2, true, 6, 5), (8, true, 6, 5), (2, false, 30, 30), (8, false, 40, 30)];
        for (cores, quick, paths_count, transfers_count) in runs {
            let mut names: Vec<String> =
                paths(cores, quick).iter().map(ToString::to_string).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), paths_count, "{names:?}");
            let key = |transfer: &Transfer| {
                let who = &transfer.candidate;
                format!("{} {} {} {}", who.peer, who.mode, who.operation, transfer.size)
            };
            let mut keys: Vec<String> = transfers(quick).iter().map(key).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), transfers_count, "{keys:?}");
        }
    }

    #[test]
    fn transfers_have_several_messages_under_way() {
        let path = PathOptions::default();
        let transfer = Transfer {
            candidate: Candidate::provider("tcp").one_sided(WRITE),
            size: MEBIBYTE,
            time_ms: 400,
        };
        assert!(transfer.entry(path).arguments.contains(&String::from("1048576x1x16")));
        let read =
            Transfer { candidate: transfer.candidate.one_sided(READ), size: SIZES[1], ..transfer };
        assert_eq!(read.entry(path).arguments[6..], ["--stream", "67108864x1"]);
    }
}
