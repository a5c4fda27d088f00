// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monotonic clock, on which all engines and ports of a process run.
//!
//! In: nothing. Out: the time. Caller: the provider, once in each of its calls; the data path takes
//! the time as an argument. Bound: one call of the vDSO, without the C library's function around it
//! (vdso(7)).

use ofi_xdp_core::Instant;
use rustix::time::{ClockId, clock_gettime};

/// The time of `CLOCK_MONOTONIC` (`clock_gettime(2)`).
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
#[inline]
#[must_use]
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    Instant::from_nanos(seconds.wrapping_add(time.tv_nsec.cast_unsigned()))
}
