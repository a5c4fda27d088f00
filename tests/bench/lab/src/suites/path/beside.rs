// SPDX-License-Identifier: MIT OR Apache-2.0
//! One stream of writes beside streams of kernel TCP through a bottleneck: the share of each.
//!
//! In: the hosts and relays of the suite. Out: records of shares. The suite calls. Bounds:
//! [`QUEUES`], [`OTHERS`], [`LIMIT`].

use std::time::Duration;

use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::relay::PathOptions;
use ofi_xdp_harness::tier::XdpMode;

use super::table::{KERNEL_TCP, PATH, SHARE};
use super::{GIGABIT, PathSuite, cores, named, rates};
use crate::measure::{Candidate, Entry, TcpStreams, WRITE};
use crate::report::Record;

/// Lengths of the bottleneck's queue in ms, and the delay each way.
const QUEUES: [u64; 3] = [1, 10, 100];
const DELAY: Duration = Duration::from_micros(500);
/// Numbers of streams of kernel TCP.
const OTHERS: [usize; 2] = [1, 8];
/// Time from the start of other traffic to the transfer: its slow start is over.
const LEAD: Duration = Duration::from_secs(2);
/// Time of a transfer. A period of CUBIC behind 100 ms of queue takes several seconds.
const TIME: Duration = Duration::from_secs(15);
const TIME_QUICK: Duration = Duration::from_secs(6);
/// Time limit of a session: beyond its transfer, for its start and the writes under way.
const LIMIT: Duration = Duration::from_secs(12);
/// Writes under way.
const UNDER_WAY: u64 = 16;

impl PathSuite {
    /// One stream of writes beside streams of kernel TCP: the share of each in its fair one.
    ///
    /// # Errors
    /// After SIGINT and the like.
    pub fn beside(&self) -> anyhow::Result<Vec<Record>> {
        let mut records = Vec::new();
        let modes: &[XdpMode] =
            if self.quick { &[XdpMode::Auto] } else { &[XdpMode::Auto, XdpMode::Udp] };
        let rates = rates(cores());
        for rate in if self.quick { &rates[..1] } else { rates } {
            for queue in QUEUES {
                let path = PathOptions {
                    delay: DELAY,
                    rate: Some(*rate),
                    queue: Duration::from_millis(queue),
                    ..PathOptions::default()
                };
                for mode in modes {
                    for others in OTHERS {
                        records.extend(self.share(path, *mode, others)?);
                    }
                }
            }
        }
        Ok(records)
    }

    /// The shares of one transfer and `others` streams of kernel TCP.
    fn share(
        &self,
        path: PathOptions,
        mode: XdpMode,
        others: usize,
    ) -> anyhow::Result<Vec<Record>> {
        interrupt::check()?;
        self.set(path)?;
        let time = if self.quick { TIME_QUICK } else { TIME };
        let entry = entry(Candidate::xdp(mode).one_sided(WRITE), path, time);
        let streams = TcpStreams::start(self.hosts()?, entry.candidate.link_number, others)?;
        std::thread::sleep(LEAD);
        let outcome = self.environment.session(&entry);
        let (own, seconds) = match &outcome {
            Ok(report) => report.stream.first().map_or((0.0, 0.0), |s| (s.bandwidth, s.seconds)),
            Err(error) => {
                eprintln!("{} beside {others} TCP, {path}: {error:#}", entry.candidate.label());
                (0.0, time.as_secs_f64())
            }
        };
        let rates = streams.rates(Duration::from_secs_f64(seconds));
        drop(streams);
        let fair = (own + rates.iter().sum::<f64>()) / (others + 1) as f64;
        let shares: Vec<f64> = rates.iter().map(|rate| rate / fair.max(1.0)).collect();
        let name = format!("{} beside {others}", mode.as_str());
        let record = |peer, values: &[f64]| {
            let record = Record::plain(PATH, (peer, &name), 0, SHARE, values);
            record.map(|record| named(record, path))
        };
        let own = record("xdp", &[own / fair.max(1.0)]);
        Ok(own.into_iter().chain(record(KERNEL_TCP, &shares)).collect())
    }
}

/// Bytes of a write: all that are under way fill the path and its queue twice.
fn size(path: PathOptions) -> u64 {
    let full = path.delay * 2 + path.queue;
    let bytes = path.rate.unwrap_or(GIGABIT) as f64 / 8.0 * full.as_secs_f64();
    (2.0 * bytes / UNDER_WAY as f64).ceil().max(4096.0) as u64
}

/// The session of one transfer.
fn entry(candidate: Candidate, path: PathOptions, time: Duration) -> Entry {
    let time_ms = time.as_millis().to_string();
    let limit = time + LIMIT;
    let limit_ms = limit.as_millis().to_string();
    let workload = format!("{}x1x{UNDER_WAY}", size(path));
    let options = ["--time", &time_ms, "--warm-up", "1", "--timeout", &limit_ms];
    let mut arguments: Vec<String> = options.map(String::from).into();
    arguments.extend([String::from("--stream"), workload]);
    Entry { timeout: limit, ..Entry::new(candidate.through(path), arguments) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_under_way_fill_path_and_queue() {
        let path = PathOptions {
            delay: DELAY,
            rate: Some(GIGABIT),
            queue: Duration::from_millis(100),
            ..PathOptions::default()
        };
        assert_eq!(size(path) * UNDER_WAY * 8, 2 * GIGABIT / 1000 * 101);
        let entry = entry(Candidate::xdp(XdpMode::Auto), path, TIME);
        assert!(entry.timeout > TIME);
        assert!(entry.arguments.contains(&format!("{}x1x16", size(path))));
    }
}
