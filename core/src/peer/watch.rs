// SPDX-License-Identifier: MIT OR Apache-2.0
//! The watch over what a peer owes (`docs/PROTOCOL.md` §5.5). A peer must make progress; to answer
//! pings is not enough.
//!
//! In: what the peer owes, as a mark that changes with progress. Out: whether it made none for the
//! peer time-out. The engine's timer calls. Bound: all operations are O(1).

use crate::collections::time::Tick;

/// The number of checks in one peer time-out.
pub(super) const CHECKS: u32 = 4;

/// Checks without progress, since something was owed.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Strikes {
    mark: u16,
    count: u8,
}

impl Strikes {
    /// Records a check. `mark` is 0 where nothing is owed. Returns whether nothing has changed for
    /// the peer time-out, which is [`CHECKS`] checks.
    pub(crate) fn check(&mut self, mark: u16) -> bool {
        if mark == 0 || mark != self.mark {
            *self = Self { mark, count: 0 };
        } else {
            self.count = self.count.saturating_add(1);
        }
        u32::from(self.count) >= CHECKS
    }

    /// Whether nothing has changed between the last two checks and up to now. `mark` is the present
    /// one.
    pub(crate) const fn is_stuck(self, mark: u16) -> bool {
        self.count > 0 && mark == self.mark
    }

    /// The peer is excused: the count begins again.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }
}

/// The watch over one connection: storage of an engine.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Watch {
    checked_at: Tick,
    order: Strikes,
    /// Answers to posted requests, and to rendezvous reads.
    answers: [Strikes; 2],
    /// The peer was excused since the last check of its messages that are arriving.
    is_excused: bool,
}

impl Watch {
    /// Whether a check is due; if so, the caller makes it now. After a pause so long that the ticks
    /// wrapped, a check may seem to be not due yet.
    pub(crate) fn begin_check(&mut self, now: Tick, peer_timeout: u32) -> bool {
        let passed = now.bits().wrapping_sub(self.checked_at.bits());
        let due = passed >= peer_timeout / CHECKS;
        if due {
            self.checked_at = now;
        }
        due
    }

    /// Checks the packets and messages in order, and the answers, by their marks. Returns whether
    /// one of them made no progress for the peer time-out.
    pub(crate) fn check(&mut self, order: u16, answers: [u16; 2]) -> bool {
        let mut is_late = self.order.check(order);
        for (strikes, mark) in self.answers.iter_mut().zip(answers) {
            is_late |= strikes.check(mark);
        }
        is_late
    }

    /// Whether packets and messages in order, or answers, have made no progress between the last
    /// two checks and up to now.
    pub(crate) fn is_stuck(&self, order: u16, answers: [u16; 2]) -> bool {
        let mut answers = self.answers.iter().zip(answers);
        self.order.is_stuck(order) || answers.any(|(strikes, mark)| strikes.is_stuck(mark))
    }

    /// The next packet in order has arrived, with requests beyond the credit.
    pub(crate) fn excuse_order(&mut self) {
        self.order.clear();
    }

    /// The next packet in order has arrived, and this side had no room for it. The peer repeats it
    /// with a window that shrinks, so what is behind it may be unable to come: all counts begin
    /// again.
    pub(crate) fn excuse(&mut self) {
        self.excuse_order();
        self.answers.iter_mut().for_each(Strikes::clear);
        self.is_excused = true;
    }

    /// Whether the counts of the messages that are arriving, which their storage has, are to begin
    /// again.
    pub(crate) const fn is_excused(&self) -> bool {
        self.is_excused
    }

    /// As [`Self::is_excused`]; the caller clears these counts.
    pub(crate) fn take_excuse(&mut self) -> bool {
        core::mem::take(&mut self.is_excused)
    }
}

/// A mark for `what` is owed, never 0. It changes with progress: that it stays equal by chance has
/// a probability of 2^-15 at each check, and [`CHECKS`] such chances in a row do not happen.
pub(crate) const fn mark(what: u32) -> u16 {
    const GOLDEN: u32 = 0x9e37_79b1;
    (what.wrapping_mul(GOLDEN) >> 16) as u16 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_owed_and_stands_still_counts() {
        let mut strikes = Strikes::default();
        assert!((0..20).all(|_| !strikes.check(0)), "nothing is owed");
        assert!((0..20).all(|n| !strikes.check(mark(n))), "progress");
        assert!((1..CHECKS).all(|_| !strikes.check(mark(19))));
        assert!(strikes.check(mark(19)), "the fourth time without progress");
        assert!(strikes.is_stuck(mark(19)) && !strikes.is_stuck(mark(20)));
        assert!(!strikes.check(mark(20)) && !strikes.is_stuck(mark(20)), "one check only");
    }

    #[test]
    fn a_pause_of_the_engine_is_one_check() {
        let (mut watch, second) = (Watch::default(), 1_000_000_000 / 64);
        let timeout = 10 * second;
        let mut now = Tick::default().plus(timeout);
        assert!(watch.begin_check(now, timeout) && !watch.check(mark(1), [0; 2]));
        assert!(!watch.begin_check(now.plus(second), timeout), "too soon");
        now = now.plus(100 * second);
        assert!(watch.begin_check(now, timeout) && !watch.check(mark(1), [0; 2]));
        assert!(!watch.begin_check(now, timeout));
    }
}
