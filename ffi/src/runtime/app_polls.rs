// SPDX-License-Identifier: MIT OR Apache-2.0
//! The application's polls, for the progress thread.
//!
//! In: the times of the application's polls. Out: whether the application drives the runtime.
//! Callers: the runtime, under its lock. Bound: four words.

use ofi_xdp_core::Instant;

use crate::sys::limits::APP_IDLE_LIMIT;
use crate::sys::process;

/// Polls of a series that show that the application polls without pause.
const SERIES_MIN: u32 = 16;
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
