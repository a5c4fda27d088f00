// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wakeup set: an epoll set that has the port's sockets while a thread sleeps or is about to.
//!
//! A socket in an epoll set costs each packet two callbacks in the kernel: on arrival, and when the
//! sender's buffer is freed. Each takes two locks (`ep_poll_callback`, fs/eventpoll.c).
//! Therefore the set is empty while the application polls. The set itself stays open, so that its
//! members may change under its users.
//!
//! In: the port's sockets. Out: one descriptor. Caller: `hybrid.rs`. Bound: the sockets of a port.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};

use crate::epoll_set::EpollSet;

/// The epoll set, and whether it has all sockets.
#[derive(Debug)]
pub(super) struct WakeupSet {
    set: EpollSet,
    fds: [RawFd; 1],
    armed: bool,
}

impl WakeupSet {
    /// An empty set.
    pub(super) fn new() -> io::Result<Self> {
        let set = EpollSet::new()?;
        Ok(Self { fds: [set.as_fd().as_raw_fd()], set, armed: false })
    }

    /// The descriptor of the set.
    pub(super) const fn fds(&self) -> &[RawFd] {
        &self.fds
    }

    /// Whether all sockets are in the set.
    pub(super) const fn is_armed(&self) -> bool {
        self.armed
    }

    /// Records whether all sockets are in the set.
    pub(super) const fn set_armed(&mut self, armed: bool) {
        self.armed = armed;
    }

    /// Makes the set readable while `source` is.
    pub(super) fn add(&self, source: BorrowedFd<'_>) -> io::Result<()> {
        self.set.add(source)
    }

    /// Removes `source` from the set.
    pub(super) fn remove(&self, source: BorrowedFd<'_>) {
        self.set.remove(source);
    }
}

impl AsFd for WakeupSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
