// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zero-copy against copy against kernel UDP, in one run of the machine: raw, and through the
//! provider.
//!
//! All use the pair of cards with zero-copy, in rounds, each after the other, so that a slow minute
//! of the host slows all. Messages of 1400 bytes are a packet each, so their rate is a packet rate;
//! the provider puts several of 64 bytes into a packet. Everybody sleeps while nothing comes: who
//! spins takes the emulated processors from the card's interrupts. Medians of the rounds.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ofi_xdp_examples::report::Report;
use ofi_xdp_tests::bed::{Bed, PATIENCE};
use ofi_xdp_tests::process::Program;
use ofi_xdp_tests::topology::Side;
use ofi_xdp_tests::way::way;
use ofi_xdp_tests::{netns, paths};

use crate::cards::{Pair, bed};
use crate::report;

/// How long a session may take.
const SESSION_PATIENCE: Duration = Duration::from_secs(120);
/// Where a session's server listens.
const PORT: u16 = 7471;
/// What is measured in a session.
const PHASES: [&str; 6] = ["--latency", "64", "--stream", "64x64,1400x64", "--time", "800"];

/// One line of the table.
struct Contestant {
    label: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    mode: Option<&'static str>,
    results: Vec<Report>,
}

const fn contestant(
    label: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
    mode: Option<&'static str>,
) -> Contestant {
    Contestant { label, program, arguments, mode, results: Vec::new() }
}

fn contestants() -> [Contestant; 7] {
    const SLEEP: &[&str] = &["--provider", "xdp", "--wait", "sread"];
    [
        contestant(
            "raw AF_XDP, zero-copy",
            "raw-af_xdp",
            &["--mode", "zerocopy", "--blocking"],
            None,
        ),
        contestant("raw AF_XDP, copy", "raw-af_xdp", &["--mode", "copy", "--blocking"], None),
        contestant("kernel UDP, plain", "kernel-udp", &["--blocking"], None),
        contestant("kernel UDP, GSO and GRO", "kernel-udp-trains", &["--blocking"], None),
        contestant("**xdp**, zero-copy", "perf", SLEEP, Some("zerocopy")),
        contestant("**xdp**, copy", "perf", SLEEP, Some("copy")),
        contestant("**xdp**, kernel UDP (GSO and GRO)", "perf", SLEEP, Some("udp")),
    ]
}

/// Measures in so many `rounds` everything whose label contains one of `filter`, or everything; how
/// many measurements succeeded, and how many did not.
///
/// # Errors
/// When the machine has not the cards, or nothing could be measured.
pub(crate) fn run(rounds: usize, filter: &[String]) -> anyhow::Result<(u64, u64)> {
    let bed = bed(Pair::Zerocopy)?;
    let (mut passed, mut failed) = (0, 0);
    let mut all = Vec::from(contestants());
    let named = |label: &str| filter.iter().any(|text| label.contains(text.as_str()));
    all.retain(|contestant| filter.is_empty() || named(contestant.label));
    for round in 1..=rounds {
        for contestant in &mut all {
            match session(&bed, contestant) {
                Ok(report) => {
                    println!("round {round}: {}: {}", contestant.label, line(&report));
                    contestant.results.push(report);
                    passed += 1;
                }
                Err(error) => {
                    println!("round {round}: {}: {error:#}", contestant.label);
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
fn session(bed: &Bed, contestant: &Contestant) -> anyhow::Result<Report> {
    let path = paths::program(contestant.program)?;
    let listen = format!("{}:{PORT}", bed.hosts().link(0).v4(Side::A));
    let environment = [way(contestant.mode.unwrap_or("auto")), ("FI_XDP_IFACE", "link0")];
    let server = Program::new(&path).args(["server", "--sessions", "1", "--listen", &listen]);
    let mut server = bed.program(Side::A, server.envs(environment))?.start()?;
    server.wait_for("listening at", PATIENCE)?;
    let client = Program::new(&path).args(["client", &listen]).args(PHASES);
    let client = client.args(contestant.arguments).envs(environment);
    let client = bed.program(Side::B, client)?.start()?;
    let output = client.finish(SESSION_PATIENCE)?.success()?;
    server.finish(PATIENCE)?.success()?;
    // A neighbour's entry must be there before the next measures its first packet.
    netns::ip(&["-netns", bed.hosts().host(Side::A).name(), "neigh", "show"])?;
    let report: Report = serde_json::from_str(&output.stdout).context("the report")?;
    ensure!(report.stream.len() == 2 && report.latency.len() == 1, "a phase is missing");
    Ok(report)
}

fn line(report: &Report) -> String {
    let [small, large] = [0, 1].map(|phase| report.stream[phase].message_rate / 1e3);
    let half = report.latency[0].half_rtt_p50_ns / 1000;
    format!("{half} us, {small:.0} and {large:.0} thousand messages/s")
}

/// The median of what `value` takes from each result.
fn median(results: &[Report], value: impl Fn(&Report) -> f64) -> Option<f64> {
    let mut values: Vec<f64> = results.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The table for people, in Markdown.
fn table(all: &[Contestant]) -> String {
    let mut text = String::from(
        "| | half round trip p50, 64 B | 64 B, thousand messages/s | 1400 B, thousand packets/s \
         | 1400 B, Gb/s | lost |\n|---|---|---|---|---|---|\n",
    );
    for Contestant { label, results, .. } in all {
        let of = |value: &dyn Fn(&Report) -> f64| median(results, value);
        let half = of(&|r| r.latency[0].half_rtt_p50_ns as f64 / 1e3);
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
