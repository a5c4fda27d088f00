// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock: every call of the provider reads it here, once, and passes the time on.
//! The progress thread reads its processor time here too.

use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use ofi_xdp_core::Instant;

/// The time of the monotonic clock, which all engines of this process use.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
#[inline]
pub(crate) fn now() -> Instant {
    // The clock always exists (clock_gettime(2)); without it, time would stand still.
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(TimeSpec::new(0, 0));
    let seconds = time.tv_sec().cast_unsigned().wrapping_mul(1_000_000_000);
    Instant::from_nanos(seconds.wrapping_add(time.tv_nsec().cast_unsigned()))
}

/// The processor time of the calling thread. A system call.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn thread_cpu_time() -> Duration {
    // The clock always exists; without it, the thread would have used no time.
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(TimeSpec::new(0, 0));
    Duration::from(time)
}

/// The earlier of two times; `None` is never.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}
