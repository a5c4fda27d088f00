// SPDX-License-Identifier: MIT OR Apache-2.0
//! The monotonic clock, on which all engines and ports of a process run.
//!
//! In: nothing. Out: the time. Caller: the provider, once in each of its calls; the data path takes
//! the time as an argument. Bound: the cycle counter (`cycle_counter.rs`), or one call of the vDSO,
//! without the C library's function around it (vdso(7)).

use ofi_xdp_core::Instant;
use rustix::time::{ClockId, clock_gettime};

use crate::cycle_counter;

/// The time of `CLOCK_MONOTONIC` (`clock_gettime(2)`). A reading may be
/// earlier than the one before, by some tens of nanoseconds.
#[inline]
#[must_use]
pub fn now() -> Instant {
    Instant::from_nanos(cycle_counter::nanos(kernel_clock))
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn kernel_clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = time.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000);
    seconds.wrapping_add(time.tv_nsec.cast_unsigned())
}
