// SPDX-License-Identifier: MIT OR Apache-2.0
//! Competition with traffic that fills queues (`docs/PROTOCOL.md` §4.6): its detection, and the
//! growth of a window that competes, after RFC 9438 (CUBIC).
//!
//! Control by delay reduces its window for any queue, and traffic that reduces at a loss alone
//! takes the rest. So a sender observes the effect of its own reductions: where all senders reduce,
//! the queue drains.
//!
//! In: reductions of the congestion window with the delay that caused them; losses. Out: whether to
//! compete, and the growth of a round trip. The congestion window calls. All operations are O(1).

use crate::collections::time::Tick;

/// One packet, in units of the window.
pub(super) const ONE: u32 = 1 << 16;
/// Least number of reductions in a row before their effect is judged: the first ones act a round
/// trip later.
const JUDGED_FROM: u8 = 3;
/// Part of the difference between the longest delay and the present one that each further reduction
/// forgets.
const FORGOTTEN_PART: u16 = 8;
/// A queue is long from so many quarters of the allowed one on.
pub(super) const LONG_QUARTERS: u32 = 7;
/// A queue is too long from so many quarters on.
const TOO_LONG_QUARTERS: u32 = 5;
/// So many round trips in a row with a queue are competition, whatever the window.
const QUEUE_ROUNDS_MAX: u8 = 32;
/// Least growth of a round trip: half a packet. With a reduction by three tenths this is as fast as
/// a stream of TCP that halves its window (RFC 9438 §4.3).
const LEAST_GROWTH: u32 = ONE / 2;
/// The unit of time in CUBIC's curve is 2^14 ticks, 1.05 ms.
const CURVE_SHIFT: u32 = 14;
/// Divisor of the growth in a round trip, in units of the window. The dividend is the square of the
/// time from the plateau, times the round trip in ticks. The growth in a second is 3 · 0.4 · t²
/// packets, `t` seconds from the plateau.
const CURVE_DIVISOR: u64 = 180_700_000;
/// Cube of the time from a loss to the plateau, in units of the curve, for a window of one packet.
/// The time is the cube root of 0.3 / 0.4 of the window in packets, in seconds.
const CURVE_CUBE: u64 = 650_521_303;

/// The reductions in a row.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Competition {
    /// The window before the first reduction in a row, in packets; a window that competes returns
    /// there.
    before: u16,
    /// The longest delay among those reductions, in the unit of the congestion window. After the
    /// window has halved it approaches the present delay.
    longest: u16,
}

impl Competition {
    /// There was none.
    pub(super) const NONE: Self = Self { before: 0, longest: 0 };

    /// Records that `window` is reduced because of `delay`, after `reductions` in a row. `least` is
    /// the delay of the path, `allowed` the queue up to which the window would grow. Returns
    /// whether other traffic holds the queue: it is long, and the reductions before have not
    /// shortened it.
    pub(super) fn reduces(
        &mut self,
        reductions: u8,
        window: u32,
        delay: u16,
        least: u16,
        allowed: u16,
    ) -> bool {
        if reductions == 0 {
            self.begin(window, delay);
        }
        self.longest = self.longest.max(delay);
        let queue = |delay: u16| u32::from(delay.saturating_sub(least));
        if reductions >= QUEUE_ROUNDS_MAX {
            return Self::is_too_long(delay.saturating_sub(least), allowed);
        }
        if reductions < JUDGED_FROM || window.div_ceil(ONE) as u16 > self.before / 2 {
            return false;
        }
        let is_long = 4 * queue(delay) >= LONG_QUARTERS * u32::from(allowed);
        let lasts = is_long && 4 * queue(delay) >= 3 * queue(self.longest);
        // A loss of other traffic shortens the queue, too. It does not so again and again.
        self.longest -= (self.longest - delay).div_ceil(FORGOTTEN_PART);
        lasts
    }

    /// A row begins: `window` is reduced because of `delay`.
    pub(super) const fn begin(&mut self, window: u32, delay: u16) {
        (self.before, self.longest) = (window.div_ceil(ONE) as u16, delay);
    }

    /// Whether a `queue` is clearly longer than the `allowed` one.
    pub(super) const fn is_too_long(queue: u16, allowed: u16) -> bool {
        4 * queue as u32 >= TOO_LONG_QUARTERS * allowed as u32
    }

    /// The longest delay in the row.
    pub(super) const fn longest(&self) -> u16 {
        self.longest
    }

    /// What the path would hold of the window before the row if there were no queue; `least` is the
    /// delay of the path.
    pub(super) fn without_queue(&self, least: u16) -> u32 {
        let window = u64::from(self.before) * u64::from(ONE);
        (window * u64::from(least.min(self.longest)) / u64::from(self.longest.max(1))) as u32
    }

    /// Whether `window` has come back to where the first reduction in a row found it: nobody else
    /// has taken what the reductions left.
    pub(super) fn is_over(&self, window: u32) -> bool {
        window / ONE + 1 >= u32::from(self.before)
    }

    /// Growth of a window that competes, for a round trip of `rtt` ticks. Up to the window before
    /// the reductions it doubles; from there on CUBIC's curve has its `plateau` now.
    pub(super) fn growth(&mut self, window: u32, rtt: u32, plateau: &mut Tick, now: Tick) -> u32 {
        if window < u32::from(self.before) * ONE {
            *plateau = now;
            return window;
        }
        self.before = 0;
        let away = now.since(*plateau).max(plateau.since(now)) >> CURVE_SHIFT;
        let curve = u64::from(away) * u64::from(away) * u64::from(rtt) / CURVE_DIVISOR;
        (curve.min(u64::from(window)) as u32).max(LEAST_GROWTH)
    }

    /// Records a loss at `window`, which is reduced by three tenths. Returns the plateau: the time
    /// at which the curve reaches `window` again.
    pub(super) fn lost(&mut self, window: u32, now: Tick) -> Tick {
        self.before = 0;
        let cube = u64::from(window) * CURVE_CUBE / u64::from(ONE);
        now.plus(cube_root(cube) << CURVE_SHIFT)
    }
}

/// The cube root, rounded down. Bound: 16 steps, for roots below 2^16.
const fn cube_root(of: u64) -> u32 {
    let (mut root, mut bit) = (0u64, 1 << 15);
    while bit > 0 {
        let next = root | bit;
        if next * next * next <= of {
            root = next;
        }
        bit >>= 1;
    }
    root as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::time::TICK_NANOS;

    const LEAST: u16 = 250;

    /// How many reductions of `window` by an eighth each show other traffic; the queue has a length
    /// for each. `None`: it drains before that.
    fn noticed(mut window: u32, queue: impl Fn(u16) -> u16) -> Option<u16> {
        let mut competition = Competition::NONE;
        let mut drained_or_noticed = (0u16..).filter_map(|n| {
            let lasts = competition.reduces(n as u8, window, LEAST + queue(n), LEAST, 12);
            window -= window / 8;
            if queue(n) < 16 { Some(None) } else { lasts.then_some(Some(n)) }
        });
        drained_or_noticed.next().unwrap()
    }

    #[test]
    fn a_queue_that_outlasts_a_halved_window_is_from_other_senders() {
        assert_eq!(noticed(400 * ONE, |_| 80), Some(6));
        assert_eq!(noticed(400 * ONE, |n| 80 + n), Some(6), "it grows");
        assert_eq!(noticed(400 * ONE, |n| 80u16.saturating_sub(7 * n)), None, "it drains");
        let halves = |n| (f64::from(80) * 0.875f64.powi(i32::from(n))) as u16;
        assert_eq!(noticed(400 * ONE, halves), None, "it drains with the window");
    }

    #[test]
    fn a_queue_that_another_sender_shortened_once_is_judged_by_what_it_is_then() {
        let queue = |n| if n < 3 { 80 } else { 40 };
        assert_eq!(noticed(400 * ONE, queue), Some(14));
    }

    #[test]
    fn three_reductions_are_too_few_and_many_are_enough_for_any_window() {
        let mut competition = Competition::NONE;
        let mut lasts = |reductions, packets| {
            competition.reduces(reductions, packets * ONE, LEAST + 80, LEAST, 12)
        };
        assert!(!lasts(0, 64));
        for reductions in 1..JUDGED_FROM {
            assert!(!lasts(reductions, 16), "too early to judge");
        }
        assert!(!lasts(0, 16));
        assert!(!lasts(QUEUE_ROUNDS_MAX - 1, 16));
        assert!(lasts(QUEUE_ROUNDS_MAX, 16));
    }

    #[test]
    fn a_window_returns_to_its_size_of_before() {
        let (mut competition, now) = (Competition::NONE, Tick::default());
        let mut plateau = now.plus(9_000);
        competition.reduces(0, 100 * ONE, LEAST + 80, LEAST, 12);
        let mut growth = |packets| competition.growth(packets * ONE, 1_000, &mut plateau, now);
        assert_eq!(growth(40), 40 * ONE, "it doubles");
        assert_eq!(growth(100), LEAST_GROWTH);
        let mut plateau = competition.lost(100 * ONE, now);
        let growth = competition.growth(70 * ONE, 1_000, &mut plateau, now);
        assert!(growth < ONE, "after a loss it does not");
    }

    #[test]
    fn a_window_follows_the_curve_of_cubic() {
        let round_trip = (100_000_000 / TICK_NANOS) as u32;
        for packets in [100u32, 1_000, 40_000] {
            let (mut competition, mut now) = (Competition::NONE, Tick::default());
            let mut at = competition.lost(packets * ONE, now);
            let mut window = f64::from(packets) * 0.7;
            let plateau = (f64::from(packets) * 0.75).cbrt();
            let mut seconds = 0.0;
            while seconds < 2.0 * plateau {
                let growth = competition.growth(packets * ONE, round_trip, &mut at, now);
                window += f64::from(growth) / f64::from(ONE);
                now = now.plus(round_trip);
                seconds += 0.1;
                let expected = f64::from(packets) + 0.4 * (seconds - plateau).powi(3);
                // Near the plateau, the least growth is faster than the curve.
                let beyond = window - expected;
                assert!(beyond.abs() < 16.0 + 0.05 * expected, "{packets} {seconds} {beyond}");
            }
        }
    }

    #[test]
    fn cube_roots_are_rounded_down() {
        for root in [0u64, 1, 2, 10, 1_000, 65_535] {
            assert_eq!(cube_root(root.pow(3)), root as u32);
            assert_eq!(u64::from(cube_root((root + 1).pow(3) - 1)), root);
        }
    }
}
