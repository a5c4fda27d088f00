// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the application's threads compete with others for cores.
//!
//! In: how long the polling thread has waited for a core, by the kernel's account, and whether it
//! does so now. Out: whether it waits for a good part of the time, which leaves out waits for the
//! progress thread itself; whether a pause is such a wait. Caller: the progress thread, at its
//! turns. Bound: one sample each [`SAMPLE_INTERVAL`]; a look at a pause, and none at the next
//! [`SKIPPED_MAX`] where pauses are true ones.
//!
//! A polling thread without a core looks like one that pauses. A progress thread that takes over
//! then is one more thread without a core, and each packet costs another switch. Where all cores
//! are taken by polling threads, the progress threads of two peers keep each other's application
//! off its core, for as long as they exchange packets.

use std::time::Duration;

use ofi_xdp_core::Instant;

use crate::runtime::app_polls::AppPolls;
use crate::runtime::progress::Observation;
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
/// How long an application that has polled without pause may lack a core. Others pause: those that
/// sleep between polls, or compute.
const POLLING_MEMORY: Duration = Duration::from_millis(100);

/// Whether the application's polling thread has a core when it is ready to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CoreShare {
    /// As far as it is known.
    Free,
    /// It has polled without pause, and waits for a core now.
    Lacking,
    /// It has waited for a core for a good part of the time.
    Contended,
}

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
    core_check: CoreCheck,
    /// The last observation of an application that polled without pause.
    polled_at: Instant,
}

impl Contention {
    /// Nothing is known.
    pub(super) const fn new() -> Self {
        let zero = Duration::ZERO;
        let last = Sample { at: Instant::ZERO, thread: 0, waited: zero, own: zero };
        let core_check = CoreCheck::new();
        Self { last, until: Instant::ZERO, core_check, polled_at: Instant::ZERO }
    }

    /// Whether the polling thread has a core, for an observation at `now`.
    pub(super) fn observe(&mut self, now: Instant, seen: &Observation) -> CoreShare {
        let thread = seen.polls.thread;
        if now.since(self.last.at) >= SAMPLE_INTERVAL {
            let waited = process::core_wait(thread).unwrap_or_default();
            self.update(Sample { at: now, thread, waited, own: thread_cpu_time() });
        }
        if seen.is_polling(now) {
            self.polled_at = now;
        }
        let may_lack = now.since(self.polled_at) < POLLING_MEMORY && seen.has_stopped_polling(now);
        if now < self.until {
            CoreShare::Contended
        } else if may_lack && self.core_check.lacks_core(&seen.polls) {
            CoreShare::Lacking
        } else {
            CoreShare::Free
        }
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

/// Most pauses without a look.
const SKIPPED_MAX: u32 = 64;

/// Which pauses of the application are looked at. A look at a thread that sleeps takes ten
/// microseconds. An application that pauses all the time is looked at less and less.
#[derive(Debug)]
struct CoreCheck {
    /// The first pause that is looked at.
    from: u32,
    /// Pauses from the last look to that one.
    step: u32,
}

impl CoreCheck {
    /// Looks at the first pause.
    const fn new() -> Self {
        Self { from: 0, step: 0 }
    }

    /// Whether the application pauses for want of a core, as far as it is looked at.
    fn lacks_core(&mut self, polls: &AppPolls) -> bool {
        if !self.is_due(polls.pauses) {
            return false;
        }
        let lacks = process::lacks_core(polls.thread);
        self.record(polls.pauses, lacks);
        lacks
    }

    /// Whether the pause after so many others is looked at.
    const fn is_due(&self, pauses: u32) -> bool {
        pauses.wrapping_sub(self.from) <= u32::MAX / 2
    }

    fn record(&mut self, pauses: u32, lacks: bool) {
        self.step = if lacks { 0 } else { (2 * self.step).clamp(1, SKIPPED_MAX) };
        self.from = pauses.wrapping_add(self.step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::process::tests::beside_a_thread_that_computes;

    #[test]
    fn pauses_are_looked_at_less_and_less_while_no_core_is_lacking() {
        let mut check = CoreCheck::new();
        let mut pauses = u32::MAX - 20;
        check.record(pauses, true);
        for skipped in [0, 1, 3, 7, 15, 31, 63, 63] {
            assert!(check.is_due(pauses));
            check.record(pauses, false);
            assert!(!check.is_due(pauses), "once");
            for _ in 0..skipped {
                pauses = pauses.wrapping_add(1);
                assert!(!check.is_due(pauses));
            }
            pauses = pauses.wrapping_add(1);
        }
        check.record(pauses, true);
        assert!(check.is_due(pauses) && check.is_due(pauses.wrapping_add(1)));
        check.record(pauses, false);
        assert!(check.is_due(pauses.wrapping_add(1)));
    }

    #[test]
    fn a_thread_that_never_polled_without_pause_does_not_lack_a_core() {
        beside_a_thread_that_computes(|thread| {
            let mut contention = Contention::new();
            let mut observe = |after: Duration, idle: Duration, series| {
                let now = START.after(after);
                let last = START.after(after - idle);
                let polls = AppPolls { last, series, pauses: 1, thread };
                let seen = Observation {
                    polls,
                    sleeps: false,
                    announced: false,
                    overdue: false,
                    suspended: false,
                    packets: 0,
                };
                contention.observe(now, &seen)
            };
            let (pause, soon) = (Duration::from_micros(100), Duration::from_millis(1));
            assert_eq!(observe(soon, pause, 1), CoreShare::Free);
            assert_eq!(observe(2 * soon, Duration::ZERO, 16), CoreShare::Free);
            let shares = [3, 4, 5].map(|time| observe(time * soon, pause, 1));
            assert!(shares.contains(&CoreShare::Lacking), "{shares:?}");
            let late = 2 * soon + POLLING_MEMORY;
            assert_eq!(observe(late, pause, 1), CoreShare::Free);
        });
    }

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
