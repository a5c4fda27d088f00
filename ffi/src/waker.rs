// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waking threads that sleep until something happens on an endpoint.
//!
//! A sleeper *arms* the waker, looks once more whether there is anything to do, says until when it
//! will sleep, and waits for the descriptor, among others. Whoever finds that there is something (a
//! completion for the sleeper's queue, a timer earlier than the sleep's end) wakes it. Arming and
//! finding are ordered by the endpoint's lock, which both take in between: either the sleeper sees
//! what there is, or the finder sees that the waker is armed. While nobody sleeps, a finder pays
//! one load.
//!
//! An application that was *lent* the descriptor may sleep on it without arming. What somebody
//! else finds for it, the progress thread above all, *rouses* it: the descriptor is readable until
//! the application comes back and looks. With `fi_trywait` it *announces* that it will sleep, which
//! is as good as arming to who has something for it; but whether it does sleep, and for how long,
//! nobody knows.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use ofi_xdp_core::Instant;

use crate::errno::Error;

/// Nobody was roused since the application came back.
const QUIET: u8 = 0;
/// The descriptor is being made readable, or unreadable. Who finds something meanwhile has nothing
/// to do: before that it will be readable, after that the application looks.
const CHANGING: u8 = 1;
/// It is readable.
const ROUSED: u8 = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Waker {
    event: EventFd,
    /// The descriptor may be readable, as somebody has written it since it was last read. Stored
    /// before it is written, so that who is woken at once reads it; and after, so that it is not
    /// readable for good without this, whoever read in between.
    written: AtomicBool,
    sleepers: AtomicU32,
    /// The application has said that it will sleep, and has not come back.
    announced: AtomicBool,
    /// The application has a descriptor that this makes readable.
    lent: AtomicBool,
    /// [`QUIET`], [`CHANGING`] or [`ROUSED`].
    roused: AtomicU8,
    /// Until when they sleep, in nanoseconds; `u64::MAX`: for ever, or not known.
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
            announced: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            roused: AtomicU8::new(QUIET),
            until: AtomicU64::new(u64::MAX),
        })
    }

    /// Readable once somebody woke.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// One more is going to sleep. Called before its last look.
    pub(crate) fn arm(&self) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
    }

    /// The application says that it will sleep on the descriptor. Called before the last look that
    /// is taken for it.
    pub(crate) fn announce(&self) {
        self.announced.store(true, Ordering::Relaxed);
    }

    /// The application is back, or never went; whether it had said that it would sleep.
    #[inline]
    pub(crate) fn recall(&self) -> bool {
        let announced = self.is_announced();
        if announced {
            self.announced.store(false, Ordering::Relaxed);
            self.end_sleep();
        }
        announced
    }

    /// Whether the application has said that it will sleep, and has not come back.
    #[inline]
    pub(crate) fn is_announced(&self) -> bool {
        self.announced.load(Ordering::Relaxed)
    }

    /// The one who armed will sleep until `until`, or for ever.
    pub(crate) fn sleep_until(&self, until: Option<Instant>) {
        self.until.store(until.map_or(u64::MAX, Instant::as_nanos), Ordering::Relaxed);
    }

    /// From now on the application may sleep without a word: it has a descriptor to sleep on.
    pub(crate) fn lend(&self) {
        self.lent.store(true, Ordering::Relaxed);
    }

    /// Whether the application may sleep without a word.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Relaxed)
    }

    /// One sleep is over; what woke it is forgotten, or, where the descriptor was lent, when the
    /// application looks next ([`Self::settle`]): what came since its last look must not be. Others
    /// who sleep are not sure any more that a timer is waited for: the next one that is set wakes
    /// them. Says whether something is forgotten, which may have been to wake one of them.
    pub(crate) fn disarm(&self) -> bool {
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        self.end_sleep()
    }

    fn end_sleep(&self) -> bool {
        self.until.store(u64::MAX, Ordering::Relaxed);
        !self.is_lent() && self.forget()
    }

    /// Makes the descriptor unreadable again; whether somebody had woken. Most sleeps are ended by
    /// packets, and this takes no system call after them.
    pub(crate) fn forget(&self) -> bool {
        let written =
            self.written.load(Ordering::Relaxed) && self.written.swap(false, Ordering::Acquire);
        // Empty already, if it was read between somebody's two stores: it is fine.
        written && self.event.read().is_ok()
    }

    /// Whether a thread sleeps in a call of ours, or is about to.
    #[inline]
    pub(crate) fn has_armed(&self) -> bool {
        self.sleepers.load(Ordering::Relaxed) != 0
    }

    /// Whether anybody sleeps, is about to, or has said so.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.has_armed() || self.is_announced()
    }

    /// Wakes whoever sleeps.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.has_sleepers() {
            self.force();
        }
    }

    /// Wakes whoever sleeps, or may sleep without a word.
    pub(crate) fn rouse(&self) {
        if self.has_sleepers() || self.is_lent() {
            self.force();
        }
    }

    /// The application is back from wherever it was, and looks next.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.roused.load(Ordering::Relaxed) == ROUSED && self.turn(ROUSED, CHANGING) {
            self.forget();
            self.roused.store(QUIET, Ordering::Release);
        }
    }

    fn turn(&self, from: u8, to: u8) -> bool {
        self.roused.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Wakes whoever sleeps beyond `at`.
    #[inline]
    pub(crate) fn wake_before(&self, at: Option<Instant>) {
        if self.has_sleepers()
            && at.is_some_and(|at| at.as_nanos() < self.until.load(Ordering::Relaxed))
        {
            self.force();
        }
    }

    /// Makes the descriptor readable, sleeper or not; where it was lent, until
    /// [`Self::settle`].
    pub(crate) fn force(&self) {
        let lent = self.is_lent();
        if lent && !self.turn(QUIET, CHANGING) {
            return;
        }
        self.written.store(true, Ordering::Relaxed);
        // A counter that is full is readable already.
        let _ = self.event.write(1);
        self.written.store(true, Ordering::Release);
        if lent {
            self.roused.store(ROUSED, Ordering::Release);
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
        assert!(waker.disarm(), "somebody woke");
        assert!(!is_readable(&waker));
        waker.arm();
        assert!(!waker.disarm(), "nobody did");
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
    fn who_may_sleep_without_a_word_is_roused_until_it_is_back() {
        let waker = Waker::new().unwrap();
        waker.rouse();
        assert!(!is_readable(&waker), "nobody has the descriptor");
        waker.lend();
        waker.wake();
        assert!(!is_readable(&waker), "nobody sleeps for sure");
        for _ in 0..2 {
            waker.rouse();
            waker.rouse();
            assert!(is_readable(&waker));
            waker.settle();
            assert!(!is_readable(&waker));
        }
    }

    #[test]
    fn who_announces_a_sleep_is_woken_and_arms_nothing() {
        let waker = Waker::new().unwrap();
        assert!(!waker.recall());
        waker.announce();
        assert!(waker.has_sleepers() && !waker.has_armed());
        waker.wake_before(Some(Instant::from_nanos(100)));
        assert!(is_readable(&waker));
        assert!(waker.recall() && !waker.recall());
        assert!(!is_readable(&waker) && !waker.has_sleepers());
    }

    #[test]
    fn what_came_after_the_last_look_outlives_the_end_of_a_sleep() {
        let waker = Waker::new().unwrap();
        waker.lend();
        waker.arm();
        waker.settle();
        waker.rouse();
        waker.disarm();
        assert!(is_readable(&waker));
        waker.settle();
        assert!(!is_readable(&waker));
        waker.rouse();
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
