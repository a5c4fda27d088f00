// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wait object of a queue or counter: one descriptor. It becomes readable when one of its
//! endpoints has a packet, a timer is due, or another thread wakes the sleeper.
//!
//! The descriptor is an epoll set of the endpoints' descriptors, the waker's and a timer's.
//! `fi_cq_sread` sleeps on it; `FI_GETWAIT` gives it to the application, for its own `poll`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use ofi_xdp_core::Instant;

use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::wait::waker::{Waker, sleep};

/// Most descriptors that one call of [`Wait::ready`] reports.
const READY_MAX: usize = 64;

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

    /// Adds a descriptor, until it is removed or closed.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn add(&self, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        self.add_named(descriptor, 0)
    }

    /// Adds a descriptor, until it is removed or closed, that [`Self::ready`] reports by `name`.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn add_named(&self, descriptor: BorrowedFd<'_>, name: usize) -> Result<(), Error> {
        self.add_for(EpollFlags::EPOLLIN, descriptor, name)
    }

    /// As [`Self::add_named`], but each event is reported once, also where the descriptor stays
    /// readable.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn add_event(&self, descriptor: BorrowedFd<'_>, name: usize) -> Result<(), Error> {
        self.add_for(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, descriptor, name)
    }

    fn add_for(
        &self,
        events: EpollFlags,
        descriptor: BorrowedFd<'_>,
        name: usize,
    ) -> Result<(), Error> {
        match self.epoll.add(descriptor, EpollEvent::new(events, name as u64)) {
            Err(Errno::EEXIST) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Whether [`Self::ready`] reports `descriptor`, which was added as `name`. One that was not
    /// added, or was removed, is let alone.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn watch(
        &self,
        descriptor: BorrowedFd<'_>,
        name: usize,
        watched: bool,
    ) -> Result<(), Error> {
        let events = if watched { EpollFlags::EPOLLIN } else { EpollFlags::empty() };
        match self.epoll.modify(descriptor, &mut EpollEvent::new(events, name as u64)) {
            Err(Errno::ENOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Adds the names of readable descriptors to `names`, [`READY_MAX`] at most; the kernel reports
    /// the others next time.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Os`].
    pub(crate) fn ready(&self, names: &mut Vec<usize>) -> Result<(), Error> {
        let mut events = [EpollEvent::empty(); READY_MAX];
        let count = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
        let named = events.iter().take(count).map(|event| event.data()).filter(|&name| name != 0);
        names.extend(named.filter_map(|name| usize::try_from(name).ok()));
        Ok(())
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn remove(&self, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
        match self.epoll.delete(descriptor) {
            Err(Errno::ENOENT) => Ok(()),
            result => Ok(result?),
        }
    }

    /// The waker of sleepers on this descriptor.
    pub(crate) const fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Adds this descriptor to `outer`, until it [leaves](Self::leave).
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn join(&self, outer: &Self) -> Result<(), Error> {
        self.waker.export_fd();
        outer.add(self.epoll.0.as_fd())
    }

    /// Reverses [`Self::join`], before this descriptor is closed: one of which a fork has a copy
    /// stays in a set.
    pub(crate) fn leave(&self, outer: &Self) {
        // It cannot fail on two open sets.
        let _ = outer.remove(self.epoll.0.as_fd());
    }

    /// The one descriptor, for the application.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.waker.export_fd();
        self.epoll.0.as_raw_fd()
    }

    /// Sleeps until the descriptor is readable, or `timeout` is over.
    ///
    /// # Errors
    /// [`Error::Interrupted`], [`Error::Os`].
    pub(crate) fn sleep(&self, timeout: Option<Duration>) -> Result<(), Error> {
        sleep(&mut [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)], timeout)
    }

    /// Makes the descriptor readable at `at`; `None` sets no timer.
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

    /// Announces a sleep of the application. Called before the last poll on its behalf.
    pub(crate) fn announce_wait(&self) {
        if self.waker.announce_wait() {
            self.unset_timer();
        }
    }

    /// Ends the application's wait on the descriptor, if there was one: clears the timer of the
    /// sleep, and the signal.
    #[inline]
    pub(crate) fn end_wait(&self) {
        self.cancel_wait();
        self.waker.clear_signal();
    }

    /// Ends an announced sleep without a poll afterwards: a signaled descriptor stays readable.
    #[inline]
    pub(crate) fn cancel_wait(&self) {
        if self.waker.cancel_wait() {
            self.unset_timer();
        }
    }

    fn unset_timer(&self) {
        // Cannot fail on a descriptor that is a timer.
        let _ = self.timer.unset();
    }

    /// Whether a sleep would end at once.
    #[cfg(test)]
    pub(crate) fn is_readable(&self) -> bool {
        let mut descriptors = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        sleep(&mut descriptors, Some(Duration::ZERO)).unwrap();
        descriptors[0].any().unwrap()
    }
}
