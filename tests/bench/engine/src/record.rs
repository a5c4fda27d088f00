// SPDX-License-Identifier: MIT OR Apache-2.0
//! Results, in the one form that all measurements of the project have
//! (`tests/bench/lab/src/report.rs`).

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// One quantity over several rounds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Record {
    pub(crate) suite: &'static str,
    /// The subject: two engines in one process, or the simulator.
    pub(crate) peer: &'static str,
    /// The kind of work.
    pub(crate) mode: &'static str,
    pub(crate) size_bytes: u64,
    pub(crate) metric: String,
    pub(crate) unit: &'static str,
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Record {
    /// From the rounds' values, of which there is at least one.
    pub(crate) fn new(
        (mode, size_bytes): (&'static str, u64),
        (metric, unit): (&'static str, &'static str),
        rounds: &[f64],
    ) -> Self {
        let mut sorted = rounds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        Self {
            suite: "engine",
            peer: "engine-pair",
            mode,
            size_bytes,
            metric: metric.to_owned(),
            unit,
            median: f64::midpoint(
                value(sorted.len() / 2),
                value(sorted.len().saturating_sub(1) / 2),
            ),
            low: value(0),
            high: value(sorted.len().saturating_sub(1)),
        }
    }

    /// A number of the simulator's, which is the same in every run. Its name ends in `_ns` where it
    /// is a time.
    pub(crate) fn simulated(name: &str, value: f64) -> Self {
        let (metric, unit) = match name.strip_suffix("_ns") {
            Some(metric) => (metric, "ns"),
            None => (name, "1"),
        };
        Self {
            suite: "engine",
            peer: "simulator",
            mode: "targets",
            size_bytes: 0,
            metric: metric.to_owned(),
            unit,
            median: value,
            low: value,
            high: value,
        }
    }
}

/// Writes `records` to the file `path`, and makes its folder.
pub(crate) fn write(path: &Path, records: &[Record]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut text = serde_json::to_string_pretty(records)?;
    text.push('\n');
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_the_agreed_form() {
        let record = Record::new(("packets", 8), ("message_rate", "1/s"), &[3.0, 1.0, 2.0]);
        let wanted = serde_json::json!({
            "suite": "engine", "peer": "engine-pair", "mode": "packets", "size_bytes": 8,
            "metric": "message_rate", "unit": "1/s", "median": 2.0, "low": 1.0, "high": 3.0,
        });
        assert_eq!(serde_json::to_value(&record).unwrap(), wanted);
    }
}
