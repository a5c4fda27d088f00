// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the application's threads compete with others for cores.
//!
//! In: how long the polling thread has waited for a core, by the kernel's account. Out: whether it
//! waits for a good part of the time. Waits for the progress thread itself do not count. Caller:
//! the progress thread, at its turns. Bound: one sample each [`SAMPLE_INTERVAL`].
//!
//! A polling thread without a core looks like one that pauses. A progress thread that takes over
//! then is one more thread without a core, and each packet costs another switch.

use std::time::Duration;

use ofi_xdp_core::Instant;

use crate::sys::clock::thread_cpu_time;
use crate::sys::process;

/// Shortest time between two samples, each of some system calls.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);
/// Threads compete when one of them waits for this part of the time.
const WAIT_PART: u32 = 4;
/// The longest wait behind one time slice. A wait counts when it ends, the progress thread's time
/// at once. So a wait may count in another sample than the slice that caused it.
const SLICE_MAX: Duration = Duration::from_millis(4);
const _: () = assert!(
    SAMPLE_INTERVAL.as_nanos() > SLICE_MAX.saturating_mul(WAIT_PART).as_nanos(),
    "a single wait is no contention"
);
/// How long a contended sample counts.
const MEMORY: Duration = Duration::from_millis(100);

/// The kernel's account of a thread at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// The polling thread.
    thread: u32,
    /// How long it has waited for a core, ever.
    waited: Duration,
    /// Processor time of the progress thread, ever.
    own: Duration,
}

/// The last sample of the polling thread, and how long its result counts.
#[derive(Debug)]
pub(super) struct Contention {
    last: Sample,
    until: Instant,
}

impl Contention {
    /// Nothing is known.
    pub(super) const fn new() -> Self {
        let zero = Duration::ZERO;
        let last = Sample { at: Instant::ZERO, thread: 0, waited: zero, own: zero };
        Self { last, until: Instant::ZERO }
    }

    /// Whether `thread`, which polls, competes for its core at `now`.
    pub(super) fn observe(&mut self, thread: u32, now: Instant) -> bool {
        if now.since(self.last.at) >= SAMPLE_INTERVAL {
            let waited = process::core_wait(thread).unwrap_or_default();
            self.update(Sample { at: now, thread, waited, own: thread_cpu_time() });
        }
        now < self.until
    }

    fn update(&mut self, sample: Sample) {
        let last = std::mem::replace(&mut self.last, sample);
        let others = sample.waited.saturating_sub(last.waited);
        let others = others.saturating_sub(sample.own.saturating_sub(last.own));
        if sample.thread == last.thread && others * WAIT_PART >= sample.at.since(last.at) {
            self.until = sample.at.after(MEMORY);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);
    const STEP: Duration = Duration::from_millis(4);

    /// After a step in which the polling thread waited for `waited`, and the progress thread ran
    /// for `own`.
    fn contended(waited: Duration, own: Duration, thread: u32) -> bool {
        let mut contention = Contention::new();
        let first = Sample { at: START, thread: 7, waited: STEP * 99, own: STEP };
        contention.update(first);
        let (at, waited) = (START.after(STEP), first.waited + waited);
        contention.update(Sample { at, thread, waited, own: first.own + own });
        START.after(STEP) < contention.until
    }

    #[test]
    fn waits_for_other_threads_count() {
        assert!(contended(STEP / 2, Duration::ZERO, 7));
        assert!(contended(STEP / 4, Duration::ZERO, 7));
        assert!(!contended(STEP / 5, Duration::ZERO, 7));
        assert!(!contended(STEP / 2, STEP / 2, 7), "it waited for the progress thread");
        assert!(!contended(STEP / 2, Duration::ZERO, 8), "another thread has its own account");
    }
}
