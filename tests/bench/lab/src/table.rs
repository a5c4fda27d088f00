// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results as tables for a terminal.

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table};

use crate::measure::{Results, Series};
use crate::report::Metric;

/// Latency at `size_bytes`, and message rate at `rate_bytes`, each with its ratio to the first
/// series.
#[must_use]
pub fn summary(results: &Results, size_bytes: usize, rate_bytes: usize) -> String {
    let mut table =
        new_table(&["", "p50 µs", "p99 µs", "p99.9 µs", "p50 / xdp", "messages/s", "rate / xdp"]);
    let first = results.series.first();
    for series in &results.series {
        let latency = |metric| series.median(metric, size_bytes);
        let rate = series.median(Metric::MessageRate, rate_bytes);
        table.add_row(cells([
            series.candidate.label(),
            microseconds(latency(Metric::HalfRttP50)),
            microseconds(latency(Metric::HalfRttP99)),
            microseconds(latency(Metric::HalfRttP999)),
            ratio(latency(Metric::HalfRttP50), first, Metric::HalfRttP50, size_bytes),
            thousands(rate),
            ratio(rate, first, Metric::MessageRate, rate_bytes),
        ]));
    }
    table.to_string()
}

/// One line of a candidate after its first round; `None` if that failed.
#[must_use]
pub fn first_round(series: &Series, size_bytes: usize, rate_bytes: usize) -> Option<String> {
    let half_rtt = series.median(Metric::HalfRttP50, size_bytes)?;
    let (latency, rate) =
        (microseconds(Some(half_rtt)), thousands(series.median(Metric::MessageRate, rate_bytes)));
    Some(format!("  {:<24} {latency:>8} µs {rate:>12} messages/s", series.candidate.label()))
}

/// A table without lines, with this header.
pub(crate) fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(cells(header.iter().map(ToString::to_string)));
    table
}

/// Names are aligned left, numbers right.
pub(crate) fn cells(texts: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let cell = |(column, text): (usize, String)| match column {
        0 => Cell::new(text),
        _ => Cell::new(text).set_alignment(CellAlignment::Right),
    };
    texts.into_iter().enumerate().map(cell).collect()
}

fn microseconds(ns: Option<f64>) -> String {
    ns.map_or_else(dash, |ns| format!("{:.2}", ns / 1000.0))
}

/// `1234567` as `1 234 567`.
fn thousands(value: Option<f64>) -> String {
    let Some(value) = value else { return dash() };
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn ratio(value: Option<f64>, first: Option<&Series>, metric: Metric, size: usize) -> String {
    let base = first.and_then(|series| series.median(metric, size));
    match (value, base) {
        (Some(value), Some(base)) if base > 0.0 => format!("{:.2}×", value / base),
        _ => dash(),
    }
}

fn dash() -> String {
    String::from("–")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        assert_eq!(thousands(Some(0.4)), "0");
        assert_eq!(thousands(Some(999.0)), "999");
        assert_eq!(thousands(Some(1_234_567.2)), "1 234 567");
        assert_eq!(thousands(None), "–");
    }
}
