// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving way: a thread that polls for what is not there lets others have the processor.
//!
//! What comes in: every look for packets in a call of a thread, with its time and whether any
//! moved, and every read of a queue or a counter, with whether it found anything new. What goes
//! out: a call of `sched_yield(2)` by who has looked in vain for [`PATIENCE`]. Where nobody else
//! wants the core, that costs a third of a microsecond; where more processes poll than there are
//! cores, each would otherwise use up its time slice, some milliseconds, before the one with the
//! answer may run.
//!
//! Who else wants the core may also be one that computes, and never gives it back before its slice
//! is over. A thread that was away for [`LONG`] has more patience for a while ([`PATIENT`]): more
//! than a round trip takes, so that a conversation goes on beside such a neighbour, and so little
//! that many who are patient with each other do not take each other for one.
//!
//! Counted for each thread, and by what moves rather than by what is read: who moves a long
//! message, or has several queues of which one is busy, is not idle. Bounds: no state but three
//! words of each thread.

use std::cell::Cell;
use std::time::Duration;

use ofi_xdp_core::Instant;

use crate::progress::now;

/// About as long as two switches to another process take: by then waiting has cost at most twice
/// what giving way at once would have (Karlin et al., "Empirical studies of competitive spinning
/// for a shared-memory multiprocessor", SOSP 1991).
const PATIENCE: Duration = Duration::from_micros(5);
/// The same beside a neighbour that computes.
const PATIENT: Duration = Duration::from_micros(50);
/// Longest that one look counts, where an empty kernel socket takes as long to look at. Between
/// looks that are further apart than [`PATIENCE`] the thread did something else.
const LOOK_MAX: Duration = Duration::from_micros(1);
/// An absence that no polling neighbours cause: slices are longer, and twenty who keep the core for
/// [`PATIENT`] each take no longer.
const LONG: Duration = Duration::from_millis(1);
/// For how many times its absence a thread is patient, and how much of it counts at most: a process
/// may have been stopped.
const PATIENT_TIMES: u32 = 8;
const ABSENCE_MAX: Duration = Duration::from_millis(10);

/// How a thread waits.
#[derive(Debug)]
struct Idle {
    /// When it looked last.
    looked: Cell<Instant>,
    /// How long it has looked in vain.
    time: Cell<Duration>,
    patient_until: Cell<Instant>,
}

thread_local! {
    static THREAD: Idle = const { Idle::new() };
}

/// The thread looked for packets at `now`; `moved`: some came, or went.
#[inline]
pub(crate) fn looked(now: Instant, moved: bool) {
    THREAD.with(|idle| idle.looked(now, moved));
}

/// The application read, and found something.
#[inline]
pub(crate) fn found() {
    THREAD.with(|idle| idle.time.set(Duration::ZERO));
}

/// The application read, and found nothing new. Called with no lock held.
#[inline]
pub(crate) fn found_nothing() {
    THREAD.with(|idle| {
        if idle.time.get() >= PATIENCE {
            idle.give_way();
        }
    });
}

impl Idle {
    const fn new() -> Self {
        let never = Instant::ZERO;
        Self {
            looked: Cell::new(never),
            time: Cell::new(Duration::ZERO),
            patient_until: Cell::new(never),
        }
    }

    #[inline]
    fn looked(&self, now: Instant, moved: bool) {
        let gap = now.since(self.looked.replace(now));
        self.time.set(match self.time.get() {
            _ if moved => Duration::ZERO,
            _ if gap > PATIENCE => LOOK_MAX,
            time => time.saturating_add(gap.min(LOOK_MAX)),
        });
    }

    /// Gives way if the thread's patience is at an end.
    #[cold]
    fn give_way(&self) {
        if self.is_due() {
            std::thread::yield_now();
            self.returned(now());
        }
    }

    fn is_due(&self) -> bool {
        let patient = self.looked.get() < self.patient_until.get();
        self.time.get() >= if patient { PATIENT } else { PATIENCE }
    }

    /// The thread has the processor again, at `back`, that it gave away after its last look.
    fn returned(&self, back: Instant) {
        self.time.set(Duration::ZERO);
        let away = back.since(self.looked.get());
        if away >= LONG {
            self.patient_until.set(back.after(away.min(ABSENCE_MAX) * PATIENT_TIMES));
        }
    }
}

/// How long this thread has looked in vain.
#[cfg(test)]
pub(crate) fn idle() -> Duration {
    THREAD.with(|idle| idle.time.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);
    const STEP: Duration = Duration::from_nanos(100);
    const SLICE: Duration = Duration::from_millis(3);

    /// A thread that looked in vain from [`START`] on, so often, [`STEP`] apart.
    fn waiting(looks: u32) -> Idle {
        let idle = Idle::new();
        idle.looked(START, true);
        (1..=looks).for_each(|look| idle.looked(START.after(STEP * look), false));
        idle
    }

    #[test]
    fn who_looks_in_vain_for_long_is_to_give_way() {
        assert!(!waiting(49).is_due());
        let idle = waiting(50);
        assert!(idle.is_due());
        idle.returned(START.after(PATIENCE));
        assert!(!idle.is_due());
    }

    #[test]
    fn who_was_away_for_long_is_patient_for_a_while() {
        for (away, patient) in [
            (LONG / 2, Duration::ZERO),
            (LONG, LONG * PATIENT_TIMES),
            (Duration::from_secs(3600), ABSENCE_MAX * PATIENT_TIMES),
        ] {
            let idle = waiting(50);
            let back = START.after(PATIENCE).after(away);
            idle.returned(back);
            assert_eq!(idle.patient_until.get().since(back), patient, "{away:?}");
            idle.looked(back, true);
            (1..=50).for_each(|look| idle.looked(back.after(STEP * look), false));
            assert_eq!(idle.is_due(), patient.is_zero(), "{away:?}");
            (51..=500).for_each(|look| idle.looked(back.after(STEP * look), false));
            assert!(idle.is_due(), "{away:?}");
        }
    }

    #[test]
    fn time_between_looks_is_not_spent_waiting() {
        let idle = waiting(40);
        let later = START.after(Duration::from_millis(1));
        idle.looked(later, false);
        assert_eq!(idle.time.get(), LOOK_MAX);
        idle.looked(later.after(LOOK_MAX * 2), false);
        assert_eq!(idle.time.get(), LOOK_MAX * 2);
    }

    /// One of several on a core waits until it gives way, or its slice is over; whether it gave
    /// way.
    fn turn(idle: &Idle, gave_way: bool, clock: &mut Instant) -> bool {
        if gave_way {
            idle.returned(*clock);
        }
        let end = clock.after(SLICE);
        while *clock < end {
            *clock = clock.after(STEP);
            idle.looked(*clock, false);
            if idle.is_due() {
                return true;
            }
        }
        false
    }

    #[test]
    fn who_is_patient_makes_no_neighbour_so() {
        for count in [2, 4, 8, 16] {
            let mut threads: Vec<_> = (0..count).map(|_| (Idle::new(), false)).collect();
            // One of them computes for a while, and all the others are away as long.
            let mut clock = START;
            threads.iter_mut().for_each(|(idle, gave)| *gave = turn(idle, *gave, &mut clock));
            clock = clock.after(SLICE);
            let calm = clock.after(Duration::from_millis(100));
            while clock < calm {
                threads.iter_mut().for_each(|(idle, gave)| *gave = turn(idle, *gave, &mut clock));
            }
            let begin = clock;
            threads.iter_mut().for_each(|(idle, gave)| *gave = turn(idle, *gave, &mut clock));
            assert!(clock.since(begin) <= PATIENCE * 2 * count, "{count} on a core");
        }
    }

    #[test]
    fn what_arrives_ends_the_waiting_of_its_thread_alone() {
        looked(START, true);
        looked(START.after(LOOK_MAX), false);
        let elsewhere = || looked(START.after(LOOK_MAX), true);
        assert!(std::thread::spawn(elsewhere).join().is_ok());
        assert_eq!(idle(), LOOK_MAX);
        looked(START.after(LOOK_MAX), true);
        assert_eq!(idle(), Duration::ZERO);
    }
}
