// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waking threads that sleep until something happens on an endpoint.
//!
//! A sleeper *arms* the waker, polls once more, stores until when it will sleep, and waits for the
//! descriptor, among others. A producer (of a completion for the sleeper's queue, of a timer
//! earlier than the end of the sleep) wakes it. The endpoint's lock, which both take in between,
//! orders the two: either the sleeper finds the event, or the producer finds the waker armed.
//! Without sleepers a producer pays one load.
//!
//! An application to which the descriptor was *exported* may sleep on it without arming. An event
//! that another thread produces for it (mostly the progress thread) *signals* the descriptor. It
//! then stays readable until the application comes back and polls. `fi_trywait` *announces* a
//! sleep. Producers treat an announced sleep like an armed waker, but whether the application does
//! sleep, and for how long, is not known.
//!
//! An announced sleep is that of its thread. When another thread reads, the sleep is *displaced*:
//! the application is awake, but a thread of it may still sleep. Reads then leave the signal on,
//! until the sleeper is back or some thread announces a sleep. While a thread is armed, it alone
//! clears the signal, before its last poll: it may not have run since the signal.

use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use ofi_xdp_core::Instant;

use crate::sys::errno::Error;

/// Not signaled since the application came back.
const CLEAR: u8 = 0;
/// The descriptor is being made readable, or unreadable. A producer has nothing to do meanwhile:
/// either the descriptor becomes readable, or the application polls afterwards.
const CHANGING: u8 = 1;
/// The descriptor is readable.
const SIGNALED: u8 = 2;

/// No thread has announced a sleep.
const NONE: usize = 0;
/// More than one thread has announced a sleep.
const SEVERAL: usize = usize::MAX;

thread_local! {
    /// Its address names the thread. The value tells the thread from an earlier one with its name.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// The name of the calling thread, without a system call.
pub(crate) fn this_thread() -> usize {
    THREAD.with(|thread| ptr::from_ref(thread).addr())
}

/// The number of the calling thread, which no other one of the process has or had.
pub(crate) fn thread_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    THREAD.with(|thread| {
        if thread.get() == 0 {
            thread.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        thread.get()
    })
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waker {
    event: EventFd,
    /// The descriptor may be readable: it was written since it was last read. Stored before the
    /// write, so that a sleeper that wakes at once reads the descriptor. Stored again after it,
    /// because a read in between would leave the descriptor readable and this flag cleared.
    written: AtomicBool,
    sleepers: AtomicU32,
    /// The thread that has announced a sleep and is not back, [`NONE`] or [`SEVERAL`].
    announced_by: AtomicUsize,
    /// Another thread has polled since.
    displaced: AtomicBool,
    /// The application has a descriptor that this waker makes readable.
    exported: AtomicBool,
    /// [`CLEAR`], [`CHANGING`] or [`SIGNALED`].
    signaled: AtomicU8,
    /// End of the sleep, in nanoseconds; `u64::MAX`: for ever, or not known.
    until: AtomicU64,
}

impl Waker {
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(crate) fn new() -> Result<Self, Error> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            event,
            written: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            announced_by: AtomicUsize::new(NONE),
            displaced: AtomicBool::new(false),
            exported: AtomicBool::new(false),
            signaled: AtomicU8::new(CLEAR),
            until: AtomicU64::new(u64::MAX),
        })
    }

    /// The descriptor that a wake-up makes readable.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Adds a sleeper. Called before its last poll.
    pub(crate) fn arm(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
    }

    /// Announces a sleep of the calling thread on the descriptor. Called before the last poll on
    /// its behalf. Returns whether a sleep was announced before. The end of an earlier sleep is not
    /// that of this one, so the next timer that is set wakes it.
    pub(crate) fn announce_wait(&self) -> bool {
        self.until.store(u64::MAX, Ordering::Relaxed);
        let this = this_thread();
        let with = |by| if by == NONE || by == this { this } else { SEVERAL };
        let set = |by| Some(with(by));
        let before = self.announced_by.fetch_update(Ordering::Relaxed, Ordering::Relaxed, set);
        self.displaced.store(false, Ordering::Relaxed);
        before != Ok(NONE)
    }

    /// The application is awake: ends an announced sleep of this thread, and displaces that of
    /// another. Returns whether the application was asleep, as far as is known.
    #[inline]
    pub(crate) fn cancel_wait(&self) -> bool {
        self.has_announced() && self.end_announced()
    }

    #[cold]
    fn end_announced(&self) -> bool {
        let (this, relaxed) = (this_thread(), Ordering::Relaxed);
        let is_own = self.announced_by.compare_exchange(this, NONE, relaxed, relaxed).is_ok();
        let was_displaced = self.displaced.swap(!is_own, relaxed);
        let was_asleep = is_own || !was_displaced;
        if was_asleep {
            self.end_sleep();
        }
        was_asleep
    }

    /// Whether a thread has announced a sleep and is not back.
    #[inline]
    fn has_announced(&self) -> bool {
        self.announced_by.load(Ordering::Relaxed) != NONE
    }

    /// Whether the application has announced a sleep, and no thread of it has come back.
    #[inline]
    pub(crate) fn is_wait_announced(&self) -> bool {
        self.has_announced() && !self.displaced.load(Ordering::Relaxed)
    }

    /// Stores the end of the sleep; `None`: for ever.
    pub(crate) fn sleep_until(&self, until: Option<Instant>) {
        self.until.store(until.map_or(u64::MAX, Instant::as_nanos), Ordering::Relaxed);
    }

    /// Records that the application has a descriptor, on which it may sleep without arming. A
    /// wake-up from before becomes a signal, which its next poll clears.
    pub(crate) fn export_fd(&self) {
        // Sequentially consistent, as in `force`: this call or that one finds the other's store.
        if !self.exported.swap(true, Ordering::SeqCst) && self.written.load(Ordering::SeqCst) {
            self.force();
        }
    }

    /// Whether the application may sleep without arming.
    pub(crate) fn is_exported(&self) -> bool {
        self.exported.load(Ordering::Relaxed)
    }

    /// Removes a sleeper, and drains the descriptor. An exported descriptor is drained later, by
    /// [`Self::clear_signal`]: events since the application's last poll must not be missed. The end
    /// of the sleep is not known any more to other sleepers, so the next timer that is set wakes
    /// them. Returns whether a wake-up was drained, which may have been meant for one of them.
    pub(crate) fn disarm(&self) -> bool {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        self.end_sleep()
    }

    fn end_sleep(&self) -> bool {
        self.until.store(u64::MAX, Ordering::Relaxed);
        !self.is_exported() && self.drain()
    }

    /// Makes the descriptor unreadable again; returns whether there was a wake-up. Most sleeps end
    /// with a packet instead, and then this takes no system call.
    pub(crate) fn drain(&self) -> bool {
        let written =
            self.written.load(Ordering::Relaxed) && self.written.swap(false, Ordering::Acquire);
        // Empty already if it was read between the two stores of a producer, which is harmless.
        written && self.event.read().is_ok()
    }

    /// Whether a thread sleeps in a call of this provider, or is about to.
    #[inline]
    pub(crate) fn has_armed(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) != 0
    }

    /// Whether there is a sleeper, armed or announced.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.has_armed() || self.has_announced()
    }

    /// Wakes sleepers.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.has_sleepers() {
            self.force();
        }
    }

    /// As [`Self::wake`], from the one sleeper that is armed.
    pub(crate) fn wake_others(&self) {
        if self.has_announced() {
            self.force();
        }
    }

    /// Wakes sleepers, and the application if it may sleep without arming.
    pub(crate) fn signal_fd(&self) {
        if self.has_sleepers() || self.is_exported() {
            self.force();
        }
    }

    /// Makes a signaled descriptor unreadable: the application is back and polls next. Not so while
    /// another thread may need the signal: a displaced sleeper, or an armed one.
    #[inline]
    pub(crate) fn clear_signal(&self) {
        if self.is_signaled() && !self.has_armed() && !self.displaced.load(Ordering::Relaxed) {
            self.take_signal();
        }
    }

    /// Whether the descriptor was signaled, and is not cleared.
    #[inline]
    pub(crate) fn is_signaled(&self) -> bool {
        self.signaled.load(Ordering::Relaxed) == SIGNALED
    }

    /// Makes a signaled descriptor unreadable for the caller. It polls next, and then wakes those
    /// that may need the signal too. Returns whether it was signaled.
    pub(crate) fn take_signal(&self) -> bool {
        let was_signaled = self.is_signaled() && self.transition(SIGNALED, CHANGING);
        if was_signaled {
            self.drain();
            self.signaled.store(CLEAR, Ordering::Release);
        }
        was_signaled
    }

    fn transition(&self, from: u8, to: u8) -> bool {
        self.signaled.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Wakes sleepers if their sleep ends after `at`.
    #[inline]
    pub(crate) fn wake_before(&self, at: Option<Instant>) {
        if self.has_sleepers()
            && at.is_some_and(|at| at.as_nanos() < self.until.load(Ordering::Relaxed))
        {
            self.force();
        }
    }

    /// Makes the descriptor readable, with or without a sleeper. An exported descriptor stays
    /// readable until [`Self::clear_signal`].
    pub(crate) fn force(&self) {
        let exported = self.is_exported();
        if exported && !self.transition(CLEAR, CHANGING) {
            return;
        }
        self.written.store(true, Ordering::Relaxed);
        // A counter that is full is readable already.
        let _ = self.event.write(1);
        self.written.store(true, Ordering::SeqCst);
        if exported {
            self.signaled.store(SIGNALED, Ordering::Release);
        } else if self.exported.load(Ordering::SeqCst) {
            // Exported meanwhile: a signal, as only such a one is cleared.
            self.force();
        }
    }
}

/// Waits until a descriptor is ready or `timeout` is over (`None`: for ever).
///
/// # Errors
/// [`Error::Interrupted`] by a signal, [`Error::Os`].
pub(crate) fn sleep(
    descriptors: &mut [PollFd<'_>],
    timeout: Option<Duration>,
) -> Result<(), Error> {
    ppoll(descriptors, timeout.map(TimeSpec::from), None)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(waker: &Waker) -> bool {
        let mut descriptors = [PollFd::new(waker.descriptor(), nix::poll::PollFlags::POLLIN)];
        sleep(&mut descriptors, Some(Duration::ZERO)).unwrap();
        descriptors[0].any().unwrap()
    }

    #[test]
    fn only_an_armed_waker_wakes() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(!is_readable(&waker));
        waker.arm();
        waker.wake();
        assert!(is_readable(&waker));
        assert!(waker.disarm(), "a wake-up was drained");
        assert!(!is_readable(&waker));
        waker.arm();
        assert!(!waker.disarm(), "no wake-up");
        waker.arm();
        waker.wake();
        waker.wake();
        assert!(waker.disarm() && !is_readable(&waker), "twice is as good as once");
    }

    #[test]
    fn one_sleeper_leaving_does_not_disarm_the_other() {
        let waker = Waker::new().unwrap();
        waker.arm();
        waker.arm();
        waker.disarm();
        waker.wake();
        assert!(is_readable(&waker));
    }

    #[test]
    fn an_exported_descriptor_is_signaled_until_the_application_is_back() {
        let waker = Waker::new().unwrap();
        waker.signal_fd();
        assert!(!is_readable(&waker), "the descriptor is not exported");
        waker.export_fd();
        waker.wake();
        assert!(!is_readable(&waker), "no sleeper is known");
        for _ in 0..2 {
            waker.signal_fd();
            waker.signal_fd();
            assert!(is_readable(&waker));
            waker.clear_signal();
            assert!(!is_readable(&waker));
        }
    }

    #[test]
    fn an_announced_sleep_is_woken_without_arming() {
        let waker = Waker::new().unwrap();
        assert!(!waker.cancel_wait());
        waker.announce_wait();
        assert!(waker.has_sleepers() && !waker.has_armed());
        waker.wake_before(Some(Instant::from_nanos(100)));
        assert!(is_readable(&waker));
        assert!(waker.cancel_wait() && !waker.cancel_wait());
        assert!(!is_readable(&waker) && !waker.has_sleepers());
    }

    #[test]
    fn the_end_of_an_earlier_sleep_is_not_that_of_a_sleep_that_is_announced() {
        let waker = Waker::new().unwrap();
        waker.announce_wait();
        waker.sleep_until(Some(Instant::from_nanos(100)));
        // The call sleeps again at once, without a read.
        waker.announce_wait();
        waker.wake_before(Some(Instant::from_nanos(200)));
        assert!(is_readable(&waker));
    }

    /// What another thread's read of the queue does.
    fn read_elsewhere(waker: &Waker) {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                waker.cancel_wait();
                waker.clear_signal();
            });
        });
    }

    #[test]
    fn an_announced_sleep_outlives_reads_of_another_thread() {
        let waker = Waker::new().unwrap();
        waker.export_fd();
        for _ in 0..2 {
            waker.announce_wait();
            read_elsewhere(&waker);
            assert!(waker.has_sleepers() && !waker.is_wait_announced());
            waker.wake();
            read_elsewhere(&waker);
            assert!(is_readable(&waker), "the sleeper may not have seen it");
            waker.cancel_wait();
            waker.clear_signal();
            assert!(!is_readable(&waker) && !waker.has_sleepers(), "it is back");
        }
    }

    #[test]
    fn two_announced_sleeps_end_with_no_single_return() {
        let waker = Waker::new().unwrap();
        waker.export_fd();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(!waker.announce_wait(), "the first"));
        });
        assert!(waker.announce_wait());
        waker.cancel_wait();
        waker.wake();
        assert!(is_readable(&waker));
        waker.cancel_wait();
        waker.clear_signal();
        assert!(is_readable(&waker));
        waker.announce_wait();
        waker.clear_signal();
        assert!(!is_readable(&waker) && waker.is_wait_announced(), "it polls before it sleeps");
    }

    #[test]
    fn a_thread_in_a_wait_call_clears_the_signal_of_a_displaced_sleeper() {
        let waker = Waker::new().unwrap();
        waker.export_fd();
        waker.announce_wait();
        read_elsewhere(&waker);
        waker.wake();
        waker.arm();
        assert!(waker.take_signal());
        assert!(!is_readable(&waker), "it could not sleep");
        waker.disarm();
        waker.wake();
        assert!(is_readable(&waker), "the end of its call wakes the other");
    }

    #[test]
    fn a_signal_stays_on_while_a_thread_in_a_wait_call_may_not_have_seen_it() {
        let waker = Waker::new().unwrap();
        waker.export_fd();
        waker.arm();
        waker.wake();
        waker.clear_signal();
        assert!(is_readable(&waker), "it has not run");
        waker.disarm();
        waker.clear_signal();
        assert!(!is_readable(&waker));
    }

    #[test]
    fn a_signal_from_before_the_export_is_cleared_by_a_poll() {
        let waker = Waker::new().unwrap();
        waker.force();
        waker.export_fd();
        assert!(is_readable(&waker));
        waker.clear_signal();
        assert!(!is_readable(&waker));
        waker.signal_fd();
        assert!(is_readable(&waker));
    }

    #[test]
    fn a_signal_after_the_last_poll_outlives_the_end_of_a_sleep() {
        let waker = Waker::new().unwrap();
        waker.export_fd();
        waker.arm();
        waker.clear_signal();
        waker.signal_fd();
        waker.disarm();
        assert!(is_readable(&waker));
        waker.clear_signal();
        assert!(!is_readable(&waker));
        waker.signal_fd();
        assert!(is_readable(&waker));
    }

    #[test]
    fn only_an_earlier_timer_wakes() {
        let waker = Waker::new().unwrap();
        waker.arm();
        waker.sleep_until(Some(Instant::from_nanos(100)));
        waker.wake_before(None);
        waker.wake_before(Some(Instant::from_nanos(100)));
        assert!(!is_readable(&waker));
        waker.wake_before(Some(Instant::from_nanos(99)));
        assert!(is_readable(&waker));
    }
}
