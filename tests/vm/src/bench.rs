// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zero-copy, copy and kernel UDP compared in one run of the machine: raw, and through the
//! provider.
//!
//! All use the pair of cards with zero-copy, one after the other in rounds, so that a slow minute
//! of the host affects all. A message of 1400 bytes fills a packet, so its rate is a packet rate.
//! The provider packs several messages of 64 bytes into a packet. All sleep while they wait: a
//! spinning process takes the emulated processors from the card's interrupts. Results are medians
//! of the rounds.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_harness::{netns, paths};
use ofi_xdp_perf::report::PerfReport;

use crate::cards::{Pair, fixture};
use crate::report;

/// Time limit of a session.
const SESSION_TIMEOUT: Duration = Duration::from_secs(120);
/// The port of a session's server.
const PORT: u16 = 7471;
/// The measurements of a session.
const PHASES: [&str; 6] = ["--latency", "64", "--stream", "64x64,1400x64", "--time", "800"];

/// One line of the table.
struct Candidate {
    label: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    mode: Option<&'static str>,
    results: Vec<PerfReport>,
}

const fn candidate(
    label: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    mode: Option<&'static str>,
) -> Candidate {
    Candidate { label, program, arguments, mode, results: Vec::new() }
}

fn candidates() -> [Candidate; 7] {
    const SLEEP: &[&str] = &["--json", "--wait", "sread"];
    [
        candidate(
            "raw AF_XDP, zero-copy",
            "raw-af_xdp",
            &["--mode", "zerocopy", "--blocking"],
            None,
        ),
        candidate("raw AF_XDP, copy", "raw-af_xdp", &["--mode", "copy", "--blocking"], None),
        candidate("kernel UDP, plain", "kernel-udp", &["--blocking"], None),
        candidate("kernel UDP, GSO and GRO", "kernel-udp-gso", &["--blocking"], None),
        candidate("**xdp**, zero-copy", "xdp-perf", SLEEP, Some("zerocopy")),
        candidate("**xdp**, copy", "xdp-perf", SLEEP, Some("copy")),
        candidate("**xdp**, kernel UDP (GSO and GRO)", "xdp-perf", SLEEP, Some("udp")),
    ]
}

/// Measures in `rounds` rounds everything with a label that contains one of `filter`, or
/// everything. Returns the numbers of successful and failed measurements.
///
/// # Errors
/// When a card is missing, or every measurement failed.
pub(crate) fn run(rounds: usize, filter: &[String]) -> anyhow::Result<(u64, u64)> {
    let fixture = fixture(Pair::Zerocopy)?;
    let (mut passed, mut failed) = (0, 0);
    let mut all = Vec::from(candidates());
    let named = |label: &str| filter.iter().any(|text| label.contains(text.as_str()));
    all.retain(|candidate| filter.is_empty() || named(candidate.label));
    for round in 1..=rounds {
        for candidate in &mut all {
            match session(&fixture, candidate) {
                Ok(report) => {
                    println!("round {round}: {}: {}", candidate.label, line(&report));
                    candidate.results.push(report);
                    passed += 1;
                }
                Err(error) => {
                    println!("round {round}: {}: {error:#}", candidate.label);
                    failed += 1;
                }
            }
        }
    }
    let table = table(&all);
    println!("{table}");
    report::file("bench.md", &table)?;
    Ok((passed, failed))
}

/// Runs server and client once.
fn session(fixture: &TwoHostFixture, candidate: &Candidate) -> anyhow::Result<PerfReport> {
    let path = paths::program(candidate.program)?;
    let listen = format!("{}:{PORT}", fixture.hosts().link(0).v4(Side::A));
    let variables = [tier_variable(candidate.mode.unwrap_or("auto")), ("FI_XDP_IFACE", "link0")];
    let server = Program::new(&path).args(["--sessions", "1", "--listen", &listen]);
    let mut server = fixture.program(Side::A, server.envs(variables))?.start()?;
    server.wait_for("listening at", TIMEOUT)?;
    let client = Program::new(&path).args([&listen]).args(PHASES);
    let client = client.args(candidate.arguments).envs(variables);
    let client = fixture.program(Side::B, client)?.start()?;
    let output = client.finish(SESSION_TIMEOUT)?.success()?;
    server.finish(TIMEOUT)?.success()?;
    // The neighbour entry must exist before the next session measures its first packet.
    netns::ip(&["-netns", fixture.hosts().host(Side::A).name(), "neigh", "show"])?;
    let report: PerfReport = serde_json::from_str(&output.stdout).context("the report")?;
    ensure!(report.stream.len() == 2 && report.latency.len() == 1, "a phase is missing");
    Ok(report)
}

fn line(report: &PerfReport) -> String {
    let [small, large] = [0, 1].map(|phase| report.stream[phase].message_rate / 1e3);
    let half = report.latency[0].p50_ns / 1000;
    format!("{half} us, {small:.0} and {large:.0} thousand messages/s")
}

/// The median of `value` over the results.
fn median(results: &[PerfReport], value: impl Fn(&PerfReport) -> f64) -> Option<f64> {
    let mut values: Vec<f64> = results.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The table in Markdown.
fn table(all: &[Candidate]) -> String {
    let mut text = String::from(
        "| | half round trip p50, 64 B | 64 B, thousand messages/s | 1400 B, thousand packets/s \
         | 1400 B, Gb/s | lost |\n|---|---|---|---|---|---|\n",
    );
    for Candidate { label, results, .. } in all {
        let of = |value: &dyn Fn(&PerfReport) -> f64| median(results, value);
        let half = of(&|r| r.latency[0].p50_ns as f64 / 1e3);
        let small = of(&|r| r.stream[0].message_rate / 1e3);
        let large = of(&|r| r.stream[1].message_rate / 1e3);
        let bandwidth = of(&|r| r.stream[1].bandwidth * 8.0 / 1e9);
        let lost = of(&|r| {
            let (lost, came) = (r.stream[1].lost as f64, r.stream[1].messages as f64);
            100.0 * lost / (lost + came).max(1.0)
        });
        let columns = [(half, 0), (small, 1), (large, 1), (bandwidth, 2), (lost, 1)];
        let _ = write!(text, "| {label} ");
        for (value, digits) in columns {
            match value {
                Some(value) => {
                    let _ = write!(text, "| {value:.digits$} ");
                }
                None => text.push_str("| – "),
            }
        }
        text.push_str("|\n");
    }
    text
}
