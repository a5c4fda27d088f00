// SPDX-License-Identifier: MIT OR Apache-2.0
//! Spin-then-yield: after polls that find nothing, a thread gives the processor to other threads.
//!
//! In: every poll for packets by a thread, with its time and whether packets moved. Also in: every
//! read of a queue or counter, with whether it found something new. Out: `sched_yield(2)`, after
//! unproductive polls for [`SPIN_LIMIT`]. Bound: three words for each thread.
//!
//! With an idle core, a yield costs a third of a microsecond. With more polling processes than
//! cores, a process that never yields uses up its time slice of some milliseconds. The process with
//! the answer waits for it.
//!
//! The competing thread may be compute-bound and keep the core for its whole time slice. After an
//! absence of [`LONG_PREEMPTION`] a thread therefore spins longer for a while
//! ([`SPIN_LIMIT_CONTENDED`]). That is longer than a round trip: a request and its reply need no
//! yield in between. The limit is small enough that many threads which spin so long do not look
//! like a compute-bound one to each other.
//!
//! The time is counted by thread. It ends when packets move rather than when a read succeeds. A
//! thread that moves a long message is not idle, nor is one that reads several queues of which one
//! is busy.

use std::cell::Cell;
use std::time::Duration;

use ofi_xdp_core::Instant;

use crate::sys::clock::now;

/// Spinning before a yield: about the time of two context switches. Spinning so long costs at most
/// twice an immediate yield (Karlin et al., "Empirical studies of competitive spinning
/// for a shared-memory multiprocessor", SOSP 1991).
const SPIN_LIMIT: Duration = Duration::from_micros(5);
/// Spinning before a yield beside a compute-bound thread.
const SPIN_LIMIT_CONTENDED: Duration = Duration::from_micros(50);
/// Most time that one poll counts: an empty kernel socket takes as long to read. Between polls
/// that are more than [`SPIN_LIMIT`] apart the thread did other work.
const POLL_TIME_MAX: Duration = Duration::from_micros(1);
/// Shortest absence that polling threads do not cause: twenty of them, each spinning for
/// [`SPIN_LIMIT_CONTENDED`], take no longer. Time slices are longer.
const LONG_PREEMPTION: Duration = Duration::from_millis(1);
/// The longer spin limit holds for this many times the absence.
const CONTENDED_FACTOR: u32 = 8;
/// Longest absence that counts: a process may have been stopped.
const PREEMPTION_MAX: Duration = Duration::from_millis(10);

/// The state of a thread.
#[derive(Debug)]
struct SpinYield {
    /// Time of the last poll.
    last_poll: Cell<Instant>,
    /// Time since polls last found something.
    unproductive: Cell<Duration>,
    contended_until: Cell<Instant>,
}

thread_local! {
    static THREAD: SpinYield = const { SpinYield::new() };
}

/// Records a poll for packets at `now`; `moved`: packets came or went.
#[inline]
pub(crate) fn polled(now: Instant, moved: bool) {
    THREAD.with(|state| state.polled(now, moved));
}

/// Records a read that found something.
#[inline]
pub(crate) fn found() {
    THREAD.with(|state| state.unproductive.set(Duration::ZERO));
}

/// Records a read that found nothing new; may yield, so no lock may be held.
#[inline]
pub(crate) fn found_nothing() {
    THREAD.with(|state| {
        if state.unproductive.get() >= SPIN_LIMIT {
            state.yield_cpu();
        }
    });
}

impl SpinYield {
    const fn new() -> Self {
        let never = Instant::ZERO;
        Self {
            last_poll: Cell::new(never),
            unproductive: Cell::new(Duration::ZERO),
            contended_until: Cell::new(never),
        }
    }

    #[inline]
    fn polled(&self, now: Instant, moved: bool) {
        let gap = now.since(self.last_poll.replace(now));
        self.unproductive.set(match self.unproductive.get() {
            _ if moved => Duration::ZERO,
            _ if gap > SPIN_LIMIT => POLL_TIME_MAX,
            time => time.saturating_add(gap.min(POLL_TIME_MAX)),
        });
    }

    /// Yields if the spin limit is reached.
    #[cold]
    fn yield_cpu(&self) {
        if self.is_due() {
            std::thread::yield_now();
            self.returned(now());
        }
    }

    fn is_due(&self) -> bool {
        let contended = self.last_poll.get() < self.contended_until.get();
        self.unproductive.get() >= if contended { SPIN_LIMIT_CONTENDED } else { SPIN_LIMIT }
    }

    /// Records the return from a yield at `back`.
    fn returned(&self, back: Instant) {
        self.unproductive.set(Duration::ZERO);
        let away = back.since(self.last_poll.get());
        if away >= LONG_PREEMPTION {
            self.contended_until.set(back.after(away.min(PREEMPTION_MAX) * CONTENDED_FACTOR));
        }
    }
}

/// Time since this thread's polls last found something.
#[cfg(test)]
pub(crate) fn unproductive() -> Duration {
    THREAD.with(|state| state.unproductive.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);
    const STEP: Duration = Duration::from_nanos(100);
    const SLICE: Duration = Duration::from_millis(3);

    /// A thread that polled `polls` times without success from [`START`] on, [`STEP`] apart.
    fn waiting(polls: u32) -> SpinYield {
        let state = SpinYield::new();
        state.polled(START, true);
        (1..=polls).for_each(|poll| state.polled(START.after(STEP * poll), false));
        state
    }

    #[test]
    fn a_thread_yields_after_the_spin_limit() {
        assert!(!waiting(49).is_due());
        let state = waiting(50);
        assert!(state.is_due());
        state.returned(START.after(SPIN_LIMIT));
        assert!(!state.is_due());
    }

    #[test]
    fn a_long_preemption_raises_the_spin_limit_for_a_while() {
        for (away, contended) in [
            (LONG_PREEMPTION / 2, Duration::ZERO),
            (LONG_PREEMPTION, LONG_PREEMPTION * CONTENDED_FACTOR),
            (Duration::from_secs(3600), PREEMPTION_MAX * CONTENDED_FACTOR),
        ] {
            let state = waiting(50);
            let back = START.after(SPIN_LIMIT).after(away);
            state.returned(back);
            assert_eq!(state.contended_until.get().since(back), contended, "{away:?}");
            state.polled(back, true);
            (1..=50).for_each(|poll| state.polled(back.after(STEP * poll), false));
            assert_eq!(state.is_due(), contended.is_zero(), "{away:?}");
            (51..=500).for_each(|poll| state.polled(back.after(STEP * poll), false));
            assert!(state.is_due(), "{away:?}");
        }
    }

    #[test]
    fn time_between_polls_is_not_unproductive() {
        let state = waiting(40);
        let later = START.after(Duration::from_millis(1));
        state.polled(later, false);
        assert_eq!(state.unproductive.get(), POLL_TIME_MAX);
        state.polled(later.after(POLL_TIME_MAX * 2), false);
        assert_eq!(state.unproductive.get(), POLL_TIME_MAX * 2);
    }

    /// One of several threads on a core spins until it yields or its slice ends; returns whether it
    /// yielded.
    fn slice(state: &SpinYield, yielded: bool, clock: &mut Instant) -> bool {
        if yielded {
            state.returned(*clock);
        }
        let end = clock.after(SLICE);
        while *clock < end {
            *clock = clock.after(STEP);
            state.polled(*clock, false);
            if state.is_due() {
                return true;
            }
        }
        false
    }

    #[test]
    fn long_spins_do_not_raise_the_limit_of_others() {
        for count in [2, 4, 8, 16] {
            let mut threads: Vec<_> = (0..count).map(|_| (SpinYield::new(), false)).collect();
            // One thread computes for a slice, and all others are away as long.
            let mut clock = START;
            threads
                .iter_mut()
                .for_each(|(state, yielded)| *yielded = slice(state, *yielded, &mut clock));
            clock = clock.after(SLICE);
            let steady = clock.after(Duration::from_millis(100));
            while clock < steady {
                threads
                    .iter_mut()
                    .for_each(|(state, yielded)| *yielded = slice(state, *yielded, &mut clock));
            }
            let begin = clock;
            threads
                .iter_mut()
                .for_each(|(state, yielded)| *yielded = slice(state, *yielded, &mut clock));
            assert!(clock.since(begin) <= SPIN_LIMIT * 2 * count, "{count} on a core");
        }
    }

    #[test]
    fn a_packet_ends_the_waiting_of_its_own_thread_only() {
        polled(START, true);
        polled(START.after(POLL_TIME_MAX), false);
        let elsewhere = || polled(START.after(POLL_TIME_MAX), true);
        assert!(std::thread::spawn(elsewhere).join().is_ok());
        assert_eq!(unproductive(), POLL_TIME_MAX);
        polled(START.after(POLL_TIME_MAX), true);
        assert_eq!(unproductive(), Duration::ZERO);
    }
}
