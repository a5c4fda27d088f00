// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results of all rounds.

use std::collections::BTreeSet;

use ofi_xdp_perf::report::{Latency, PerfReport, Stream};

use super::{Candidate, Distances};
use crate::report::{Metric, Record, median};

/// The rounds of one candidate.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// The candidate.
    pub candidate: Candidate,
    /// The successful rounds.
    pub reports: Vec<PerfReport>,
    /// The larger core distance of each of these rounds, in ns, if it was measured.
    distances: Vec<Option<f64>>,
    /// The errors of failed rounds.
    pub failures: Vec<String>,
}

impl Series {
    /// A series without rounds.
    #[must_use]
    pub fn new(candidate: Candidate) -> Self {
        Self { candidate, reports: Vec::new(), distances: Vec::new(), failures: Vec::new() }
    }

    /// Adds a round with its core distance (ns).
    pub fn add(&mut self, round: anyhow::Result<PerfReport>, distance: Option<f64>) {
        match round {
            Ok(report) => {
                self.reports.push(report);
                self.distances.push(distance);
            }
            Err(error) => self.failures.push(format!("{error:#}")),
        }
    }

    /// Whether the rounds with far cores can be dropped: there are other rounds, or none with far
    /// cores.
    #[must_use]
    pub fn has_near(&self, is_far: impl Fn(f64) -> bool) -> bool {
        self.reports.is_empty() || self.distances.iter().flatten().any(|one| !is_far(*one))
    }

    /// Drops the rounds with far cores.
    pub fn drop_far(&mut self, is_far: impl Fn(f64) -> bool) {
        let is_far = |distance: &Option<f64>| distance.is_some_and(&is_far);
        let mut distances = self.distances.iter();
        self.reports.retain(|_| !distances.next().is_some_and(is_far));
        self.distances.retain(|distance| !is_far(distance));
    }

    /// Latencies of one size, one for each round.
    fn latency(&self, size_bytes: usize) -> impl Iterator<Item = &Latency> {
        let all = self.reports.iter().flat_map(|report| &report.latency);
        all.filter(move |latency| latency.size_bytes == size_bytes && latency.round_trips > 0)
    }

    /// Streams of one size, one for each round. If some rounds lost no messages, only those: a
    /// transport without retransmission waits long for lost messages, which is not its speed.
    fn stream(&self, size_bytes: usize) -> impl Iterator<Item = &Stream> {
        let all = self.reports.iter().flat_map(|report| &report.stream);
        let all = all.filter(move |stream| stream.size_bytes == size_bytes);
        let some_whole = all.clone().any(|stream| stream.lost == 0);
        all.filter(move |stream| !some_whole || stream.lost == 0)
    }

    /// The sizes of the latencies.
    #[must_use]
    pub fn latency_sizes(&self) -> BTreeSet<usize> {
        let all = self.reports.iter().flat_map(|report| &report.latency);
        all.map(|latency| latency.size_bytes).collect()
    }

    fn stream_sizes(&self) -> BTreeSet<usize> {
        let all = self.reports.iter().flat_map(|report| &report.stream);
        all.map(|stream| stream.size_bytes).collect()
    }

    /// The values of one metric at one size, one for each round. The size has no meaning for
    /// [`Metric::StartUp`] and [`Metric::IdleCpu`].
    #[must_use]
    pub fn values(&self, metric: Metric, size_bytes: usize) -> Vec<f64> {
        let latency =
            |read: fn(&Latency) -> f64| self.latency(size_bytes).map(read).collect::<Vec<_>>();
        let stream =
            |read: fn(&Stream) -> f64| self.stream(size_bytes).map(read).collect::<Vec<_>>();
        let whole = |read: fn(&PerfReport) -> Option<f64>| {
            self.reports.iter().filter_map(read).collect::<Vec<_>>()
        };
        match metric {
            Metric::HalfRttP50 => latency(|l| l.p50_ns as f64),
            Metric::HalfRttP99 => latency(|l| l.p99_ns as f64),
            Metric::HalfRttP999 => latency(|l| l.p999_ns as f64),
            Metric::RoundTripCpu => latency(|l| l.cpu_ns),
            Metric::MessageRate => stream(|s| s.message_rate),
            Metric::Bandwidth => stream(|s| s.bandwidth),
            Metric::MessageCpu => stream(|s| s.cpu_ns),
            Metric::StartUp => whole(|report| report.start_up_ns.map(|ns| ns as f64)),
            Metric::IdleCpu => {
                whole(|report| report.idle.map(|idle| idle.cpu_seconds / idle.seconds.max(1e-9)))
            }
        }
    }

    /// The median over the rounds of one metric at one size.
    #[must_use]
    pub fn median(&self, metric: Metric, size_bytes: usize) -> Option<f64> {
        median(&self.values(metric, size_bytes))
    }

    /// The distribution of half round trips at one size: for each quantile the median over the
    /// rounds, in ns.
    #[must_use]
    pub fn distribution(&self, size_bytes: usize) -> Vec<(f64, f64)> {
        let rounds: Vec<&Latency> = self.latency(size_bytes).collect();
        let quantiles = rounds.first().map_or(&[][..], |latency| latency.distribution.as_slice());
        // A quantile with a single slower round trip in a round is meaningless.
        let fewest = rounds.iter().map(|latency| latency.round_trips).min().unwrap_or(0);
        let is_resolved = |quantile: f64| (1.0 - quantile) * fewest as f64 >= 1.0;
        let at = |index: usize| {
            let values: Vec<f64> =
                rounds.iter().filter_map(|l| Some(l.distribution.get(index)?.1 as f64)).collect();
            median(&values)
        };
        let indexed =
            quantiles.iter().enumerate().filter(|(_, (quantile, _))| is_resolved(*quantile));
        indexed.filter_map(|(index, (quantile, _))| Some((*quantile, at(index)?))).collect()
    }
}

/// The results of all candidates.
#[derive(Clone, PartialEq, Debug)]
pub struct Results {
    /// The report's `suite`.
    pub suite: &'static str,
    /// Number of rounds.
    pub rounds: usize,
    /// A description of the environment.
    pub setting: String,
    /// Core distances of the sessions.
    pub distances: Distances,
    /// The series, one for each candidate.
    pub series: Vec<Series>,
}

impl Results {
    /// The results as records.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        let seen = self.distances.seen();
        let cores = Record::plain(self.suite, ("machine", "cores"), 0, "handover", seen);
        let mut records: Vec<_> = cores.into_iter().map(|record| record.in_unit("ns")).collect();
        for series in &self.series {
            let mut add = |metrics: &[Metric], size| {
                for metric in metrics {
                    let values = series.values(*metric, size);
                    let record = Record::new(self.suite, &series.candidate, size, *metric, &values);
                    records.extend(record);
                }
            };
            for size in series.latency_sizes() {
                let half = [Metric::HalfRttP50, Metric::HalfRttP99, Metric::HalfRttP999];
                add(&half, size);
                add(&[Metric::RoundTripCpu], size);
            }
            for size in series.stream_sizes() {
                add(&[Metric::MessageRate, Metric::Bandwidth, Metric::MessageCpu], size);
            }
            add(&[Metric::StartUp, Metric::IdleCpu], 0);
        }
        records
    }

    /// The results of some candidates.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&Candidate) -> bool) -> Self {
        let mut some = self.clone();
        some.series.retain(|series| wanted(&series.candidate));
        some
    }

    /// The series of a peer in a mode.
    #[must_use]
    pub fn find(&self, peer: &str, mode: Option<&str>) -> Option<&Series> {
        self.series.iter().find(|series| {
            series.candidate.peer == peer && mode.is_none_or(|m| series.candidate.mode == m)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use ofi_xdp_perf::report::Description;

    fn round(lost: &[u64]) -> PerfReport {
        let times = (Duration::from_secs(1), Duration::from_secs(1));
        PerfReport {
            with: Description {
                provider: String::new(),
                domain: String::new(),
                endpoint: None,
                wait: String::new(),
                tagged: false,
            },
            libfabric: String::new(),
            verified: false,
            latency: Vec::new(),
            stream: lost.iter().map(|lost| Stream::new(8, 64, 640 - lost, *lost, times)).collect(),
            start_up_ns: None,
            idle: None,
            datagrams: None,
        }
    }

    #[test]
    fn rounds_that_lost_something_count_where_all_did() {
        let mut series = Series::new(Candidate::kernel_udp(false));
        for lost in [64, 128] {
            series.add(Ok(round(&[lost])), None);
        }
        assert_eq!(series.values(Metric::MessageRate, 8), [576.0, 512.0]);
        series.add(Ok(round(&[0])), None);
        assert_eq!(series.values(Metric::MessageRate, 8), [640.0]);
    }

    #[test]
    fn rounds_of_far_cores_can_be_dropped_where_there_are_others() {
        let is_far = |distance| distance > 50.0;
        let mut series = Series::new(Candidate::kernel_udp(false));
        assert!(series.has_near(is_far), "of none there is nothing to drop");
        series.add(Ok(round(&[1])), Some(150.0));
        series.add(Err(anyhow::anyhow!("no server")), Some(30.0));
        assert!(!series.has_near(is_far));
        series.add(Ok(round(&[2])), None);
        assert!(!series.has_near(is_far), "no distance is known");
        series.add(Ok(round(&[3])), Some(30.0));
        assert!(series.has_near(is_far));
        series.drop_far(is_far);
        assert_eq!(series.values(Metric::MessageRate, 8), [638.0, 637.0]);
        assert_eq!((series.reports.len(), series.failures.len()), (2, 1));
    }
}
