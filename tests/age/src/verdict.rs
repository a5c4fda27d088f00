// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict about a run: growth after its first quarter, and pauses.
//!
//! In: the samples of the run. Out: a table of the quarters, and the violated rules. Caller: the
//! run.

use std::fmt::Write as _;
use std::time::Duration;

use crate::hosts::UDP_HOST;
use crate::sample::{Figures, Sample};

/// Fewest samples of a run.
const SAMPLES_MIN: usize = 40;
/// Growth of memory from the second to the last quarter that is none: 2 MiB, or a fiftieth.
const MEMORY_KIB: u64 = 2 << 10;
const MEMORY_SHARE: u64 = 50;
/// Growth of counts that is none. Some peers have a socket to send from, which is closed a minute
/// after its last packet; a lost AF_XDP half has a thread; visitors come and go.
const DESCRIPTORS: u64 = 16;
const THREADS: u64 = 1;
const PEERS: u64 = 4;
/// The least part of a quarter's samples in which a resident has AF_XDP. It has none while its
/// interface is down, and until it has opened it again, four seconds later at most.
const XDP_MIN: f64 = 0.25;
/// The longest time without a message. An interface may be down for a part of it.
const STILL_MAX: Duration = Duration::from_secs(30);
/// Runs from this length on have the same rate at the end as after the first quarter, but for a
/// third.
const RATED_FROM: Duration = Duration::from_secs(1800);
const RATE_LEFT: f64 = 0.67;

/// The table, and the violated rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) table: String,
    pub(crate) faults: Vec<String>,
}

/// Judges the samples of a run.
pub(crate) fn judge(samples: &[Sample]) -> Verdict {
    let mut verdict = Verdict::default();
    let residents = samples.first().map_or(0, |sample| sample.residents.len());
    if samples.len() < SAMPLES_MIN {
        verdict.faults.push(format!("{} samples are too few", samples.len()));
        return verdict;
    }
    verdict.table =
        "resident  quarter   MiB  descriptors  threads  peers  messages/s  % on AF_XDP  packets/s\n"
            .to_owned();
    for resident in 0..residents {
        let figures = |sample: &Sample| (sample.at, sample.residents[resident]);
        let figures: Vec<(Duration, Figures)> = samples.iter().map(figures).collect();
        let quarters = quarters(&figures);
        for (number, quarter) in quarters.iter().enumerate() {
            let Quarter { memory, descriptors, threads, connections, rate, .. } = quarter;
            let (number, memory) = (number + 1, *memory as f64 / 1024.0);
            let (share, by_xdp) = (100.0 * quarter.has_xdp, quarter.by_xdp);
            let _ = writeln!(
                verdict.table,
                "{resident:8}  {number:7}  {memory:4.1}  {descriptors:11}  {threads:7}  \
                 {connections:5}  {rate:10.0}  {share:11.0}  {by_xdp:9.0}"
            );
        }
        let found = grown(&quarters).into_iter().chain(stood_still(&figures));
        let length = figures.last().map_or(Duration::ZERO, |(at, _)| *at);
        let found = found.chain(slowed(&quarters, length));
        let lost = without_xdp(&quarters).filter(|_| resident != UDP_HOST);
        let found = found.chain(lost);
        verdict.faults.extend(found.map(|fault| format!("resident {resident}: {fault}")));
    }
    verdict
}

/// The medians of a quarter, and its rate.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Quarter {
    memory: u64,
    descriptors: u64,
    threads: u64,
    connections: u64,
    /// Messages a second.
    rate: f64,
    /// Packets received by AF_XDP, a second.
    by_xdp: f64,
    /// Part of the samples with AF_XDP.
    has_xdp: f64,
}

fn quarters(figures: &[(Duration, Figures)]) -> [Quarter; 4] {
    let size = figures.len() / 4;
    std::array::from_fn(|number| {
        let part = &figures[number * size..(number + 1) * size];
        let median = |of: fn(&Figures) -> u64| {
            let mut values: Vec<u64> = part.iter().map(|(_, one)| of(one)).collect();
            values.sort_unstable();
            values[size / 2]
        };
        let ((from, first), (to, last)) = (part[0], part[size - 1]);
        let seconds = (to - from).as_secs_f64().max(f64::MIN_POSITIVE);
        let rate = |first: u64, last: u64| last.saturating_sub(first) as f64 / seconds;
        Quarter {
            memory: median(|one| one.usage.memory),
            descriptors: median(|one| one.usage.descriptors),
            threads: median(|one| one.usage.threads),
            connections: median(|one| one.connections),
            rate: rate(first.messages, last.messages),
            by_xdp: rate(first.by_xdp, last.by_xdp),
            has_xdp: part.iter().filter(|(_, one)| one.has_xdp).count() as f64 / size as f64,
        }
    })
}

fn grown([_, second, _, last]: &[Quarter; 4]) -> Vec<String> {
    let mut faults = Vec::new();
    let limit = second.memory + MEMORY_KIB.max(second.memory / MEMORY_SHARE);
    let counts = [
        ("KiB of memory", last.memory, limit),
        ("descriptors", last.descriptors, second.descriptors + DESCRIPTORS),
        ("threads", last.threads, second.threads + THREADS),
        ("peers", last.connections, second.connections + PEERS),
    ];
    for (what, last, limit) in counts {
        if last > limit {
            faults.push(format!("{last} {what} in the last quarter, {limit} at most"));
        }
    }
    faults
}

fn stood_still(figures: &[(Duration, Figures)]) -> Option<String> {
    let mut since = figures.first()?;
    for one in figures {
        if one.1.messages > since.1.messages {
            since = one;
        } else if one.0 - since.0 > STILL_MAX {
            let second = since.0.as_secs();
            return Some(format!("no message within {STILL_MAX:?} after second {second}"));
        }
    }
    None
}

/// AF_XDP comes back after each fault, and carries packets. On a virtual link the sender's queue
/// decides about that of the receiver, so a quarter may pass without a packet.
fn without_xdp(quarters: &[Quarter; 4]) -> Option<String> {
    if quarters.iter().all(|quarter| quarter.by_xdp == 0.0) {
        return Some("no packet by AF_XDP".to_owned());
    }
    let number = quarters.iter().position(|quarter| quarter.has_xdp < XDP_MIN)?;
    Some(format!("AF_XDP stays lost in quarter {}", number + 1))
}

fn slowed([_, second, _, last]: &[Quarter; 4], length: Duration) -> Option<String> {
    let slow = length >= RATED_FROM && last.rate < second.rate * RATE_LEFT;
    slow.then(|| {
        format!("{:.0} messages a second in the end, {:.0} before", last.rate, second.rate)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Usage;

    /// A run of an hour with a sample each minute.
    fn run(change: impl Fn(u64, &mut Figures)) -> Vec<String> {
        let sample = |minute: u64| {
            let mut figures = Figures {
                usage: Usage { memory: 50_000, descriptors: 20, threads: 2 },
                connections: 6,
                messages: minute * 6_000,
                by_xdp: minute,
                has_xdp: true,
            };
            change(minute, &mut figures);
            Sample { at: Duration::from_secs(60 * minute), residents: vec![figures] }
        };
        judge(&(0..60).map(sample).collect::<Vec<_>>()).faults
    }

    #[test]
    fn a_flat_run_passes_also_if_it_grows_in_its_first_quarter() {
        assert_eq!(run(|_, _| {}), Vec::<String>::new());
        let growing = run(|minute, figures| {
            figures.usage.memory = 20_000 + 3_000 * minute.min(10);
            figures.usage.descriptors = 10 + minute.min(10);
        });
        assert_eq!(growing, Vec::<String>::new());
    }

    #[test]
    fn growth_is_found() {
        let faults = run(|minute, figures| {
            figures.usage.memory += 100 * minute;
            figures.usage.descriptors += minute;
            figures.usage.threads += minute / 15;
            figures.connections += minute / 6;
        });
        assert_eq!(
            faults,
            [
                "resident 0: 55200 KiB of memory in the last quarter, 54248 at most",
                "resident 0: 72 descriptors in the last quarter, 58 at most",
                "resident 0: 5 threads in the last quarter, 4 at most",
                "resident 0: 14 peers in the last quarter, 13 at most",
            ]
        );
    }

    #[test]
    fn a_pause_and_a_slow_end_are_found() {
        let stopped = run(|minute, figures| figures.messages = 6_000 * minute.min(58));
        assert_eq!(stopped, ["resident 0: no message within 30s after second 3480"]);
        let slow = run(|minute, figures| {
            figures.messages = 6_000 * minute.min(40) + 3_000 * minute.saturating_sub(40);
        });
        assert_eq!(slow, ["resident 0: 50 messages a second in the end, 100 before"]);
    }

    #[test]
    fn a_resident_that_stays_without_af_xdp_is_found() {
        let lost = run(|minute, figures| figures.has_xdp = minute < 35);
        assert_eq!(lost, ["resident 0: AF_XDP stays lost in quarter 4"]);
        let unused = run(|_, figures| figures.by_xdp = 7);
        assert_eq!(unused, ["resident 0: no packet by AF_XDP"]);
    }

    #[test]
    fn a_run_without_samples_fails() {
        assert_eq!(judge(&[]).faults, ["0 samples are too few"]);
    }
}
