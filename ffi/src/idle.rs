// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving way: a thread that polls for what is not there lets others have the processor.
//!
//! What comes in: every look for packets in a call of a thread, with its time and whether any moved,
//! and every read of a queue or a counter that found nothing new. What goes out: a call of
//! `sched_yield(2)` by who has looked in vain for [`PATIENCE`]. Where nobody else wants the core,
//! that costs a third of a microsecond; where more processes poll than there are cores, each would
//! otherwise use up its time slice, some milliseconds, before the one with the answer may run. Who
//! else wants the core may also be one that computes, and never gives it back before its slice is
//! over: a thread that was away for [`LONG`] keeps what it has for [`KEEPS`] times as long, so such
//! a neighbour gets a ninth of its time at most beyond what the scheduler finds fair.
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
/// for a shared-memory multiprocessor", SOSP 1991). Longer than a round trip on a good network.
const PATIENCE: Duration = Duration::from_micros(5);
/// Longest that one look counts: who computes between two of them was not waiting meanwhile. An
/// empty kernel socket takes as long to look at.
const LOOK_MAX: Duration = Duration::from_micros(1);
/// An absence that no polling neighbour causes: each of these keeps the core for [`PATIENCE`] and
/// what it has to do.
const LONG: Duration = Duration::from_micros(500);
/// For how many times such an absence the thread gives way to nobody.
const KEEPS: u32 = 8;

thread_local! {
    /// When the thread looked last.
    static LOOKED: Cell<Instant> = const { Cell::new(Instant::ZERO) };
    /// How long it has looked in vain.
    static IDLE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// Until when it gives way to nobody.
    static KEEPS_UNTIL: Cell<Instant> = const { Cell::new(Instant::ZERO) };
}

/// The thread looked for packets at `now`; `moved`: some came, or went.
#[inline]
pub(crate) fn looked(now: Instant, moved: bool) {
    let idle = if moved {
        Duration::ZERO
    } else {
        IDLE.get().saturating_add(now.since(LOOKED.get()).min(LOOK_MAX))
    };
    IDLE.set(idle);
    LOOKED.set(now);
}

/// The application read, and found nothing new. Called with no lock held.
#[inline]
pub(crate) fn found_nothing() {
    if IDLE.get() >= PATIENCE {
        give_way();
    }
}

#[cold]
fn give_way() {
    IDLE.set(Duration::ZERO);
    let left = LOOKED.get();
    if left >= KEEPS_UNTIL.get() {
        std::thread::yield_now();
        returned(left, now());
    }
}

/// The thread has the processor again, at `back`, that it gave away at `left`.
fn returned(left: Instant, back: Instant) {
    let away = back.since(left);
    if away >= LONG {
        KEEPS_UNTIL.set(back.after(away.saturating_mul(KEEPS)));
    }
}

/// How long this thread has looked in vain.
#[cfg(test)]
pub(crate) fn idle() -> Duration {
    IDLE.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000);

    #[test]
    fn who_looks_in_vain_for_long_gives_way_and_begins_anew() {
        looked(START, true);
        let step = Duration::from_nanos(100);
        // 49 looks are not yet enough.
        let last = (1..50).fold(START, |time, _| {
            looked(time.after(step), false);
            found_nothing();
            time.after(step)
        });
        assert_eq!(idle(), step * 49);
        looked(last.after(step), false);
        assert_eq!(idle(), PATIENCE);
        found_nothing();
        assert_eq!(idle(), Duration::ZERO);
    }

    #[test]
    fn who_lost_a_slice_keeps_the_next_ones() {
        let back = START.after(LONG);
        returned(START, START.after(LONG / 2));
        assert_eq!(KEEPS_UNTIL.get(), Instant::ZERO);
        returned(START, back);
        assert_eq!(KEEPS_UNTIL.get(), back.after(LONG * KEEPS));
    }

    #[test]
    fn time_between_looks_is_not_spent_waiting() {
        looked(START, true);
        looked(START.after(Duration::from_secs(1)), false);
        assert_eq!(idle(), LOOK_MAX);
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
