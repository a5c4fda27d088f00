// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that have announced a sleep on a counter's descriptor (`fi_trywait`).
//!
//! In: calls of `fi_trywait`, and reads. Out: whether a thread may sleep on the present values;
//! whether a thread is away, that is, has not called since it announced its sleep. A value is for
//! every thread, so the signal of the descriptor stays on until each of them is back, for
//! [`AWAY_MAX`] at most: a thread that sleeps has run by then, and others have ended. Bound: the
//! application's threads.

use std::time::Duration;

use ofi_xdp_core::Instant;

use super::CounterValues;
use crate::sys::errno::Error;
use crate::sys::memory::push;
use crate::wait::waker::{this_thread, thread_number};

/// The longest time for which the signal stays on for a thread that does not come back.
const AWAY_MAX: Duration = Duration::from_secs(1);

/// A thread that has called `fi_trywait`.
#[derive(Clone, Copy, Debug, Default)]
struct Announcer {
    thread: usize,
    number: u64,
    /// The values that it has read.
    seen: CounterValues,
    /// The values for which it was notified not to sleep.
    notified: CounterValues,
    is_away: bool,
    /// When the signal stayed on for it first.
    kept_since: Option<Instant>,
}

impl Announcer {
    /// The calling thread.
    fn this() -> Self {
        Self { thread: this_thread(), number: thread_number(), ..Self::default() }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Announcers(Vec<Announcer>);

impl Announcers {
    /// The calling thread announces a sleep, and is away.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn announce(&mut self) -> Result<(), Error> {
        if let Some(own) = self.own() {
            (own.is_away, own.kept_since) = (true, None);
            return Ok(());
        }
        push(&mut self.0, Announcer { is_away: true, ..Announcer::this() })
    }

    /// The calling thread is back. Returns whether it was the only one that was away.
    pub(super) fn come_back(&mut self) -> bool {
        let was_away = self.own().is_some_and(|own| std::mem::take(&mut own.is_away));
        was_away && !self.0.iter().any(|it| it.is_away)
    }

    /// Whether the signal stays on at `now`, for another thread than the calling one.
    pub(super) fn keep_signal(&mut self, now: impl FnOnce() -> Instant) -> bool {
        let mut others = self.0.iter_mut().filter(|it| it.is_away && it.thread != this_thread());
        let Some(first) = others.next() else { return false };
        let now = now();
        let mut is_kept = false;
        for other in std::iter::once(first).chain(others) {
            other.is_away = now.since(*other.kept_since.get_or_insert(now)) < AWAY_MAX;
            is_kept |= other.is_away;
        }
        is_kept
    }

    /// Whether the calling thread, which has announced a sleep, may sleep on `values`: it has read
    /// them, or was notified of them and some thread has read them, as `read` says. The number
    /// of errors is seen once it was reported: applications may not read it.
    pub(super) fn may_sleep(&mut self, values: CounterValues, read: CounterValues) -> bool {
        self.own().is_some_and(|own| {
            let may_sleep = own.seen == values || (own.notified == values && read == values);
            (own.notified, own.seen.failed) = (values, values.failed);
            may_sleep
        })
    }

    /// The values that the calling thread has read, if it has called `fi_trywait`.
    #[inline]
    pub(super) fn seen(&mut self) -> Option<&mut CounterValues> {
        self.own().map(|own| &mut own.seen)
    }

    /// The calling thread. An earlier one may have had its name.
    #[inline]
    fn own(&mut self) -> Option<&mut Announcer> {
        let own = self.0.iter_mut().find(|it| it.thread == this_thread())?;
        if own.number != thread_number() {
            *own = Announcer::this();
        }
        Some(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: CounterValues = CounterValues { done: 1, failed: 0 };
    const NOW: Instant = Instant::from_nanos(7);

    #[test]
    fn a_thread_that_was_notified_may_sleep_once_another_one_has_read() {
        let mut announcers = Announcers::default();
        announcers.announce().unwrap();
        let none = CounterValues::default();
        assert!(announcers.may_sleep(none, none));
        assert!(!announcers.may_sleep(ONE, none), "it is notified");
        assert!(!announcers.may_sleep(ONE, none), "no thread has read it");
        assert!(announcers.may_sleep(ONE, ONE));
    }

    #[test]
    fn a_value_that_was_read_before_the_notification_counts() {
        let mut announcers = Announcers::default();
        announcers.announce().unwrap();
        assert!(!announcers.may_sleep(ONE, ONE));
        assert!(announcers.may_sleep(ONE, ONE));
    }

    #[test]
    fn the_signal_stays_on_for_a_thread_that_never_comes_back_for_a_second() {
        let mut announcers = Announcers::default();
        let other = Announcer { thread: 1, number: 0, is_away: true, ..Announcer::default() };
        announcers.0.push(other);
        assert!(announcers.keep_signal(|| NOW));
        assert!(announcers.keep_signal(|| NOW.after(AWAY_MAX / 2)));
        assert!(!announcers.keep_signal(|| NOW.after(AWAY_MAX)));
        assert!(!announcers.keep_signal(|| NOW), "it counts as back");
    }

    #[test]
    fn a_thread_with_the_name_of_an_earlier_one_has_read_nothing() {
        let mut announcers = Announcers::default();
        let earlier = Announcer { seen: ONE, number: 0, is_away: true, ..Announcer::this() };
        announcers.0.push(earlier);
        assert!(!announcers.come_back(), "the earlier one was away");
        announcers.announce().unwrap();
        assert!(!announcers.may_sleep(ONE, CounterValues::default()));
    }
}
