// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite `datagrams`: endpoints of the type `FI_EP_DGRAM` beside bare AF_XDP sockets and
//! libfabric's own `udp`.
//!
//! In: the program `datagrams`, a process on each of two hosts, with a link for each candidate.
//! Out: records of half a round trip, and of the datagrams a second that one host sends and the
//! other receives. Nothing throttles the sender: lost datagrams are the difference. Candidates are
//! measured in turn, round after round. Bound: the rounds.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use ofi_xdp_bench::report::{DatagramPings, DatagramStream};
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::topology::{LinkOptions, Side, TwoHosts};
use ofi_xdp_harness::{interrupt, paths};

use crate::measure::Candidate;
use crate::report::{Metric, Record};

/// The name of the suite.
pub const DATAGRAMS: &str = "datagrams";
/// The operation of its records.
pub(super) const OPERATION: &str = "datagrams";
/// Datagrams a second that were sent, and that were received.
pub(super) const SENT: &str = "sent_rate";
/// See [`SENT`].
pub(super) const RECEIVED: &str = "received_rate";
/// Bytes of a ping, and of the datagrams of streams.
pub(super) const PING: usize = 8;
/// See [`PING`].
pub(super) const STREAMS: [usize; 2] = [64, 1400];
/// The port of the TCP connection that sets a session up.
const PORT: u16 = 7471;
/// Time limit of a receiver to listen, and of a session.
const START: Duration = Duration::from_secs(5);
/// See [`START`].
const TIMEOUT: Duration = Duration::from_secs(60);

/// A measurement of a candidate: pings or a stream of this size.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Work {
    Pings,
    Stream(usize),
}

/// Values of the rounds by candidate, size and metric.
type Values = BTreeMap<(usize, usize, &'static str), Vec<f64>>;

/// All candidates, each once.
fn candidates() -> Vec<Candidate> {
    let modes = [XdpMode::Auto, XdpMode::Skb, XdpMode::Copy, XdpMode::Udp];
    let mut all: Vec<Candidate> = modes.map(Candidate::xdp).into();
    all.extend([XdpMode::Skb, XdpMode::Copy].map(Candidate::raw));
    all.push(Candidate::provider("udp"));
    all
}

/// Measures all candidates.
///
/// # Errors
/// Without privilege, or when a program fails.
pub fn datagrams(quick: bool) -> anyhow::Result<Vec<Record>> {
    let candidates = candidates();
    let values = run(&candidates, if quick { (2, "200") } else { (7, "1000") })?;
    Ok(records(&candidates, &values))
}

/// Runs datagrams over each tier that the PGO build is for.
///
/// # Errors
/// As [`datagrams`].
pub fn exercise_datagrams() -> anyhow::Result<()> {
    run(&[XdpMode::Auto, XdpMode::Skb, XdpMode::Udp].map(Candidate::xdp), (1, "200")).map(drop)
}

/// Runs all work of `candidates`, so many rounds of so many milliseconds each.
fn run(candidates: &[Candidate], (rounds, time): (usize, &str)) -> anyhow::Result<Values> {
    let hosts = TwoHosts::new(&vec![LinkOptions::default(); candidates.len()])?;
    let mut values = Values::new();
    for _ in 0..rounds {
        for work in [Work::Pings, Work::Stream(STREAMS[0]), Work::Stream(STREAMS[1])] {
            for (number, who) in candidates.iter().enumerate() {
                interrupt::check()?;
                let session = session(&hosts, number, who, work, time);
                let session = session.with_context(|| format!("{}, {work:?}", who.label()))?;
                for (size, metric, value) in session {
                    values.entry((number, size, metric)).or_default().push(value);
                }
            }
        }
    }
    Ok(values)
}

fn records(candidates: &[Candidate], values: &Values) -> Vec<Record> {
    let record = |(&(number, size, metric), rounds): (&(usize, usize, &str), &Vec<f64>)| {
        let who = candidates.get(number)?;
        let record = Record::plain(DATAGRAMS, (who.peer, &who.mode), size, metric, rounds)?;
        let unit = if metric.starts_with("half_rtt") { "ns" } else { "1/s" };
        Some(Record { operation: Some(OPERATION.to_owned()), ..record.in_unit(unit) })
    };
    values.iter().filter_map(record).collect()
}

/// One measurement: sizes and metrics with their values.
fn session(
    hosts: &TwoHosts,
    link: usize,
    who: &Candidate,
    work: Work,
    time: &str,
) -> anyhow::Result<Vec<(usize, &'static str, f64)>> {
    let program = paths::program("datagrams")?;
    let on = |side: Side, core: usize| -> anyhow::Result<Program> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut program = Program::new(&program).inside(hosts.host(side))?;
        if cores > 1 {
            program = program.args(["--core", &core.to_string()]);
        }
        Ok(program.envs(who.variables(None)?))
    };
    let address = SocketAddr::new(hosts.link(link).v4(Side::A), PORT).to_string();
    let mut receiver = on(Side::A, 0)?.args(["--listen", &address]).start()?;
    receiver.wait_for("listening at", START)?;
    let mut sender =
        on(Side::B, 1)?.args([address.as_str(), "--provider", who.peer, "--time", time]);
    if who.program == "raw-af_xdp" {
        sender = sender.args(&who.arguments);
    }
    let sender = match work {
        Work::Pings => sender.args(["--pings", &PING.to_string()]),
        Work::Stream(size) => sender.args(["--stream", &size.to_string()]),
    };
    let output = sender.run(TIMEOUT)?.success()?;
    receiver.finish(START)?.success()?;
    let why = "the report of the program is not understood";
    Ok(match work {
        Work::Pings => {
            let DatagramPings { p50_ns, p99_ns, .. } =
                serde_json::from_str(&output.stdout).context(why)?;
            let of = |metric: Metric, ns: u64| (PING, metric.name(), ns as f64);
            vec![of(Metric::HalfRttP50, p50_ns), of(Metric::HalfRttP99, p99_ns)]
        }
        Work::Stream(size) => {
            let DatagramStream { sent_rate, received_rate, .. } =
                serde_json::from_str(&output.stdout).context(why)?;
            vec![(size, SENT, sent_rate), (size, RECEIVED, received_rate)]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_candidate_is_measured_once() {
        let mut keys: Vec<_> = candidates().into_iter().map(|who| (who.peer, who.mode)).collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "{keys:?}");
    }

    #[test]
    fn a_record_has_the_median_of_its_rounds_and_its_unit() {
        let mut values = Values::new();
        values.insert((6, 8, Metric::HalfRttP50.name()), vec![3000.0, 1000.0, 2000.0]);
        values.insert((0, 64, SENT), vec![5.0]);
        let records = records(&candidates(), &values);
        let of = |peer: &str| records.iter().find(|one| one.peer == peer).unwrap();
        let (udp, xdp) = (of("udp"), of("xdp"));
        assert_eq!((udp.median, udp.unit.as_str(), udp.size_bytes), (2000.0, "ns", 8));
        assert_eq!((xdp.mode.as_str(), xdp.unit.as_str(), xdp.size_bytes), ("auto", "1/s", 64));
    }
}
