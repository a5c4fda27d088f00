// SPDX-License-Identifier: MIT OR Apache-2.0
//! Round-trip time and the time-outs that follow from it (RFC 6298; RFC 8985 for the tail probe).

use crate::collections::time::TICK_NANOS;

/// The time-out before the first measurement: RFC 6298 would say 1 s; in a cluster 5 ms is
/// generous.
const RTO_INITIAL_TICKS: u32 = (5_000_000 / TICK_NANOS) as u32;
const RTO_MIN_TICKS: u32 = (500_000 / TICK_NANOS) as u32;
/// The longest time-out that is not doubled, and the longest measurement that counts in the
/// average. It is above the round trip of any path with full queues.
const RTO_MAX_TICKS: u32 = (1_000_000_000 / TICK_NANOS) as u32;
/// The longest time-out: several fit the peer time-out.
const TIMEOUT_MAX_TICKS: u32 = (2_000_000_000 / TICK_NANOS) as u32;
/// Below this a tail probe would race with a delayed acknowledgment.
const PROBE_MIN_TICKS: u32 = (100_000 / TICK_NANOS) as u32;
/// The smallest reordering that is forgiven.
const REORDER_MIN_TICKS: u32 = (8_000 / TICK_NANOS) as u32;
/// Steps from the least reordering window to the widest.
const REORDER_STEPS_MAX: u8 = 128;
/// Steps by which a late packet widens it. A packet that was sent again for good reason takes one
/// back.
const LATE_STEPS: u8 = 8;
/// Time-outs double this many times at the most.
const BACKOFF_MAX: u32 = 4;

/// The smoothed round trip is kept in two bytes while there is no traffic: a mantissa of this many
/// bits, and an exponent.
const KEPT_BITS: u32 = 11;
// The longest fits.
static_assertions::const_assert!(u32::BITS - KEPT_BITS < 1 << (u16::BITS - KEPT_BITS));

/// The estimator's state, in ticks.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Rtt {
    smoothed: u32,
    variation: u32,
    /// The least round trip of the path, or more than it; 0: not known yet.
    least: u32,
    /// Packets were late that counted as lost: steps of [`REORDER_STEPS_MAX`].
    reorder_steps: u8,
}

impl Rtt {
    /// Resumes an estimate that was [kept](Self::kept) of earlier traffic; 0: there is none.
    pub(crate) const fn resumed(kept: u16) -> Self {
        let (mantissa, exponent) = (kept as u32 % (1 << KEPT_BITS), kept as u32 >> KEPT_BITS);
        let smoothed = mantissa << exponent;
        Self { smoothed, variation: smoothed / 2, least: 0, reorder_steps: 0 }
    }

    /// The estimate to keep while there is no traffic.
    pub(crate) const fn kept(&self) -> u16 {
        let bits = u32::BITS - self.smoothed.leading_zeros();
        let exponent = bits.saturating_sub(KEPT_BITS);
        let mantissa = self.smoothed >> exponent;
        (exponent << KEPT_BITS | mantissa) as u16
    }

    /// Records one measurement (RFC 6298 §2).
    #[inline]
    pub(crate) fn sample(&mut self, ticks: u32) {
        // A measurement that is far too long must not spoil the average.
        let ticks = ticks.clamp(1, RTO_MAX_TICKS);
        if self.smoothed == 0 {
            *self = Self { smoothed: ticks, variation: ticks / 2, ..*self };
            return;
        }
        let deviation = self.smoothed.abs_diff(ticks);
        self.variation = self.variation - self.variation / 4 + deviation / 4;
        self.smoothed = (self.smoothed - self.smoothed / 8 + ticks / 8).max(1);
    }

    /// Whether a measurement of `ticks` is below the least round trip that is known.
    #[inline]
    pub(crate) const fn is_below_least(&self, ticks: u32) -> bool {
        self.least == 0 || ticks < self.least
    }

    /// Records that the round trip of the path is `ticks` at the most.
    pub(crate) fn lower_least(&mut self, ticks: u32) {
        if self.is_below_least(ticks) {
            self.least = ticks.max(1);
        }
    }

    /// Smoothed round trip, at most [`RTO_MAX_TICKS`]; 0 before the first sample.
    pub(crate) const fn smoothed(&self) -> u32 {
        self.smoothed
    }

    /// The least round trip, however long; 0 while it is not known.
    pub(crate) const fn least(&self) -> u32 {
        self.least
    }

    /// Records that a packet was late which counted as lost: late packets get more time.
    pub(crate) fn saw_late_packet(&mut self) {
        self.reorder_steps = (self.reorder_steps + LATE_STEPS).min(REORDER_STEPS_MAX);
    }

    /// Records that a packet has arrived that was sent again.
    pub(crate) const fn saw_repeated_packet(&mut self) {
        self.reorder_steps = self.reorder_steps.saturating_sub(1);
    }

    /// Late packets get as much time as possible.
    pub(crate) const fn expect_reordering(&mut self) {
        self.reorder_steps = REORDER_STEPS_MAX;
    }

    /// Time-out after which everything under way is taken for lost, after `backoff` earlier ones in
    /// a row.
    pub(crate) fn timeout(&self, backoff: u32) -> u32 {
        let base = match self.smoothed {
            0 => RTO_INITIAL_TICKS,
            smoothed => (smoothed + 4 * self.variation).clamp(RTO_MIN_TICKS, RTO_MAX_TICKS),
        };
        (base << backoff.min(BACKOFF_MAX)).min(TIMEOUT_MAX_TICKS)
    }

    /// Time after which the last packet is sent once more to draw an acknowledgment (RFC 8985
    /// §7.2). It is one and a half round trips instead of two. The measured round trip contains the
    /// sender's own queue, and a needless probe costs one packet.
    pub(crate) fn probe_timeout(&self) -> u32 {
        match self.smoothed {
            0 => RTO_INITIAL_TICKS,
            smoothed => (smoothed + smoothed / 2).clamp(PROBE_MIN_TICKS, RTO_MAX_TICKS),
        }
    }

    /// A packet counts as lost when another one was sent this much later, and arrived (RFC 8985
    /// §6.2). It is a quarter of the least round trip, or of the smoothed one while that is not
    /// known. Each late packet adds a sixteenth of the difference to two round trips, or to eight
    /// times their variation, and one second at the most: packets may take two paths with different
    /// delays.
    pub(crate) fn reorder_window(&self) -> u32 {
        let least = if self.least == 0 { self.smoothed } else { self.least };
        let step = (least.min(RTO_MAX_TICKS) / 4).max(REORDER_MIN_TICKS);
        let most = 2 * self.smoothed.max(4 * self.variation);
        let most = most.min(RTO_MAX_TICKS).max(step);
        step + (most - step) / u32::from(REORDER_STEPS_MAX) * u32::from(self.reorder_steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn estimates_stay_between_the_samples_and_timeouts_in_bounds(
            samples in prop::collection::vec(1u32..2_000_000, 1..50), backoff in 0u32..40,
        ) {
            let mut rtt = Rtt::default();
            for &sample in &samples {
                rtt.sample(sample);
                rtt.lower_least(sample);
            }
            let bounded = samples.iter().map(|&s| s.min(RTO_MAX_TICKS));
            let (least, most) = (bounded.clone().min().unwrap(), bounded.max().unwrap());
            prop_assert!(rtt.smoothed() >= least.saturating_sub(8) && rtt.smoothed() <= most);
            prop_assert_eq!(rtt.least, *samples.iter().min().unwrap());
            prop_assert!(rtt.timeout(backoff) >= RTO_MIN_TICKS);
            prop_assert!(rtt.timeout(backoff) <= TIMEOUT_MAX_TICKS);
            prop_assert!(rtt.probe_timeout() >= PROBE_MIN_TICKS);
            rtt.expect_reordering();
            prop_assert!(rtt.reorder_window() <= RTO_MAX_TICKS);
        }
    }

    #[test]
    fn a_steady_round_trip_is_learnt() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(0), RTO_INITIAL_TICKS);
        for _ in 0..100 {
            rtt.sample(16_000);
        }
        assert!((15_900..=16_000).contains(&rtt.smoothed()));
        assert!(rtt.timeout(0) < 17_000);
    }

    #[test]
    fn late_packets_widen_the_reordering_window_up_to_the_variation() {
        let mut rtt = Rtt::default();
        for ticks in [4_000, 1_000, 4_000, 1_000, 4_000] {
            rtt.sample(ticks);
        }
        rtt.lower_least(1_000);
        assert_eq!(rtt.reorder_window(), 250);
        let most = 8 * rtt.variation;
        assert!(most > 2 * rtt.smoothed());
        let mut before = rtt.reorder_window();
        for _ in 0..REORDER_STEPS_MAX / LATE_STEPS {
            rtt.saw_late_packet();
            assert!(rtt.reorder_window() > before);
            before = rtt.reorder_window();
        }
        assert!(most - before < 128);
        rtt.saw_late_packet();
        assert_eq!(rtt.reorder_window(), before);
        for _ in 0..REORDER_STEPS_MAX {
            rtt.saw_repeated_packet();
        }
        assert_eq!(rtt.reorder_window(), 250);
    }

    #[test]
    fn the_round_trip_is_restored_and_the_least_is_measured_anew() {
        for microseconds in [1, 20, 130, 10_000, 63_000, 400_000, 999_000, 3_000_000] {
            let mut rtt = Rtt::default();
            let ticks = (microseconds * 1_000 / TICK_NANOS) as u32;
            rtt.sample(ticks);
            rtt.lower_least(ticks);
            let mut resumed = Rtt::resumed(rtt.kept());
            let precision = rtt.smoothed() / 1_000;
            assert!(resumed.smoothed().abs_diff(rtt.smoothed()) <= precision, "{microseconds} us");
            assert_eq!(resumed.least(), 0, "it is measured anew");
            resumed.lower_least(ticks);
            assert_eq!(resumed.least(), ticks);
        }
        assert_eq!(Rtt::default().kept(), 0);
        assert_eq!(Rtt::resumed(0).least(), 0);
    }
}
