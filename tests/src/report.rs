// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one form of every measurement of the project: a list of records.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Half a round trip, median.
    HalfRttP50,
    /// Half a round trip, 99th percentile.
    HalfRttP99,
    /// Half a round trip, 99.9th percentile.
    HalfRttP999,
    /// Messages that arrived, per second.
    MessageRate,
    /// Payload that arrived, per second.
    Bandwidth,
}

impl Metric {
    /// Its unit.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::HalfRttP50 | Self::HalfRttP99 | Self::HalfRttP999 => "ns",
            Self::MessageRate => "1/s",
            Self::Bandwidth => "B/s",
        }
    }
}

/// One quantity over several rounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Which run it is of: `run`, `latency`, `rate`, `bandwidth`.
    pub suite: String,
    /// `xdp`, `tcp`, `tcp;ofi_rxm`, `udp;ofi_rxd`, `kernel-udp`, `raw-af_xdp`.
    pub peer: String,
    /// How that peer was used: for `xdp` the way its packets took (`zerocopy`, `copy`, `skb`,
    /// `udp`), else how it waited (`spin`, `blocking`).
    pub mode: String,
    /// Bytes in a message.
    pub size_bytes: usize,
    /// The quantity.
    pub metric: Metric,
    /// Its unit.
    pub unit: String,
    /// The rounds' median.
    pub median: f64,
    /// The rounds' lowest.
    pub low: f64,
    /// The rounds' highest.
    pub high: f64,
}

impl Record {
    /// From the rounds' values; `None` if there are none.
    #[must_use]
    pub fn new(
        suite: &str,
        (peer, mode): (&str, &str),
        size_bytes: usize,
        metric: Metric,
        rounds: &[f64],
    ) -> Option<Self> {
        Some(Self {
            suite: suite.to_owned(),
            peer: peer.to_owned(),
            mode: mode.to_owned(),
            size_bytes,
            metric,
            unit: metric.unit().to_owned(),
            median: median(rounds)?,
            low: rounds.iter().copied().reduce(f64::min)?,
            high: rounds.iter().copied().reduce(f64::max)?,
        })
    }
}

/// The median; of an even number the mean of the two in the middle.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// Writes `records` to the file `path`, and makes its folder.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, records: &[Record]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut text = serde_json::to_string_pretty(records)?;
    text.push('\n');
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_record_has_the_agreed_form() {
        let peer = ("tcp;ofi_rxm", "spin");
        let record = Record::new("run", peer, 8, Metric::HalfRttP999, &[3.0, 1.0, 2.0]).unwrap();
        let json = serde_json::to_value(&record).unwrap();
        let wanted = serde_json::json!({
            "suite": "run", "peer": "tcp;ofi_rxm", "mode": "spin", "size_bytes": 8,
            "metric": "half_rtt_p999", "unit": "ns", "median": 2.0, "low": 1.0, "high": 3.0,
        });
        assert_eq!(json, wanted);
    }
}
