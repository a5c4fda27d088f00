// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of the connection manager's thread: its sleep, the calls that wake it, and the lock
//! that it has in between.
//!
//! In: descriptors, calls. Out: the thread awake. Called by the thread, by the manager and by its
//! sockets. Bound: one lock.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use ofi_xdp_core::Instant;

use crate::sys::errno::Error;

/// Most descriptors that one sleep reports. The sockets decide, so more do no harm.
const READY_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Turns {
    /// The descriptors of the sockets, and the bell. A socket leaves it before it is closed.
    epoll: Epoll,
    /// Readable to wake the thread: a new socket, an earlier timer, the end.
    bell: EventFd,
    /// Held by the thread while it has references to sockets, or delivers events.
    turn: Mutex<()>,
    /// The time until which the thread sleeps, in nanoseconds; or [`AWAKE`], [`CHANGED`],
    /// [`FOREVER`].
    until: AtomicU64,
    stop: AtomicBool,
}

/// The thread is awake.
const AWAKE: u64 = 0;
/// The thread is awake, and a timer has come that it may not know of.
const CHANGED: u64 = 1;
/// The thread sleeps without a timer.
const FOREVER: u64 = u64::MAX;

/// The data of the bell's descriptor in `epoll`. The sockets have 0.
const BELL: u64 = 1;

/// The cause of the end of a sleep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    /// A message of ICMP waits at a socket.
    pub(super) errors: bool,
}

impl Turns {
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(super) fn new() -> Result<Self, Error> {
        let turns = Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            bell: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            turn: Mutex::default(),
            until: AtomicU64::new(AWAKE),
            stop: AtomicBool::new(false),
        };
        turns.epoll.add(turns.bell.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, BELL))?;
        Ok(turns)
    }

    /// Wakes the thread when `descriptor` is readable, until it is removed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(super) fn add(&self, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, 0))?)
    }

    /// Reverses [`Self::add`], before `descriptor` is closed: a socket of which a fork has a copy
    /// stays in the set, and readable.
    pub(super) fn remove(&self, descriptor: BorrowedFd<'_>) {
        // It fails on a socket that was not added.
        let _ = self.epoll.delete(descriptor);
    }

    /// Wakes the thread.
    fn wake(&self) {
        // A counter that is full is readable already.
        let _ = self.bell.write(1);
    }

    /// A call has changed timers, of which the next one is `due`: wakes the thread if it sleeps
    /// longer. A thread that is awake reads the timers before it sleeps.
    pub(super) fn wake_before(&self, due: Instant) {
        let changed = |until| (until == AWAKE).then_some(CHANGED);
        if let Err(until) = self.until.fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed)
            && until != CHANGED
            && due.as_nanos() < until
        {
            self.wake();
        }
    }

    /// The thread's turn, until the guard is dropped.
    pub(super) fn begin(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the present turn of the thread is over. Afterwards the thread has no reference
    /// to a socket that was closed before this call, nor to an endpoint that was forgotten.
    pub(super) fn wait(&self) {
        drop(self.begin());
    }

    /// Whether the thread goes on.
    pub(super) fn go_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    /// Ends the thread.
    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Sleeps from `now` on until a descriptor is readable, a call wakes the thread, or a timer has
    /// come, of which `next_due` is the next one. The state of the sockets decides then, whatever
    /// ended the sleep.
    pub(super) fn sleep(&self, now: Instant, next_due: impl Fn() -> Option<Instant>) -> Woken {
        let due = self.announce(next_due);
        let timeout = due.map_or(EpollTimeout::NONE, |due| milliseconds(due.since(now)));
        let mut ready = [EpollEvent::empty(); READY_MAX];
        let count = self.epoll.wait(&mut ready, timeout).unwrap_or(0);
        self.until.store(AWAKE, Ordering::SeqCst);
        let ready = ready.get(..count).unwrap_or_default();
        if ready.iter().any(|event| event.data() == BELL) {
            // The read fails if nothing rang, which is harmless.
            let _ = self.bell.read();
        }
        Woken { errors: ready.iter().any(|event| event.events().contains(EpollFlags::EPOLLERR)) }
    }

    /// Announces until when the thread sleeps. Timers that a call changes meanwhile are read once
    /// more.
    fn announce(&self, next_due: impl Fn() -> Option<Instant>) -> Option<Instant> {
        // bound: the calls meanwhile, each of which sends a packet
        loop {
            let due = next_due();
            let until = due.map_or(FOREVER, |due| due.as_nanos().max(CHANGED + 1));
            let order = Ordering::SeqCst;
            if self.until.compare_exchange(AWAKE, until, order, order).is_ok() {
                return due;
            }
            self.until.store(AWAKE, order);
        }
    }
}

/// A time-out in whole milliseconds, rounded up.
fn milliseconds(time: Duration) -> EpollTimeout {
    let whole = u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
    EpollTimeout::try_from(whole).unwrap_or(EpollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUE: Instant = Instant::from_nanos(2_000);

    fn rang(turns: &Turns) -> bool {
        turns.bell.read().is_ok()
    }

    #[test]
    fn a_sleeping_thread_is_woken_by_an_earlier_timer_only() {
        let turns = Turns::new().unwrap();
        for (announced, until) in [(Some(DUE), DUE.as_nanos()), (None, FOREVER)] {
            turns.until.store(AWAKE, Ordering::SeqCst);
            assert_eq!(turns.announce(|| announced), announced);
            for (due, woken) in [(until, false), (until - 1, true)] {
                turns.wake_before(Instant::from_nanos(due));
                assert_eq!(rang(&turns), woken, "{due} of {until}");
            }
        }
    }

    #[test]
    fn a_thread_that_is_awake_reads_a_changed_timer_before_it_sleeps() {
        let turns = Turns::new().unwrap();
        let reads = std::cell::Cell::new(0);
        let due = turns.announce(|| {
            reads.set(reads.get() + 1);
            if reads.get() > 1 {
                return Some(DUE);
            }
            // Two calls, the first one with a timer that this read has missed.
            turns.wake_before(DUE);
            turns.wake_before(DUE.after_nanos(1));
            None
        });
        assert_eq!((due, reads.get()), (Some(DUE), 2));
        assert!(!rang(&turns), "nobody slept");
    }

    #[test]
    fn a_bell_ends_a_sleep_once() {
        let turns = Turns::new().unwrap();
        turns.wake();
        let woken = turns.sleep(Instant::ZERO, || None);
        assert!(!woken.errors);
        assert!(!rang(&turns), "it has been read");
        assert_eq!(turns.until.load(Ordering::SeqCst), AWAKE);
    }
}
