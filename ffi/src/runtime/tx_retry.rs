// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time of the next attempt to send packets that the last call has left: in the engine, and in
//! the ring of an `AF_XDP` socket.
//!
//! In: after each call that moves packets, whether packets wait, and whether the call has sent as
//! many as it may. Out: the time of the next call, which wakes the kernel again. No descriptor
//! reports room in the device, and packets that were never sent have no timer. Caller: the runtime,
//! under its lock. Bound: an attempt each [`PAUSE_MIN`] at first, each [`PAUSE_MAX`] where the
//! device takes nothing for long, as while it is down.

use std::time::Duration;

use ofi_xdp_core::Instant;

/// Pause before the first attempt: a device at 10 Gb/s sends 40 full packets meanwhile.
const PAUSE_MIN: Duration = Duration::from_micros(50);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TxRetry {
    /// The time of the next attempt, and the pause before it.
    next: Option<(Instant, Duration)>,
}

impl TxRetry {
    /// Records at `now` that the call has sent as many packets as it may, and others wait.
    #[inline]
    pub(super) fn at_once(&mut self, now: Instant) {
        self.next = Some((now, Duration::ZERO));
    }

    /// Records at `now` whether packets wait. Calls before the next attempt do not put it off.
    #[inline]
    pub(super) fn record(&mut self, now: Instant, waits: bool) {
        if !waits {
            self.next = None;
        } else if self.next.is_none_or(|(at, _)| at <= now) {
            self.attempt_later(now);
        }
    }

    #[cold]
    fn attempt_later(&mut self, now: Instant) {
        let pause =
            self.next.map_or(PAUSE_MIN, |(_, pause)| (2 * pause).clamp(PAUSE_MIN, PAUSE_MAX));
        self.next = Some((now.after(pause), pause));
    }

    /// The time of the next attempt, if packets wait.
    pub(super) fn at(&self) -> Option<Instant> {
        self.next.map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_follow_each_other_with_growing_pauses_until_no_frame_waits() {
        let mut retry = TxRetry::default();
        let mut now = Instant::from_nanos(7);
        retry.record(now, false);
        assert_eq!(retry.at(), None);
        for _ in 0..2 {
            for micros in [50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000] {
                let at = now.after(Duration::from_micros(micros));
                retry.record(now, true);
                assert_eq!(retry.at(), Some(at));
                retry.record(now.after(Duration::from_micros(micros - 1)), true);
                assert_eq!(retry.at(), Some(at), "it is not put off");
                now = at;
            }
            retry.record(now, false);
            assert_eq!(retry.at(), None);
        }
    }

    #[test]
    fn the_rest_of_a_long_burst_is_due_at_once_and_then_after_the_least_pause() {
        let mut retry = TxRetry::default();
        let now = Instant::from_nanos(7);
        retry.at_once(now);
        assert_eq!(retry.at(), Some(now));
        retry.record(now, true);
        assert_eq!(retry.at(), Some(now.after(PAUSE_MIN)));
    }
}
