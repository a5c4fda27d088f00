// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results for a terminal of 80 columns.
//!
//! In: reports, and their progress. Out: text. Callers: `main`, `compare`. Bound: the classes of a
//! histogram.

use std::fmt::Write as _;

use ofi_xdp_libfabric::Kind;
use ofi_xdp_perf::plan::{Fetch, Workload};
use ofi_xdp_perf::report::{Datagrams, Description, Latency, PerfReport, Stream};
use ofi_xdp_perf::session::Interval;

use crate::operation::Operation;

/// Columns of the longest bar of a histogram.
const BAR: u64 = 40;

/// The set-up, in one line.
pub(crate) fn heading(with: &Description, host: &str) -> String {
    let endpoint = match with.endpoint {
        Some(Kind::Rdm) => ", FI_EP_RDM",
        Some(Kind::Msg) => ", FI_EP_MSG",
        None => "",
    };
    let Description { provider, domain, wait, tagged, .. } = with;
    let tagged = if *tagged { ", tagged" } else { "" };
    format!("{provider} on {domain}{endpoint}{tagged}, waiting: {wait}, to {host}\n")
}

/// The name of a measurement, before it begins.
pub(crate) fn phase(phase: Workload, operation: &str) -> String {
    let of = match phase {
        Workload::Latency { size } => {
            format!("latency, {operation} of {}: half of a round trip", bytes(size))
        }
        Workload::FetchLatency { fetch, size } => {
            format!("latency, {} of {}: the whole operation", fetched(fetch), bytes(size))
        }
        Workload::Stream { size, window, ahead } => {
            let windows = match ahead {
                1 => String::new(),
                several => format!(" ({several} windows of {window})"),
            };
            let under_way = window * ahead;
            format!("stream, {operation} of {}, {under_way} under way{windows}", bytes(size))
        }
        Workload::Fetch { fetch, size, window } => {
            format!("stream, {} of {}, {window} under way", fetched(fetch), bytes(size))
        }
        Workload::Datagrams { .. } => String::from("datagrams of kernel sockets, each way"),
        Workload::StartUp { .. } => String::from("start-up: to the first answer"),
        Workload::Quiet { milliseconds } => format!("idle for {milliseconds} ms"),
    };
    format!("\n{of}\n")
}

const fn fetched(fetch: Fetch) -> &'static str {
    match fetch {
        Fetch::Read => Operation::Read.text(),
        Fetch::Add => Operation::Atomic.text(),
    }
}

/// A line of progress.
pub(crate) fn interval(interval: Interval) -> String {
    let (at, rate) = (interval.at, interval.count as f64 / interval.took.as_secs_f64().max(1e-9));
    let median = match interval.p50_ns {
        Some(median) => format!("   50 %: {}", time(median)),
        None => String::new(),
    };
    format!("  {:7.1} s   {}{median}\n", at.as_secs_f64(), per_second(rate))
}

/// The results of a session.
pub(crate) fn results(report: &PerfReport, operation: Operation) -> String {
    let mut text = String::new();
    for latency in &report.latency {
        let _ = write!(text, "\n{}", distribution(latency, operation));
    }
    if !report.stream.is_empty() {
        let _ = write!(text, "\n{}", streams(&report.stream));
    }
    if let Some(Datagrams { sent, to_server, to_client }) = report.datagrams {
        let _ =
            writeln!(text, "\ndatagrams of {sent} each way: {to_server} there, {to_client} back");
    }
    if let Some(start_up) = report.start_up_ns {
        let _ = writeln!(text, "\nstart-up to the first answer: {}", time(start_up));
    }
    if let Some(idle) = report.idle {
        let part = 100.0 * idle.cpu_seconds / idle.seconds.max(1e-9);
        let _ = writeln!(text, "\nprocessor time while idle: {part:.3} % of a core");
    }
    text
}

/// Percentiles, and a histogram.
fn distribution(latency: &Latency, operation: Operation) -> String {
    let mut text = String::new();
    let (size, count) = (bytes(latency.size_bytes), latency.round_trips);
    let what = operation.text();
    let _ = writeln!(text, "latency of {size}, {what}, {count} times (µs)");
    let columns = [
        ("least", latency.min_ns),
        ("50 %", latency.p50_ns),
        ("90 %", latency.p90_ns),
        ("99 %", latency.p99_ns),
        ("99.9 %", latency.p999_ns),
        ("99.99 %", latency.p9999_ns),
        ("99.999 %", latency.p99999_ns),
        ("most", latency.max_ns),
    ];
    let line = |text: &mut String, cell: &dyn Fn(&(&str, u64)) -> String| {
        let cells: Vec<String> =
            columns.iter().map(|column| format!("{:>9}", cell(column))).collect();
        let _ = writeln!(text, "{}", cells.concat());
    };
    line(&mut text, &|(name, _)| (*name).to_owned());
    line(&mut text, &|(_, ns)| micros(*ns));
    if latency.lost > 0 {
        let _ = writeln!(text, "{} without an answer", latency.lost);
    }
    text.push_str(&histogram(&latency.classes, latency.round_trips));
    text
}

/// A bar for each class with times in it.
fn histogram(classes: &[(u64, u64)], all: u64) -> String {
    let most = classes.iter().map(|class| class.1).max().unwrap_or(0).max(1);
    let mut text = String::new();
    for (longest, count) in classes.iter().filter(|class| class.1 > 0) {
        let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
        let part = 100.0 * *count as f64 / all.max(1) as f64;
        let _ = writeln!(text, "{:>12} µs {part:8.3} %  {bar}", format!("≤ {}", micros(*longest)));
    }
    text
}

/// A line for each stream.
fn streams(streams: &[Stream]) -> String {
    let mut text = format!(
        "{:>10}{:>10}{:>16}{:>14}{:>14}{:>12}\n",
        "size", "window", "rate", "bandwidth", "", "processor"
    );
    for stream in streams {
        let bits = format!("{:.2} Gb/s", stream.bandwidth * 8.0 / 1e9);
        let cpu = format!("{} each", time(stream.cpu_ns as u64));
        let _ = writeln!(
            text,
            "{:>10}{:>10}{:>16}{:>14}{bits:>14}{cpu:>14}",
            bytes(stream.size_bytes),
            stream.window,
            per_second(stream.message_rate),
            bandwidth(stream.bandwidth),
        );
    }
    let lost: u64 = streams.iter().map(|stream| stream.lost).sum();
    if lost > 0 {
        let _ = writeln!(text, "{lost} messages were lost");
    }
    text
}

/// A size: bytes, or whole KiB or MiB.
pub(crate) fn bytes(size: usize) -> String {
    if size >= 1 << 20 && size.is_multiple_of(1 << 20) {
        format!("{} MiB", size >> 20)
    } else if size >= 1 << 10 && size.is_multiple_of(1 << 10) {
        format!("{} KiB", size >> 10)
    } else {
        format!("{size} B")
    }
}

/// Microseconds, with three digits.
fn micros(ns: u64) -> String {
    three_digits(ns as f64 / 1e3)
}

/// A time with its unit.
pub(crate) fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{} µs", three_digits(ns / 1e3)),
        ns if ns < 1e9 => format!("{} ms", three_digits(ns / 1e6)),
        ns => format!("{} s", three_digits(ns / 1e9)),
    }
}

/// Operations a second.
pub(crate) fn per_second(rate: f64) -> String {
    match rate {
        rate if rate < 1e3 => format!("{rate:.0} /s"),
        rate if rate < 1e6 => format!("{} k/s", three_digits(rate / 1e3)),
        rate => format!("{} M/s", three_digits(rate / 1e6)),
    }
}

/// Bytes a second, in decimal units.
pub(crate) fn bandwidth(rate: f64) -> String {
    match rate {
        rate if rate < 1e9 => format!("{} MB/s", three_digits(rate / 1e6)),
        rate => format!("{} GB/s", three_digits(rate / 1e9)),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn report() -> PerfReport {
        let round_trips: Vec<u64> =
            (0..10_000).map(|n| 3_900 + n % 400 + n / 9_990 * 90_000).collect();
        let times = (Duration::from_secs(3), Duration::from_secs(3));
        PerfReport {
            with: Description {
                provider: String::from("xdp"),
                domain: String::from("eth0"),
                endpoint: Some(Kind::Rdm),
                wait: String::from("spin"),
                tagged: true,
            },
            libfabric: String::from("2.1"),
            verified: false,
            latency: vec![Latency::new(8, &round_trips, 0, Duration::from_millis(40))],
            stream: vec![
                Stream::new(8, 64, 9_000_000, 0, times),
                Stream::new(256 << 20, 1, 40, 2, times),
            ],
            start_up_ns: Some(25_000_000),
            idle: None,
            datagrams: Some(Datagrams { sent: 32, to_server: 32, to_client: 0 }),
        }
    }

    #[test]
    fn results_fit_a_terminal() {
        let mut text = heading(&report().with, "192.0.2.100:7471");
        text += &phase(Workload::Stream { size: 8, window: 64, ahead: 1 }, "tagged message");
        let ahead = phase(Workload::Stream { size: 65_536, window: 16, ahead: 4 }, "write");
        assert!(ahead.contains("64 KiB, 64 under way (4 windows of 16)"), "{ahead}");
        let (at, took) = (Duration::from_secs(86_400), Duration::from_secs(1));
        text += &interval(Interval { at, took, count: 3_456_789, p50_ns: Some(123_456) });
        text += &results(&report(), Operation::Tagged);
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line:?}");
        }
        for wanted in [
            "99.999 %",
            "≤ ",
            "3.00 M/s",
            "256 MiB",
            "2 messages were lost",
            "25.0 ms",
            "32 there, 0 back",
        ] {
            assert!(text.contains(wanted), "{wanted:?} in\n{text}");
        }
    }

    #[test]
    fn units_follow_the_value() {
        assert_eq!((bytes(1_000), bytes(65_536)), (String::from("1000 B"), String::from("64 KiB")));
        assert_eq!((time(999), time(1_500)), (String::from("999 ns"), String::from("1.50 µs")));
        assert_eq!(per_second(12_345.0), "12.3 k/s");
        assert_eq!(bandwidth(2.5e9), "2.50 GB/s");
    }

    #[test]
    fn an_empty_report_is_no_panic() {
        let empty = PerfReport {
            latency: vec![Latency::new(8, &[], 1, Duration::ZERO)],
            stream: Vec::new(),
            start_up_ns: None,
            ..report()
        };
        assert!(results(&empty, Operation::Message).contains("1 without an answer"));
    }
}
