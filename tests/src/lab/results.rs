// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rounds gave.

use std::collections::BTreeMap;

use ofi_xdp_examples::report::{Latency, Report, Stream};

use super::{Contestant, Suite};
use crate::report::{Metric, Record, median};

/// One contestant's rounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Who.
    pub contestant: Contestant,
    /// By message size, a round each.
    pub latency: BTreeMap<usize, Vec<Latency>>,
    /// By message size, a round each.
    pub stream: BTreeMap<usize, Vec<Stream>>,
    /// Rounds that failed, and why.
    pub failures: Vec<String>,
}

impl Series {
    /// Nothing yet.
    #[must_use]
    pub fn new(contestant: Contestant) -> Self {
        Self { contestant, latency: BTreeMap::new(), stream: BTreeMap::new(), failures: Vec::new() }
    }

    /// Adds a round.
    pub fn add(&mut self, round: anyhow::Result<Report>) {
        match round {
            Ok(report) => {
                for latency in report.latency {
                    self.latency.entry(latency.size_bytes).or_default().push(latency);
                }
                for stream in report.stream {
                    self.stream.entry(stream.size_bytes).or_default().push(stream);
                }
            }
            Err(error) => self.failures.push(format!("{error:#}")),
        }
    }

    /// The rounds' values of one metric at one size.
    #[must_use]
    pub fn values(&self, metric: Metric, size_bytes: usize) -> Vec<f64> {
        let latency = |read: fn(&Latency) -> u64| {
            let rounds = self.latency.get(&size_bytes).into_iter().flatten();
            rounds.filter(|l| l.round_trips > 0).map(|l| read(l) as f64).collect()
        };
        let stream = |read: fn(&Stream) -> f64| {
            self.stream.get(&size_bytes).into_iter().flatten().map(read).collect()
        };
        match metric {
            Metric::HalfRttP50 => latency(|l| l.half_rtt_p50_ns),
            Metric::HalfRttP99 => latency(|l| l.half_rtt_p99_ns),
            Metric::HalfRttP999 => latency(|l| l.half_rtt_p999_ns),
            Metric::MessageRate => stream(|s| s.message_rate),
            Metric::Bandwidth => stream(|s| s.bandwidth),
        }
    }

    /// The rounds' median of one metric at one size.
    #[must_use]
    pub fn median(&self, metric: Metric, size_bytes: usize) -> Option<f64> {
        median(&self.values(metric, size_bytes))
    }

    /// The distribution of half round trips at one size: at each quantile the rounds' median, in
    /// ns.
    #[must_use]
    pub fn distribution(&self, size_bytes: usize) -> Vec<(f64, f64)> {
        let Some(rounds) = self.latency.get(&size_bytes) else { return Vec::new() };
        let quantiles = rounds.first().map_or(&[][..], |latency| &latency.distribution);
        // A quantile that only the slowest round trip of a round lies above says nothing.
        let fewest = rounds.iter().map(|latency| latency.round_trips).min().unwrap_or(0);
        let told = |quantile: f64| (1.0 - quantile) * fewest as f64 >= 1.0;
        let at = |index: usize| {
            let values: Vec<f64> =
                rounds.iter().filter_map(|l| Some(l.distribution.get(index)?.1 as f64)).collect();
            median(&values)
        };
        let indexed = quantiles.iter().enumerate().filter(|(_, (quantile, _))| told(*quantile));
        indexed.filter_map(|(index, (quantile, _))| Some((*quantile, at(index)?))).collect()
    }
}

/// Everybody's rounds.
#[derive(Clone, PartialEq, Debug)]
pub struct Results {
    /// What was measured.
    pub suite: Suite,
    /// Where, in words.
    pub setting: String,
    /// By whom, `xdp` first.
    pub series: Vec<Series>,
}

impl Results {
    /// The one form of all measurements.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for series in &self.series {
            let peer = (series.contestant.peer, series.contestant.mode.as_str());
            let mut add = |metric, size: &usize| {
                let values = series.values(metric, *size);
                records.extend(Record::new(self.suite.name, peer, *size, metric, &values));
            };
            for size in series.latency.keys() {
                add(Metric::HalfRttP50, size);
                add(Metric::HalfRttP99, size);
                add(Metric::HalfRttP999, size);
            }
            for size in series.stream.keys() {
                add(Metric::MessageRate, size);
                add(Metric::Bandwidth, size);
            }
        }
        records
    }

    /// The series of a peer in a mode.
    #[must_use]
    pub fn find(&self, peer: &str, mode: Option<&str>) -> Option<&Series> {
        self.series.iter().find(|series| {
            series.contestant.peer == peer && mode.is_none_or(|m| series.contestant.mode == m)
        })
    }
}
