// SPDX-License-Identifier: MIT OR Apache-2.0
//! One direction of a path, on virtual time: the fate of each frame.
//!
//! In: the length and arrival time of each frame, in order. Out: a [`Fate`]. A frame passes the
//! hop's MTU, then the bottleneck with its queue, then the wire that loses and delays. Nothing is
//! stored here, and no clock is read.

use super::options::{MILLION, PathOptions};

/// Bytes of a frame on Ethernet in addition to its stored ones: preamble, checksum, gap.
const WIRE_OVERHEAD: usize = 24;
/// Bytes of the Ethernet header.
pub(super) const ETHERNET_LEN: usize = 14;

/// The fate of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It arrives at this time, in ns.
    Due(u64),
    /// It is lost on the wire.
    Lost,
    /// The bottleneck's queue is full.
    QueueFull,
    /// It is longer than the hop's MTU.
    TooLong,
}

/// One direction of a path.
#[derive(Debug)]
pub(super) struct Line {
    options: PathOptions,
    /// 0 or 1.
    number: u64,
    random: SplitMix,
    /// The time at which the bottleneck has sent all frames before, in ns.
    free_at: u64,
    /// The time of the last arrival, in ns: frames keep their order when the options change.
    last_due: u64,
}

impl Line {
    /// A direction; `number` tells the two directions' losses apart.
    pub(super) fn new(options: PathOptions, number: u64) -> Self {
        let random = SplitMix(options.seed.wrapping_mul(2).wrapping_add(number));
        Self { options, number, random, free_at: 0, last_due: 0 }
    }

    /// Changes the path, and begins the losses anew; frames under way keep their times.
    pub(super) fn set(&mut self, options: PathOptions) {
        let Self { free_at, last_due, .. } = *self;
        *self = Self { free_at, last_due, ..Self::new(options, self.number) };
    }

    /// Decides on the next frame of `len` bytes. `spared` frames are never lost at random.
    pub(super) fn admit(&mut self, len: usize, spared: bool, now: u64) -> Fate {
        let PathOptions { delay, loss_ppm, rate, queue, hop_mtu, .. } = self.options;
        if hop_mtu.is_some_and(|mtu| len > ETHERNET_LEN + usize::from(mtu)) {
            return Fate::TooLong;
        }
        let start = self.free_at.max(now);
        if let Some(rate) = rate {
            if u128::from(start - now) > queue.as_nanos() {
                return Fate::QueueFull;
            }
            self.free_at = start + serialization_ns(len, rate);
        } else {
            self.free_at = start;
        }
        // Drawn for every frame: the losses depend on the frames' numbers alone.
        let lost = self.random.below(MILLION) < loss_ppm;
        if lost && !spared {
            return Fate::Lost;
        }
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.last_due = self.last_due.max(self.free_at.saturating_add(delay));
        Fate::Due(self.last_due)
    }
}

/// Time of a frame on a wire of `rate` bits per second.
fn serialization_ns(len: usize, rate: u64) -> u64 {
    let bits = (len + WIRE_OVERHEAD) as u64 * 8;
    (bits * 1_000_000_000).div_ceil(rate.max(1))
}

/// A generator of pseudo-random numbers. [Steele, Lea and Flood, OOPSLA 2014]
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u32) -> u32 {
        // The high half of a product of 32 bits each is below the second factor.
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const GIGABIT: u64 = 1_000_000_000;
    /// A full frame: 1,538 bytes on the wire.
    const FULL: usize = 1514;

    fn line(options: PathOptions) -> Line {
        Line::new(options, 0)
    }

    #[test]
    fn a_frame_is_due_after_the_delay() {
        let delay = Duration::from_micros(500);
        let mut line = line(PathOptions { delay, ..PathOptions::default() });
        assert_eq!(line.admit(60, false, 1000), Fate::Due(501_000));
        assert_eq!(line.admit(FULL, false, 1000), Fate::Due(501_000), "no rate, no serialization");
    }

    #[test]
    fn a_bottleneck_sends_one_frame_after_the_other() {
        let mut line = line(PathOptions { rate: Some(GIGABIT), ..PathOptions::default() });
        assert_eq!(line.admit(FULL, false, 0), Fate::Due(12_304));
        assert_eq!(line.admit(FULL, false, 0), Fate::Due(24_608));
        assert_eq!(line.admit(FULL, false, 1_000_000), Fate::Due(1_012_304), "an idle line");
    }

    #[test]
    fn a_queue_has_a_length_in_time() {
        for (millis, rate) in [(1, GIGABIT), (10, GIGABIT), (100, GIGABIT), (1, 5 * GIGABIT)] {
            let queue = Duration::from_millis(millis);
            let mut line = line(PathOptions { rate: Some(rate), queue, ..PathOptions::default() });
            let taken = (0..100_000).take_while(|_| line.admit(FULL, false, 0) != Fate::QueueFull);
            let expected = queue.as_nanos() as f64 / (1538.0 * 8e9 / rate as f64);
            let taken = taken.count() as f64;
            assert!((taken - expected).abs() < 0.01 * expected + 2.0, "{millis} ms: {taken}");
            // A full queue has room again after a while, for a while's frames only.
            assert!(matches!(line.admit(FULL, false, 20_000), Fate::Due(_)));
        }
    }

    #[test]
    fn a_rate_holds_under_overload() {
        let mut line = line(PathOptions { rate: Some(GIGABIT), ..PathOptions::default() });
        // Twice the rate, for a second.
        let arrivals = (0..).map(|frame| frame * 6152).take_while(|now| *now < 1_000_000_000);
        let passed = arrivals.filter(|now| line.admit(FULL, false, *now) != Fate::QueueFull);
        let bits = passed.count() as f64 * 1538.0 * 8.0;
        // The queue itself holds 10 ms at the end.
        assert!((bits / 1.01e9 - 1.0).abs() < 0.001, "{bits}");
    }

    #[test]
    fn losses_are_as_many_as_asked_for_and_the_same_each_time() {
        for loss_ppm in [0, 100, 1000, 10_000] {
            let options = PathOptions { loss_ppm, ..PathOptions::default() };
            let fates = |number| -> Vec<bool> {
                let mut line = Line::new(options, number);
                (0..1_000_000).map(|_| line.admit(FULL, false, 0) == Fate::Lost).collect()
            };
            let first = fates(0);
            let lost = first.iter().filter(|lost| **lost).count() as f64;
            let expected = f64::from(loss_ppm);
            assert!((lost - expected).abs() <= 4.0 * expected.sqrt(), "{loss_ppm}: {lost}");
            assert_eq!(first, fates(0));
            assert_eq!(first == fates(1), loss_ppm == 0, "the directions lose apart");
        }
    }

    #[test]
    fn spared_frames_are_not_lost() {
        let mut line = line(PathOptions { loss_ppm: MILLION, ..PathOptions::default() });
        assert_eq!(line.admit(60, true, 5), Fate::Due(5));
        assert_eq!(line.admit(60, false, 5), Fate::Lost);
    }

    #[test]
    fn a_hop_passes_its_mtu_and_no_more() {
        let mut line = line(PathOptions { hop_mtu: Some(1400), ..PathOptions::default() });
        assert_eq!(line.admit(1414, false, 0), Fate::Due(0));
        assert_eq!(line.admit(1415, false, 0), Fate::TooLong);
    }

    #[test]
    fn frames_keep_their_order_when_the_delay_shrinks() {
        let slow = PathOptions { delay: Duration::from_millis(5), ..PathOptions::default() };
        let mut line = line(slow);
        assert_eq!(line.admit(60, false, 0), Fate::Due(5_000_000));
        line.set(PathOptions::default());
        assert_eq!(line.admit(60, false, 1000), Fate::Due(5_000_000));
        assert_eq!(line.admit(60, false, 6_000_000), Fate::Due(6_000_000));
    }
}
