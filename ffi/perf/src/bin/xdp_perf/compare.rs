// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two providers in turns: a disturbance hits both.
//!
//! In: a command line with another provider. Out: a table with the medians, and how many times
//! better the first is, or JSON with every report. Caller: `main`. Bound: the rounds.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use ofi_xdp_perf::output::{complain, print};
use ofi_xdp_perf::plan::Workload;
use ofi_xdp_perf::report::PerfReport;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::{measure, text};

/// The reports of one provider, one a round.
#[derive(Debug, Serialize)]
struct Turns {
    provider: String,
    reports: Vec<PerfReport>,
}

/// One figure of a report.
type Figure = fn(&PerfReport, usize) -> Option<f64>;

/// The unit of a figure, which says in which direction it is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    /// Nanoseconds.
    Time,
    /// Operations a second.
    Rate,
    /// Bytes a second.
    Bandwidth,
}

impl Unit {
    /// The text of a value.
    fn show(self) -> fn(f64) -> String {
        match self {
            Self::Time => nanoseconds,
            Self::Rate => text::per_second,
            Self::Bandwidth => text::bandwidth,
        }
    }
}

/// Measures both, and prints the result.
pub(crate) fn run(arguments: &Arguments, host: &str, other: &str) -> Result<()> {
    let phases = arguments.phases();
    let mut both = [arguments.provider.as_str(), other]
        .map(|provider| Turns { provider: provider.to_owned(), reports: Vec::new() });
    for round in 1..=arguments.rounds {
        for turns in &mut both {
            let report = measure(arguments, host, &turns.provider, &phases, None)
                .with_context(|| format!("round {round}, provider {:?}", turns.provider))?;
            turns.reports.push(report);
        }
        if !arguments.json {
            complain(&format!("round {round} of {}", arguments.rounds));
        }
    }
    if arguments.json {
        print(&format!("{}\n", serde_json::to_string(&both)?))
    } else {
        print(&table(&both, &phases, arguments.operation.text()))
    }
}

/// The median of a figure over the rounds.
fn median(turns: &Turns, figure: Figure, index: usize) -> Option<f64> {
    let mut values: Vec<f64> =
        turns.reports.iter().filter_map(|report| figure(report, index)).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A line for each figure.
fn table(both: &[Turns; 2], phases: &[Workload], operation: &str) -> String {
    let [one, other] = both;
    let mut table = format!(
        "{operation}, medians of {} rounds\n{:<26}{:>17}{:>17}{:>9}\n",
        one.reports.len(),
        "",
        shortened(&one.provider),
        shortened(&other.provider),
        "better"
    );
    let mut line = |name: String, figure: Figure, index: usize, unit: Unit| {
        let values = both.each_ref().map(|turns| median(turns, figure, index));
        let [Some(one), Some(other)] = values else { return };
        let (show, better) = (unit.show(), times_better(one, other, unit));
        let _ = writeln!(table, "{name:<26}{:>17}{:>17}{better:>9}", show(one), show(other));
    };
    let (mut latencies, mut streams) = (0, 0);
    for phase in phases {
        let size = text::bytes(phase.size());
        match phase {
            Workload::Latency { .. } | Workload::FetchLatency { .. } => {
                line(format!("latency {size}, 50 %"), p50, latencies, Unit::Time);
                line(format!("latency {size}, 99 %"), p99, latencies, Unit::Time);
                latencies += 1;
            }
            Workload::Stream { .. } | Workload::Fetch { .. } => {
                line(format!("rate {size}"), rate, streams, Unit::Rate);
                line(format!("bandwidth {size}"), bandwidth, streams, Unit::Bandwidth);
                streams += 1;
            }
            Workload::StartUp { .. } => line(String::from("start-up"), start_up, 0, Unit::Time),
            Workload::Datagrams { .. } | Workload::Quiet { .. } => {}
        }
    }
    table
}

/// A name that fits its column.
fn shortened(name: &str) -> String {
    name.chars().take(16).collect()
}

/// How many times better the first value is: shorter times are better, higher rates are.
fn times_better(one: f64, other: f64, unit: Unit) -> String {
    let (better, worse) = if unit == Unit::Time { (other, one) } else { (one, other) };
    // A value of 0 is better or worse than all others, by no factor.
    if worse > 0.0 { format!("{:.2}", better / worse) } else { String::from("–") }
}

fn nanoseconds(value: f64) -> String {
    text::time(value as u64)
}

fn p50(report: &PerfReport, index: usize) -> Option<f64> {
    report.latency.get(index).map(|latency| latency.p50_ns as f64)
}

fn p99(report: &PerfReport, index: usize) -> Option<f64> {
    report.latency.get(index).map(|latency| latency.p99_ns as f64)
}

fn rate(report: &PerfReport, index: usize) -> Option<f64> {
    report.stream.get(index).map(|stream| stream.message_rate)
}

fn bandwidth(report: &PerfReport, index: usize) -> Option<f64> {
    report.stream.get(index).map(|stream| stream.bandwidth)
}

fn start_up(report: &PerfReport, _: usize) -> Option<f64> {
    report.start_up_ns.map(|ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ofi_xdp_perf::report::{Description, Latency, Stream};

    use super::*;

    fn turns(provider: &str, half_ns: [u64; 3]) -> Turns {
        let report = |half: u64| PerfReport {
            with: Description {
                provider: provider.to_owned(),
                domain: String::from("eth0"),
                endpoint: None,
                wait: String::from("spin"),
                tagged: true,
            },
            libfabric: String::from("2.1"),
            verified: false,
            latency: vec![Latency::new(8, &[2 * half; 100], 0, Duration::ZERO)],
            stream: vec![Stream::new(8, 64, half, 0, (Duration::from_secs(1), Duration::ZERO))],
            start_up_ns: None,
            idle: None,
            datagrams: None,
        };
        Turns { provider: provider.to_owned(), reports: half_ns.map(report).to_vec() }
    }

    #[test]
    fn a_comparison_has_medians_and_how_many_times_better_the_first_is() {
        let both = [turns("xdp", [1_000, 9_000, 2_000]), turns("tcp;ofi_rxm;and;more", [4_000; 3])];
        let phases =
            [Workload::Latency { size: 8 }, Workload::Stream { size: 8, window: 64, ahead: 1 }];
        let text = table(&both, &phases, "message");
        let line =
            |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(line("latency 8 B, 50 %").ends_with("2.00"), "half the time: {text}");
        assert!(line("    ").ends_with("better"), "{text}");
        assert!(
            line("rate 8 B").contains("2.00 k/s") && line("rate 8 B").ends_with("0.50"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn nothing_is_better_than_nothing() {
        assert_eq!(times_better(0.0, 5.0, Unit::Time), "–");
        assert_eq!(times_better(5.0, 0.0, Unit::Rate), "–");
        assert_eq!(times_better(0.0, 5.0, Unit::Bandwidth), "0.00");
    }
}
