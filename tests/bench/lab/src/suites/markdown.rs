// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of a run in Markdown, from records. Those of the documents are generated from
//! `docs/results`.

use std::fmt::Write as _;

use crate::report::{Metric, Record};
use crate::suites::table::{figure, scale};
use crate::suites::{SUITES, targets};

/// All tables: small messages, the targets, one for each suite.
#[must_use]
pub fn markdown(records: &[Record]) -> String {
    let mut text = readme(records);
    text.push_str("\n## Targets\n\n| | target | measured | |\n|---|---|---|---|\n");
    for row in targets(records) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.what,
            row.target,
            row.shown(),
            row.outcome()
        );
    }
    for suite in SUITES {
        let of_suite: Vec<&Record> = records.iter().filter(|one| one.suite == suite).collect();
        if !of_suite.is_empty() {
            let _ = write!(text, "\n## {suite}\n\n{}", suite_table(&of_suite));
        }
    }
    text
}

/// Latency and rate of small messages, relative to `xdp` in generic mode.
fn readme(records: &[Record]) -> String {
    let mut text = String::from(
        "| 8-byte messages | half round trip p50 | p99 | p99.9 | of tcp | messages/s, window 64 |\n\
         |---|---|---|---|---|---|\n",
    );
    let find = |suite: &str, peer: &str, mode: &str, metric: Metric| {
        let found = records.iter().find(|one| {
            one.suite == suite
                && (one.peer.as_str(), one.mode.as_str(), one.size_bytes) == (peer, mode, 8)
                && one.is(metric)
                && one.operation.is_none()
                && one.link.is_none()
        });
        found.map(|one| one.median)
    };
    let tcp = find("latency", "tcp", "spin", Metric::HalfRttP50);
    for (label, peer, mode) in [
        ("**xdp**, as it chooses", "xdp", "auto"),
        ("**xdp**, AF_XDP generic", "xdp", "skb"),
        ("**xdp**, AF_XDP native copy", "xdp", "copy"),
        ("**xdp**, kernel UDP", "xdp", "udp"),
        ("raw AF_XDP, generic (the floor)", "raw-af_xdp", "skb"),
        ("raw AF_XDP, native copy", "raw-af_xdp", "copy"),
        ("kernel UDP sockets, spinning", "kernel-udp", "spin"),
        ("kernel UDP sockets, blocking", "kernel-udp", "blocking"),
        ("`tcp`", "tcp", "spin"),
        ("`tcp;ofi_rxm`", "tcp;ofi_rxm", "spin"),
        ("`udp;ofi_rxd`", "udp;ofi_rxd", "spin"),
    ] {
        let half = |metric| find("latency", peer, mode, metric);
        let micro = |value: Option<f64>| {
            value.map_or_else(|| String::from("–"), |ns| format!("{} µs", figure(ns / 1e3)))
        };
        let p50 = half(Metric::HalfRttP50);
        let ratio = p50.zip(tcp).map(|(one, tcp)| format!("{:.2}×", one / tcp));
        let rate = find("rate", peer, mode, Metric::MessageRate);
        let rate = rate.map(|rate| format!("{} million", figure(rate / 1e6)));
        let dash = || String::from("–");
        let _ = writeln!(
            text,
            "| {label} | {} | {} | {} | {} | {} |",
            micro(p50),
            micro(half(Metric::HalfRttP99)),
            micro(half(Metric::HalfRttP999)),
            ratio.unwrap_or_else(dash),
            rate.unwrap_or_else(dash)
        );
    }
    text
}

/// One row a peer, one column a metric and size.
fn suite_table(records: &[&Record]) -> String {
    let column = |one: &Record| (one.metric.clone(), one.size_bytes);
    let row = Record::subject;
    let (mut columns, mut rows) = (Vec::new(), Vec::new());
    for one in records {
        if !columns.contains(&column(one)) {
            columns.push(column(one));
        }
        if !rows.contains(&row(one)) {
            rows.push(row(one));
        }
    }
    let mut text = String::from("| |");
    for (metric, size) in &columns {
        let _ = if *size == 0 {
            write!(text, " {metric} |")
        } else {
            write!(text, " {metric}, {size} B |")
        };
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(columns.len()));
    text.push('\n');
    for name in &rows {
        let _ = write!(text, "| {name} |");
        for wanted in &columns {
            let found = records.iter().find(|one| row(one) == *name && column(one) == *wanted);
            let _ = match found {
                Some(one) => {
                    let (factor, unit) = scale(one);
                    write!(text, " {} {unit} |", figure(one.median / factor))
                }
                None => write!(text, " – |"),
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Candidate;
    use ofi_xdp_harness::tier::XdpMode;

    #[test]
    fn tables_have_measured_values_and_dashes_elsewhere() {
        let p50 = |who: &Candidate, ns| {
            Record::new("latency", who, 8, Metric::HalfRttP50, &[ns]).unwrap()
        };
        let (xdp, tcp) = (Candidate::xdp(XdpMode::Skb), Candidate::provider("tcp"));
        let text = markdown(&[p50(&xdp, 2050.0), p50(&tcp, 4100.0)]);
        assert!(
            text.contains("| **xdp**, AF_XDP generic | 2.05 µs | – | – | 0.50× | – |"),
            "{text}"
        );
        assert!(
            text.contains("| | half_rtt_p50, 8 B |\n|---|---|\n| xdp, skb | 2.05 µs |"),
            "{text}"
        );
    }
}
