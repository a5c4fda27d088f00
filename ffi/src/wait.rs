// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a completion queue waits on: one descriptor that becomes readable when any of its endpoints
//! has a packet, when a timer of theirs is due, or when another thread wakes it.
//!
//! An epoll set of the endpoints' descriptors, the waker's and a timer's. `fi_cq_sread` sleeps on
//! it; `FI_GETWAIT` gives it to the application, for its own `poll`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use ofi_xdp_core::Instant;

use crate::errno::Error;
use crate::progress::now;
use crate::waker::{Waker, sleep};

/// See the module.
#[derive(Debug)]
pub(crate) struct Wait {
    epoll: Epoll,
    timer: TimerFd,
    waker: Arc<Waker>,
}

impl Wait {
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(crate) fn new() -> Result<Self, Error> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        let wait = Self { epoll, timer, waker: Arc::new(Waker::new()?) };
        wait.add(wait.timer.as_fd())?;
        wait.add(wait.waker.descriptor())?;
        Ok(wait)
    }

    /// Also waits for this descriptor, until it is removed or closed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn add(&self, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        let number = u64::try_from(descriptor.as_raw_fd()).unwrap_or_default();
        match self.epoll.add(descriptor, EpollEvent::new(EpollFlags::EPOLLIN, number)) {
            Err(Errno::EEXIST) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Does not wait for this descriptor any more.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn remove(&self, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        match self.epoll.delete(descriptor) {
            Err(Errno::ENOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Wakes whoever waits.
    pub(crate) const fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Makes `outer` wait for this one's descriptor too, until it is closed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn join(&self, outer: &Self) -> Result<(), Error> {
        self.waker.lend();
        outer.add(self.epoll.0.as_fd())
    }

    /// The one descriptor, for the application.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.waker.lend();
        self.epoll.0.as_raw_fd()
    }

    /// Sleeps until it is readable, or `timeout` is over.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Os`].
    pub(crate) fn sleep(&self, timeout: Option<Duration>) -> Result<(), Error> {
        sleep(&mut [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)], timeout)
    }

    /// Makes the descriptor readable at `at`, if at all.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn set_timer(&self, at: Option<Instant>) -> Result<(), Error> {
        let Some(at) = at else { return Ok(()) };
        // Zero would disarm it.
        let after = at.since(now()).max(Duration::from_nanos(1));
        let expiration = Expiration::OneShot(TimeSpec::from_duration(after));
        Ok(self.timer.set(expiration, TimerSetTimeFlags::empty())?)
    }

    /// The application is back from waiting on the descriptor, or never went: the timer that was
    /// set for its sleep is forgotten, and that it was due.
    #[inline]
    pub(crate) fn end_wait(&self) {
        self.waker.settle();
        self.recall();
    }

    /// The same where nobody looks next: the descriptor stays readable if it was made so.
    #[inline]
    pub(crate) fn recall(&self) {
        if self.waker.recall() {
            // Cannot fail on a descriptor that is a timer.
            let _ = self.timer.unset();
        }
    }
}
