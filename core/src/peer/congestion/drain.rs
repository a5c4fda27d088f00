// SPDX-License-Identifier: MIT OR Apache-2.0
//! The drain of a standing queue (`docs/PROTOCOL.md` §4.6), so that all its senders can measure the
//! least round trip of the path. A sender that begins beside the queue of others would otherwise
//! take that queue for a part of the path. Sources: the slowdown of LEDBAT++
//! (draft-irtf-iccrg-ledbat-plus-plus §4), "Probe RTT" of BBR (Cardwell et al., ACM Queue 14(5)).
//!
//! In: reductions and acknowledgments of the congestion window. Out: a window that leaves the queue
//! no packets for a round trip, and then doubles until the path is used. All operations are O(1).

use super::{CongestionWindow, FLOOR, ONE, Signs, target, unit};
use crate::collections::time::Tick;
use crate::peer::Rtt;

/// Least smoothed round trips from one drain to the next. What fills the queue sooner is no sender
/// that began.
const REST_ROUNDS: u32 = 16;
/// The part of what the path holds that a drain leaves under way. The rest gives senders time that
/// still follow their own drain.
const LEFT_PART: u32 = 4;

impl CongestionWindow {
    /// Whether a reduction for the delay drains the queue: it is the first one after the start, or
    /// the first in a row that finds a long queue, some time after the last drain. Where the hosts'
    /// waits are most of the round trip, the drain would take too long.
    pub(super) fn is_to_drain(&self, rtt: &Rtt, now: Tick) -> bool {
        if self.signs.intersects(Signs::MARKED | Signs::STARTING | Signs::COMPETING) {
            return false;
        }
        let long = target::long(self.packets, rtt);
        let was_long = self.reductions > 0 && self.competition.longest() >= unit(long);
        let is_rested = now.since(self.next_at) >= rtt.smoothed().saturating_mul(REST_ROUNDS);
        let finds_long = self.delay() >= long && !was_long && is_rested;
        (finds_long || self.signs.contains(Signs::FRESH)) && rtt.smoothed() / 2 < self.delay()
    }

    /// Takes from the path what the queue holds of the window, and most of the rest.
    pub(super) fn drain(&mut self, rtt: &Rtt, now: Tick) {
        self.next_at = now;
        self.competition.begin(self.packets, unit(self.delay()));
        self.reductions = 1;
        self.signs.remove(Signs::FRESH);
        self.signs.insert(Signs::DRAINING);
        let left = self.competition.without_queue(unit(rtt.least())) / LEFT_PART;
        self.packets = left.max(FLOOR).min(self.packets);
    }

    /// `packets` were acknowledged while the window is small because of a drain. It doubles once a
    /// packet has come back that was sent after the drain began. Returns whether it is still
    /// smaller than what the path holds. If a queue lasts, others hold it.
    pub(super) fn refill(&mut self, packets: u32, rtt: &Rtt) -> bool {
        if !self.signs.contains(Signs::ANSWERED) {
            return true;
        }
        let most = self.competition.without_queue(unit(rtt.least()));
        if self.delay() >= self.target(rtt) {
            self.signs.remove(Signs::DRAINING);
            return false;
        }
        if self.packets < most {
            self.packets = self.packets.saturating_add(packets.saturating_mul(ONE)).min(most);
            return true;
        }
        self.signs.remove(Signs::DRAINING);
        self.reductions = 0;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::time::TICK_NANOS;

    /// The least round trip, and the delays of a queue that is too long, of one that is long, and
    /// of one that others hold, in microseconds.
    const LEAST: u32 = 100;
    const TOO_LONG: u32 = 190;
    const LONG: u32 = 280;
    const OTHERS: u32 = 1_000;

    fn ticks(microseconds: u32) -> u32 {
        microseconds * 1000 / TICK_NANOS as u32
    }

    /// A window of 64 packets that no longer doubles, on a path with this smoothed round trip.
    struct Sender {
        window: CongestionWindow,
        rtt: Rtt,
        now: Tick,
    }

    impl Sender {
        fn new(smoothed: u32, signs: Signs) -> Self {
            let mut rtt = Rtt::default();
            rtt.sample(ticks(smoothed));
            rtt.lower_least(ticks(LEAST));
            let now = Tick::default();
            let signs = signs | Signs::ANSWERED;
            let window =
                CongestionWindow { packets: 64 * ONE, signs, ..CongestionWindow::new(now) };
            let now = now.plus(REST_ROUNDS * ticks(smoothed));
            Self { window, rtt, now }
        }

        /// One delay throughout a round trip; then `packets` are acknowledged. Returns the window.
        fn round(&mut self, delay: u32, packets: u32) -> u32 {
            for _ in 0..2 {
                self.now = self.now.plus(ticks(delay).max(self.rtt.smoothed()));
                self.window.measured(ticks(delay), ticks(delay), 0, 0, &self.rtt, self.now);
            }
            self.window.acknowledged(packets, self.window.packets(), &self.rtt, self.now);
            self.window.packets()
        }
    }

    #[test]
    fn a_long_queue_is_drained_and_the_window_returns_to_what_the_path_holds() {
        let mut sender = Sender::new(LEAST, Signs::empty());
        let path = 64 * LEAST / LONG;
        assert_eq!(sender.round(LONG, 1), path.div_ceil(LEFT_PART), "a quarter of the path");
        let window = sender.window.packets;
        sender.window.acknowledged(8, 8, &sender.rtt, sender.now);
        assert_eq!(sender.window.packets, window, "no packet of the drain has come back");
        assert_eq!(sender.round(LEAST, 6), path.div_ceil(LEFT_PART) + 6, "it doubles");
        assert_eq!(sender.round(LEAST, 60), path + 1);
        assert!(sender.window.signs.contains(Signs::DRAINING));
        sender.round(LEAST, 1);
        assert!(!sender.window.signs.contains(Signs::DRAINING), "it follows the delay");
        assert_eq!(sender.window.reductions, 0);
    }

    #[test]
    fn a_queue_that_lasts_is_drained_once_and_then_others_hold_it() {
        let mut sender = Sender::new(LEAST, Signs::empty());
        let drained = sender.round(OTHERS, 1);
        let windows = [OTHERS; 4].map(|delay| sender.round(delay, 1));
        assert!(windows[0] * 2 >= drained, "no second drain: {drained}, {windows:?}");
        assert!(sender.window.signs.contains(Signs::COMPETING), "{windows:?}");
        assert!(!sender.window.signs.contains(Signs::DRAINING));
    }

    #[test]
    fn a_queue_that_is_long_again_soon_after_a_drain_is_not_drained() {
        for (rounds, drains) in [(REST_ROUNDS / 2, false), (2 * REST_ROUNDS, true)] {
            let mut sender = Sender::new(LEAST, Signs::empty());
            sender.round(LONG, 1);
            let before = (0..rounds).map(|_| sender.round(LEAST, 2)).last().unwrap();
            assert_eq!(sender.round(LONG, 1) < before / 2, drains, "{rounds} round trips");
        }
    }

    #[test]
    fn a_window_drains_any_queue_once_after_its_start() {
        let mut sender = Sender::new(LEAST, Signs::FRESH | Signs::STARTING);
        assert!(sender.round(TOO_LONG, 1) > 50, "the start ends");
        assert!(sender.round(TOO_LONG, 1) < 16, "it measures the path");
        for _ in 0..8 {
            sender.round(LEAST, 64);
        }
        let before = sender.round(LEAST, 64);
        assert!(sender.round(TOO_LONG, 1) > before / 2, "once");
    }

    #[test]
    fn a_competition_that_ends_with_time_outs_puts_no_drain_off() {
        let mut sender = Sender::new(LEAST, Signs::COMPETING);
        sender.round(OTHERS, 1);
        sender.window.lost(sender.now, &sender.rtt, sender.now);
        assert!(sender.now.is_before(sender.window.next_at), "the plateau is ahead");
        sender.window.timed_out(2, sender.now);
        sender.window.packets = 64 * ONE;
        sender.now = sender.now.plus(REST_ROUNDS * ticks(LEAST));
        assert!(sender.round(LONG, 1) < 16, "a long queue is drained");
    }

    #[test]
    fn hosts_that_wait_longer_than_the_network_cause_no_drain() {
        for (smoothed, drains) in [(3 * LONG, false), (LONG, true)] {
            let mut sender = Sender::new(smoothed, Signs::FRESH);
            assert_eq!(sender.round(LONG, 1) < 16, drains, "{smoothed} µs");
        }
    }
}
