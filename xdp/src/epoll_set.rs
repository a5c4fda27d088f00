// SPDX-License-Identifier: MIT OR Apache-2.0
//! An epoll set: one descriptor that is readable while a packet waits on one of several sockets.
//!
//! In: sockets. Out: the descriptor, or whether it is readable. Callers: the wakeup set
//! (`port/wakeup_set.rs`), the poll of silent kernel sockets (`udp/silent_poll.rs`). Bound: the
//! sockets of a port.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// A timeout of `epoll_wait(2)` with which it returns at once.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// No event.
const NONE: epoll::Event =
    epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };

/// An epoll set. Its members are not its own.
#[derive(Debug)]
pub(crate) struct EpollSet(OwnedFd);

impl EpollSet {
    /// An empty set.
    ///
    /// # Errors
    /// Those of `epoll_create1(2)`.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Makes the set readable while `source` is. `source` may be a member already.
    ///
    /// # Errors
    /// Those of `epoll_ctl(2)`.
    pub(crate) fn add(&self, source: BorrowedFd<'_>) -> io::Result<()> {
        match epoll::add(&self.0, source, NONE.data, epoll::EventFlags::IN) {
            Err(Errno::EXIST) => Ok(()),
            result => Ok(result?),
        }
    }

    /// Removes `source` from the set.
    pub(crate) fn remove(&self, source: BorrowedFd<'_>) {
        // Fails for a socket that is no member; then there is nothing to remove.
        let _ = epoll::delete(&self.0, source);
    }

    /// Whether no member has a packet or an error. One system call.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(epoll::wait(&self.0, &mut [NONE], Some(&AT_ONCE)), Ok(0))
    }
}

impl AsFd for EpollSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
