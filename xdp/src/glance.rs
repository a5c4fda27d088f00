// SPDX-License-Identifier: MIT OR Apache-2.0
//! When to look again where packets rarely come from.
//!
//! A look is a system call, some 150 ns, and a microsecond where the kernel's code has left the
//! caches, which packets that come another way wait for. So where nothing is found the pause until
//! the next look grows: by a step each time, not by a factor, for what comes there comes in
//! numbers, and should not wait long at once after a short silence. After a silence of `t` the
//! pause is √(2 · `t` · step): 4 µs after 100 µs, 14 µs after a millisecond. It is measured in
//! time, not in calls: who calls seldom looks every time. In: the time of the call, which the
//! caller has read. Bound: the longest pause.

use ofi_xdp_core::Instant;

/// What the pause grows by.
const STEP_NANOS: u64 = 100;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance {
    due: Instant,
    pause_nanos: u64,
    most_nanos: u64,
}

impl Glance {
    /// Pauses of at most `most_nanos` nanoseconds; none to begin with.
    pub(crate) const fn new(most_nanos: u64) -> Self {
        Self { due: Instant::ZERO, pause_nanos: 0, most_nanos }
    }

    /// Whether it is time to look.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Somebody has looked, and `found` something or not.
    #[inline]
    pub(crate) fn looked(&mut self, now: Instant, found: bool) {
        self.pause_nanos =
            if found { 0 } else { (self.pause_nanos + STEP_NANOS).min(self.most_nanos) };
        self.due = now.after_nanos(self.pause_nanos);
    }

    /// Something is on its way: it is time to look, and soon again if it is not there yet.
    #[inline]
    pub(crate) const fn expect(&mut self) {
        self.pause_nanos = 0;
        self.due = Instant::ZERO;
    }

    /// Whether it is time to look whatever the time is, and nobody has looked yet.
    pub(crate) fn is_hastened(&self) -> bool {
        self.due == Instant::ZERO
    }

    /// It is time to look, whenever it would have been.
    pub(crate) const fn hasten(&mut self) {
        self.due = Instant::ZERO;
    }
}

/// The time, for tests of what keeps pauses.
#[cfg(test)]
pub(crate) fn now() -> Instant {
    let since_boot = nix::time::ClockId::CLOCK_MONOTONIC.now().map(std::time::Duration::from);
    Instant::ZERO.after(since_boot.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_nothing_is_found() {
        let mut glance = Glance::new(250);
        let mut now = Instant::from_nanos(1_000);
        for pause in [100, 200, 250, 250] {
            assert!(glance.is_due(now));
            glance.looked(now, false);
            assert!(!glance.is_due(now.after_nanos(pause - 1)));
            now = now.after_nanos(pause);
        }
        glance.looked(now, true);
        assert!(glance.is_due(now), "where something was there may be more");
        glance.looked(now, false);
        assert!(!glance.is_due(now));
        glance.hasten();
        assert!(glance.is_due(now));
        glance.looked(now, false);
        assert!(!glance.is_due(now.after_nanos(199)), "the pauses go on growing");
        glance.expect();
        assert!(glance.is_due(now));
        glance.looked(now, false);
        assert!(glance.is_due(now.after_nanos(100)), "they begin again");
    }
}
