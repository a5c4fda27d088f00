// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock: every call of the provider reads it once, by [`now`], and passes the time on. The
//! progress thread reads its processor time here too.

use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use ofi_xdp_core::Instant;
pub(crate) use ofi_xdp_datapath::now;

/// The processor time of the calling thread. A system call.
pub(crate) fn thread_cpu_time() -> Duration {
    cpu_time(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time of `thread` of this process, up to now also if it runs; 0 if it has ended. A
/// system call.
pub(crate) fn cpu_time_of(thread: u32) -> Duration {
    // The kernel's name of the clock: `make_thread_cpuclock`, `CPUCLOCK_SCHED`
    // (include/linux/posix-timers_types.h).
    cpu_time(ClockId::from_raw((!thread.cast_signed() << 3) | 6))
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
fn cpu_time(clock: ClockId) -> Duration {
    Duration::from(clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0)))
}

/// The earlier of two times; `None` is never.
pub(crate) fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    a.into_iter().chain(b).min()
}
