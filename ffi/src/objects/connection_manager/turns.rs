// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of the connection manager's thread: its sleep, the calls that wake it, and the lock
//! that it has in between.
//!
//! In: descriptors, calls. Out: the thread awake. Called by the thread, by the manager and by its
//! sockets. Bound: one lock.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::sys::errno::Error;

/// Most descriptors that one sleep reports. The sockets decide, so more do no harm.
const READY_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Turns {
    /// The descriptors of the sockets, and the bell. A socket leaves it when it is closed.
    epoll: Epoll,
    /// Readable to wake the thread: a new socket, an earlier timer, the end.
    bell: EventFd,
    /// Held by the thread while it has references to sockets, or delivers events.
    turn: Mutex<()>,
    stop: AtomicBool,
}

impl Turns {
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(super) fn new() -> Result<Self, Error> {
        let turns = Self {
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            bell: EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?,
            turn: Mutex::default(),
            stop: AtomicBool::new(false),
        };
        turns.add(turns.bell.as_fd())?;
        Ok(turns)
    }

    /// Wakes the thread when `descriptor` is readable, until it is closed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(super) fn add(&self, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        Ok(self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, 0))?)
    }

    /// Wakes the thread.
    pub(super) fn wake(&self) {
        // A counter that is full is readable already.
        let _ = self.bell.write(1);
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

    /// Sleeps until a descriptor is readable, a call wakes the thread, or `timeout` has passed. The
    /// state of the sockets decides then, whatever ended the sleep.
    pub(super) fn sleep(&self, timeout: Option<Duration>) {
        let mut ready = [EpollEvent::empty(); READY_MAX];
        let _ = self.epoll.wait(&mut ready, timeout.map_or(EpollTimeout::NONE, milliseconds));
        // The read fails if nothing rang, which is harmless.
        let _ = self.bell.read();
    }
}

/// A time-out in whole milliseconds, rounded up.
fn milliseconds(time: Duration) -> EpollTimeout {
    let whole = u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
    EpollTimeout::try_from(whole).unwrap_or(EpollTimeout::MAX)
}
