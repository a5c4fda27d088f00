// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output of a client: one JSON object.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use ofi_xdp_libfabric::Kind;

/// The configuration of a measurement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Description {
    /// The provider, or its substitute: `xdp`, `tcp;ofi_rxm`, `kernel-udp`, `raw-af_xdp`.
    pub provider: String,
    /// The domain (for network providers the interface), with further properties of the set-up.
    pub domain: String,
    /// The libfabric endpoint type, if any.
    pub endpoint: Option<Kind>,
    /// The way of waiting: `spin`, `sread`, `fd`, `blocking`.
    pub wait: String,
    /// Whether messages are tagged.
    pub tagged: bool,
}

/// The results of one session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PerfReport {
    /// The configuration.
    pub with: Description,
    /// The client's libfabric, `major.minor`.
    pub libfabric: String,
    /// Whether every byte was checked.
    pub verified: bool,
    /// The latencies, one for each size.
    pub latency: Vec<Latency>,
    /// The streams, one for each size.
    pub stream: Vec<Stream>,
    /// Time from opening the fabric to the first answer, in ns, if it was measured.
    pub start_up_ns: Option<u64>,
    /// Processor time of the idle phase, if it was measured.
    pub idle: Option<Quiet>,
    /// The datagrams of kernel sockets that arrived, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datagrams: Option<Datagrams>,
}

/// Datagrams of kernel sockets that arrived, of those that were sent each way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Datagrams {
    /// Datagrams that were sent each way.
    pub sent: u32,
    /// Of those from the client.
    pub to_server: u32,
    /// Of those from the server, which answered.
    pub to_client: u32,
}

/// The processor time of the client's process while it was idle.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Quiet {
    /// Duration of the idle phase.
    pub seconds: f64,
    /// Processor time of all threads in this time.
    pub cpu_seconds: f64,
}

/// The times of single operations. Of messages and writes a time is half a round trip, of reads and
/// atomic operations the whole operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    /// Bytes in a message.
    pub size_bytes: usize,
    /// Round trips or operations that were measured.
    pub round_trips: u64,
    /// Round trips without an answer (unreliable transports only).
    pub lost: u64,
    /// The shortest time, in ns.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// 99.99th percentile.
    pub p9999_ns: u64,
    /// 99.999th percentile.
    pub p99999_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// Processor time of the client's process for a round trip, in ns.
    pub cpu_ns: f64,
    /// The distribution: (quantile from 0 to 1, time in ns), ascending.
    pub distribution: Vec<(f64, u64)>,
    /// Those times as a histogram of classes in equal ratios: (longest time of the class in ns,
    /// times in the class), ascending.
    pub classes: Vec<(u64, u64)>,
}

/// Classes of [`Latency::classes`].
const CLASSES: i32 = 12;

/// An empty histogram of times. Three digits resolve 1 ns up to 2 µs, and 0.1 % above. One minute
/// exceeds every time limit.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(60_000_000_000, 3)
        .unwrap_or_else(|_| unreachable!("constant, valid bounds"))
}

impl Latency {
    /// Computes the result from round trips in ns.
    #[must_use]
    pub fn new(size_bytes: usize, round_trips_ns: &[u64], lost: u64, cpu: Duration) -> Self {
        let mut histogram = histogram();
        for round_trip in round_trips_ns {
            histogram.saturating_record(round_trip / 2);
        }
        Self::of(size_bytes, &histogram, lost, cpu)
    }

    /// Computes the result from a histogram of the times.
    #[must_use]
    pub fn of(size_bytes: usize, histogram: &Histogram<u64>, lost: u64, cpu: Duration) -> Self {
        let quantile = |q| histogram.value_at_quantile(q);
        Self {
            size_bytes,
            round_trips: histogram.len(),
            lost,
            min_ns: histogram.min(),
            p50_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            p99_ns: quantile(0.99),
            p999_ns: quantile(0.999),
            p9999_ns: quantile(0.9999),
            p99999_ns: quantile(0.99999),
            max_ns: histogram.max(),
            cpu_ns: cpu.as_nanos() as f64 / (histogram.len() + lost).max(1) as f64,
            distribution: quantiles().map(|q| (q, quantile(q))).collect(),
            classes: classes(histogram),
        }
    }
}

/// The times in classes of equal ratios between the shortest and the longest one.
fn classes(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let (least, most) = (histogram.min().max(1), histogram.max().max(1));
    let ratio = (most as f64 / least as f64).powf(1.0 / f64::from(CLASSES));
    let end = |class| match class {
        CLASSES => most,
        class => (least as f64 * ratio.powi(class)) as u64,
    };
    let below = |time| histogram.count_between(0, time);
    let mut before = 0;
    let mut classes = Vec::new();
    for longest in (1..=CLASSES).map(end) {
        let until = below(longest);
        classes.push((longest, until.saturating_sub(before)));
        before = until.max(before);
    }
    classes
}

/// The quantiles of [`Latency::distribution`]: percents, then tenths of the rest, four times.
fn quantiles() -> impl Iterator<Item = f64> {
    let percents = (0..99).map(|n| f64::from(n) / 100.0);
    let tail = [0.01, 0.001, 0.0001, 0.00001].into_iter();
    percents.chain(tail.flat_map(|rest| (0..9).map(move |n| 1.0 - rest * f64::from(10 - n) / 10.0)))
}

/// The result of a stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stream {
    /// Bytes in a message.
    pub size_bytes: usize,
    /// Messages in a window.
    pub window: u32,
    /// Messages that arrived.
    pub messages: u64,
    /// Messages that were lost (unreliable transports only).
    pub lost: u64,
    /// Duration of the stream.
    pub seconds: f64,
    /// Messages that arrived, per second.
    pub message_rate: f64,
    /// Payload that arrived, in bytes per second.
    pub bandwidth: f64,
    /// Processor time of the client's process for a message, in ns.
    pub cpu_ns: f64,
}

impl Stream {
    /// Computes the result from counts, wall time and processor time.
    #[must_use]
    pub fn new(
        size_bytes: usize,
        window: u32,
        messages: u64,
        lost: u64,
        (wall, cpu): (Duration, Duration),
    ) -> Self {
        let seconds = wall.as_secs_f64();
        let message_rate = messages as f64 / seconds.max(1e-9);
        let bandwidth = message_rate * size_bytes as f64;
        let cpu_ns = cpu.as_nanos() as f64 / messages.max(1) as f64;
        Self { size_bytes, window, messages, lost, seconds, message_rate, bandwidth, cpu_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_half_round_trips() {
        let round_trips: Vec<u64> = (1..=1000).map(|n| n * 2000).collect();
        let latency = Latency::new(8, &round_trips, 0, Duration::from_millis(1));
        assert_eq!(latency.round_trips, 1000);
        assert!((latency.cpu_ns - 1000.0).abs() < 1e-6);
        assert!(latency.p50_ns.abs_diff(500_000) <= 500);
        assert!(latency.p99_ns.abs_diff(990_000) <= 1000);
        assert!(latency.min_ns.abs_diff(1000) <= 1);
        assert_eq!(latency.classes.iter().map(|class| class.1).sum::<u64>(), 1000);
        assert!(latency.distribution.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
    }

    #[test]
    fn no_round_trips_are_no_panic() {
        assert_eq!(Latency::new(8, &[], 3, Duration::ZERO).lost, 3);
    }

    #[test]
    fn rate_and_bandwidth_agree() {
        let stream =
            Stream::new(64, 64, 6400, 0, (Duration::from_millis(500), Duration::from_millis(64)));
        assert!((stream.message_rate - 12_800.0).abs() < 1e-6);
        assert!((stream.bandwidth - 819_200.0).abs() < 1e-6);
        assert!((stream.cpu_ns - 10_000.0).abs() < 1e-6);
    }
}
