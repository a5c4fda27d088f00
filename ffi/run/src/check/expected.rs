// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures that a tier has reached in the project's own measurement.
//!
//! In: the newest main job in `docs/results`, part of this program, and an offer. Out: a finding:
//! an order of magnitude to expect, and where it comes from. Called by `nic`. Bound: one file.

use serde::Deserialize;

use super::finding::Finding;
use crate::offers::Offer;

/// The measurement.
const MEASURED: &str = include_str!("../../../../docs/results/2026-11-23-run.json");
/// Bytes in the messages of the figures.
const SIZE: usize = 8;

/// The run, as far as it is shown here.
#[derive(Deserialize)]
struct Run {
    processor: String,
    records: Vec<RunFigure>,
}

#[derive(Deserialize)]
struct RunFigure {
    peer: String,
    mode: String,
    size_bytes: usize,
    metric: String,
    median: f64,
}

/// The finding for an offer; `None` for a tier that the project has measured with emulated cards
/// alone, or not at all.
pub(super) fn finding(offer: &Offer) -> Option<Finding> {
    let mode = match offer.value("tier")? {
        "udp" => "udp",
        _ => offer.value("mode")?,
    };
    Some(Finding::good(&offer.domain, "expected", figures(mode)?))
}

fn figures(mode: &str) -> Option<String> {
    let run: Run = serde_json::from_str(MEASURED).ok()?;
    let figure = |metric: &str| {
        let is_it = |one: &&RunFigure| {
            (&*one.peer, &*one.mode, one.size_bytes, &*one.metric) == ("xdp", mode, SIZE, metric)
        };
        run.records.iter().find(is_it).map(|record| record.median)
    };
    let (half_rtt, rate) = (figure("half_rtt_p50")? / 1e3, figure("message_rate")? / 1e6);
    let (processor, _) = run.processor.split_once(',').unwrap_or((&run.processor, ""));
    Some(format!(
        "{half_rtt:.1} µs half round trip, {rate:.1} million/s, as on veth of {processor}; \
         xdp-perf measures here"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_of_the_main_job_have_figures() {
        for mode in ["skb", "udp"] {
            let text = figures(mode).unwrap();
            assert!(text.contains(" µs half round trip, ") && text.contains("AMD"), "{text}");
        }
        assert_ne!(figures("skb"), figures("udp"));
        assert_eq!(figures("zerocopy"), None, "emulated cards alone");
    }

    #[test]
    fn an_offer_has_the_figure_of_its_mode() {
        let offer = |lines: &[&str]| Offer {
            domain: "eth0".to_owned(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let value = |lines: &[&str]| finding(&offer(lines)).map(|finding| finding.value);
        assert_eq!(value(&["tier: af_xdp", "mode: skb"]), figures("skb"));
        assert_eq!(value(&["tier: udp"]), figures("udp"));
        assert_eq!(value(&["tier: af_xdp", "mode: zerocopy"]), None);
        assert_eq!(value(&["passthrough"]), None);
    }
}
