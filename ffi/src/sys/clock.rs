// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock: every call of the provider reads it once, by [`now`], and passes the time on. The
//! progress thread reads its processor time here too.

use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use ofi_xdp_core::Instant;
pub(crate) use ofi_xdp_datapath::now;

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
