// SPDX-License-Identifier: MIT OR Apache-2.0
//! The relay's account of its own work: frames by their fate, and its lateness.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::line::Fate;

/// Longest lateness that is told apart, in ns.
const LATE_MAX: u64 = 1_000_000_000;

/// Counts of frames in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Frames that reached the other host.
    pub forwarded: u64,
    /// Their bytes, without the checksum.
    pub bytes: u64,
    /// Frames that were lost at random, as asked for.
    pub lost: u64,
    /// Frames that found the bottleneck's queue full.
    pub queue_full: u64,
    /// Frames beyond the hop's MTU.
    pub too_long: u64,
    /// Frames without a buffer in the relay. Any such frame shows the relay's limit.
    pub no_room: u64,
    /// Frames that a host did not take.
    pub refused: u64,
}

/// The relay's account.
#[derive(Clone, Debug)]
pub struct RelayReport {
    /// Counts since the start or the last reset.
    pub counts: Counts,
    /// Time since then.
    pub wall: Duration,
    /// Processor time of the relay's thread since then.
    pub cpu: Duration,
    /// Lateness: time between due and forwarded, in ns.
    late: Histogram<u64>,
}

impl RelayReport {
    pub(super) fn new() -> Self {
        let late = Histogram::new_with_max(LATE_MAX, 3);
        Self {
            counts: Counts::default(),
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            late: late.unwrap_or_else(|_| unreachable!("constant, valid bounds")),
        }
    }

    pub(super) fn drop_frame(&mut self, fate: Fate) {
        match fate {
            Fate::Due(_) => {}
            Fate::Lost => self.counts.lost += 1,
            Fate::QueueFull => self.counts.queue_full += 1,
            Fate::TooLong => self.counts.too_long += 1,
        }
    }

    pub(super) fn forwarded(&mut self, len: usize, late_ns: u64) {
        self.counts.forwarded += 1;
        self.counts.bytes += len as u64;
        self.late.saturating_record(late_ns);
    }

    /// The lateness at a quantile from 0 to 1.
    #[must_use]
    pub fn late(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.late.value_at_quantile(quantile))
    }

    /// Frames per second that one core could carry, by processor time.
    #[must_use]
    pub fn frames_per_core(&self) -> f64 {
        self.counts.forwarded as f64 / self.cpu.as_secs_f64().max(1e-9)
    }

    /// Frames per second that were carried.
    #[must_use]
    pub fn frame_rate(&self) -> f64 {
        self.counts.forwarded as f64 / self.wall.as_secs_f64().max(1e-9)
    }

    /// Gb/s that were carried.
    #[must_use]
    pub fn gigabits(&self) -> f64 {
        self.counts.bytes as f64 * 8e-9 / self.wall.as_secs_f64().max(1e-9)
    }
}

impl fmt::Display for RelayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { forwarded, lost, queue_full, too_long, no_room, refused, .. } = self.counts;
        let us = |quantile| self.late(quantile).as_nanos() as f64 / 1000.0;
        write!(
            f,
            "{forwarded} frames in {:.2} s ({:.0} k/s, {:.2} Gb/s), {:.0} % of a core, \
             {:.0} k/s for a whole one; dropped: {lost} lost, {queue_full} queue full, \
             {too_long} too long, {no_room} no room, {refused} refused; \
             late µs: p50 {:.1}, p99 {:.1}, p99.9 {:.1}",
            self.wall.as_secs_f64(),
            self.frame_rate() / 1e3,
            self.gigabits(),
            100.0 * self.cpu.as_secs_f64() / self.wall.as_secs_f64().max(1e-9),
            self.frames_per_core() / 1e3,
            us(0.5),
            us(0.99),
            us(0.999),
        )
    }
}
