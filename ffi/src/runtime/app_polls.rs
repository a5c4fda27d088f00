// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application's polls, for the progress thread.
//!
//! In: the times of the application's polls. Out: whether the application drives the runtime.
//! Callers: the runtime, under its lock. Bound: four words.
//!
//! The time in which a call sends many datagrams is no pause: a burst of 32 may take longer than
//! [`APP_IDLE_LIMIT`]. It is estimated, because a call reads the clock once.

use ofi_xdp_core::Instant;

use crate::sys::limits::APP_IDLE_LIMIT;
use crate::sys::process;

/// Polls of a series that show that the application polls without pause.
const SERIES_MIN: u32 = 16;
/// The time in which a call sends a datagram, at the most: AF_XDP in generic mode takes between one
/// and two microseconds, a kernel socket without a batch up to four.
const SEND_NANOS: u64 = 4_000;
/// [`APP_IDLE_LIMIT`] in nanoseconds.
const PAUSE_NANOS: u64 = APP_IDLE_LIMIT.as_nanos() as u64;

/// The application's *polls*: its calls that receive packets. Polls less than [`APP_IDLE_LIMIT`]
/// apart are a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppPolls {
    /// Time of the last poll.
    pub(crate) last: Instant,
    /// Polls of the present series.
    pub(crate) series: u32,
    /// How many series there were.
    pub(crate) pauses: u32,
    /// The thread that began the present series; 0: none yet.
    pub(crate) thread: u32,
}

impl AppPolls {
    /// Whether the application polls without pause at `now`.
    pub(crate) fn is_polling(&self, now: Instant) -> bool {
        self.series >= SERIES_MIN && now.since(self.last) < APP_IDLE_LIMIT
    }

    /// No poll before `now`.
    pub(super) const fn new(now: Instant) -> Self {
        Self { last: now, series: 0, pauses: 0, thread: 0 }
    }

    /// What a poll that was just recorded shows first: that the application polls without pause, or
    /// that it has paused.
    #[inline]
    pub(super) const fn first_shown(&self) -> Option<bool> {
        match self.series {
            1 => Some(false),
            SERIES_MIN => Some(true),
            _ => None,
        }
    }

    /// Leaves out the time in which the call at `now` has sent `packets`: the application did not
    /// pause.
    #[inline]
    pub(super) fn sent(&mut self, now: Instant, packets: u16) {
        // Posts alone do not pass for polls for longer than the last one took.
        self.last = self.last.min(now).after_nanos(SEND_NANOS * u64::from(packets));
    }

    /// Records a poll at `now`; returns whether the application was idle before it.
    #[inline]
    pub(super) fn record(&mut self, now: Instant) -> bool {
        let gap = now.as_nanos().saturating_sub(self.last.as_nanos());
        self.last = now;
        if gap < PAUSE_NANOS {
            self.series = self.series.saturating_add(1);
            return false;
        }
        self.series = 1;
        self.pauses = self.pauses.wrapping_add(1);
        self.thread = process::thread_id();
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_of_a_long_burst_is_no_pause() {
        let begin = Instant::from_nanos(1_000_000_000);
        let mut polls = AppPolls::new(begin);
        let packets = 50;
        let burst = Duration::from_nanos(SEND_NANOS * u64::from(packets));
        assert!(burst > APP_IDLE_LIMIT);
        let mut time = begin;
        for _ in 0..SERIES_MIN {
            assert!(!polls.record(time));
            polls.sent(time, packets);
            time = time.after(burst + APP_IDLE_LIMIT / 2);
            assert!(polls.last < time);
        }
        assert_eq!((polls.is_polling(time), polls.pauses), (true, 0));
        assert!(polls.record(time.after(APP_IDLE_LIMIT / 2)), "a pause after a burst is one");
    }

    #[test]
    fn posts_alone_are_no_polls_for_longer_than_the_last_one_took() {
        let begin = Instant::from_nanos(1_000_000_000);
        let mut polls = AppPolls::new(begin);
        (0..1000).for_each(|_| polls.sent(begin, 10));
        assert_eq!(polls.last, begin.after_nanos(10 * SEND_NANOS));
    }
}
