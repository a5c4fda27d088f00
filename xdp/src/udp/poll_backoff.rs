// SPDX-License-Identifier: MIT OR Apache-2.0
//! Poll back-off for sockets that rarely have packets.
//!
//! A poll is a system call. It costs several times as much if the kernel's code has left the
//! caches, and packets on other paths wait meanwhile. Therefore the pause between two polls
//! grows while they find no packet. It grows by a constant step: packets come in bursts, and a
//! burst after a short silence should not wait long. After a silence of `t` the pause is √(2 · `t`
//! · step): 4 µs after 100 µs, 14 µs after a millisecond.
//!
//! In: the time of the call, and whether the poll found packets. Out: whether a poll is due. The
//! pause is measured in time, so a caller that polls rarely polls every time. Callers: the hybrid
//! port, the connected socket. Bound: the longest pause.

use ofi_xdp_core::Instant;

/// Growth of the pause.
const STEP_NANOS: u64 = 100;

/// The pause of one socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollBackoff {
    due: Instant,
    pause_nanos: u64,
    most_nanos: u64,
}

impl PollBackoff {
    /// A back-off with pauses of at most `most_nanos` nanoseconds; the first poll is due at once.
    pub(crate) const fn new(most_nanos: u64) -> Self {
        Self { due: Instant::ZERO, pause_nanos: 0, most_nanos }
    }

    /// The time of the next poll.
    #[inline]
    pub(crate) const fn due(&self) -> Instant {
        self.due
    }

    /// Whether a poll is due.
    #[inline]
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Records a poll that `found` packets or none.
    #[inline]
    pub(crate) fn record(&mut self, now: Instant, found: bool) {
        self.pause_nanos =
            if found { 0 } else { (self.pause_nanos + STEP_NANOS).min(self.most_nanos) };
        self.due = now.after_nanos(self.pause_nanos);
    }

    /// Makes the next poll due, and the pauses after it short: a packet is about to arrive.
    #[inline]
    pub(crate) const fn reset(&mut self) {
        self.pause_nanos = 0;
        self.due = Instant::ZERO;
    }

    /// Whether a poll was forced and has not been made.
    pub(crate) fn is_forced(&self) -> bool {
        self.due == Instant::ZERO
    }

    /// Makes the next poll due, and keeps the pause.
    pub(crate) const fn force_now(&mut self) {
        self.due = Instant::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_while_nothing_is_found() {
        let mut poll_backoff = PollBackoff::new(250);
        let mut now = Instant::from_nanos(1_000);
        for pause in [100, 200, 250, 250] {
            assert!(poll_backoff.is_due(now));
            poll_backoff.record(now, false);
            assert!(!poll_backoff.is_due(now.after_nanos(pause - 1)));
            now = now.after_nanos(pause);
        }
        poll_backoff.record(now, true);
        assert!(poll_backoff.is_due(now), "where something was there may be more");
        poll_backoff.record(now, false);
        assert!(!poll_backoff.is_due(now));
        poll_backoff.force_now();
        assert!(poll_backoff.is_due(now));
        poll_backoff.record(now, false);
        assert!(!poll_backoff.is_due(now.after_nanos(199)), "the pauses go on growing");
        poll_backoff.reset();
        assert!(poll_backoff.is_due(now));
        poll_backoff.record(now, false);
        assert!(poll_backoff.is_due(now.after_nanos(100)), "they begin again");
    }
}
