// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptor that a sleeper waits on: an epoll set, in which a port's sockets are while
//! somebody sleeps or may soon.
//!
//! A socket in an epoll set costs every packet a callback in the kernel, under two locks
//! (`ep_poll_callback`, fs/eventpoll.c), when it arrives and again when its sender's buffer is
//! free: seen, a tenth of a packet's way through a veth pair. So who polls keeps none in. The set
//! itself stays, so that its members may change under those who hold it. Called by [`super`];
//! bounds: three members.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll;
use rustix::io::Errno;

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    set: OwnedFd,
    fds: [RawFd; 1],
    on: bool,
}

impl Watch {
    /// An empty set.
    pub(super) fn new() -> io::Result<Self> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { fds: [set.as_raw_fd()], set, on: false })
    }

    /// The set's descriptor.
    pub(super) const fn fds(&self) -> &[RawFd] {
        &self.fds
    }

    /// Whether all sources are in the set.
    pub(super) const fn is_on(&self) -> bool {
        self.on
    }

    /// From now on all of them are, or not.
    pub(super) const fn turn(&mut self, on: bool) {
        self.on = on;
    }

    /// Has the set become readable when `source` is.
    pub(super) fn add(&self, source: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        match epoll::add(&self.set, source, data, epoll::EventFlags::IN) {
            Err(Errno::EXIST) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Has it not any more.
    pub(super) fn remove(&self, source: BorrowedFd<'_>) {
        // Fails for one that could not be added; then there is nothing to remove.
        let _ = epoll::delete(&self.set, source);
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}
