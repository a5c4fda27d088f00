// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cheap polls of kernel sockets that have been silent.
//!
//! An `epoll_wait(2)` that finds nothing takes less than half of the time of such a `recvmsg(2)`:
//! it reads the set's list of ready sockets and returns (`ep_poll`, fs/eventpoll.c). But a packet
//! to a member of an epoll set costs more (`port/wakeup_set.rs`), and the poll that finds it makes
//! one more system call. Therefore the sockets join a set after [`EMPTY_POLLS`] polls without a
//! packet, and the first packet takes them out of it. The set is polled once in
//! [`PAUSE_MAX_NANOS`], as an application may have other sources to poll meanwhile: the shared
//! memory between the ranks of a host.
//!
//! This set is not the wakeup set, whose members wake the threads that sleep on it.
//!
//! In: the sockets, and the number of packets that each poll found. Out: whether the sockets have
//! nothing. Caller: the UDP port, as long as there is no `AF_XDP` socket beside it. Bounds: the
//! sockets of a port; one system call for each of them at both ends of a silence.

use std::io;
use std::os::fd::BorrowedFd;

use ofi_xdp_core::Instant;

use super::poll_backoff::PollBackoff;
use crate::epoll_set::EpollSet;
use crate::fork::Uninherited;

/// Polls without a packet after which the sockets join the set. They take some 40 µs: answers of a
/// peer nearby come earlier.
const EMPTY_POLLS: u8 = 64;
/// Longest pause between two polls of the set: the first packet after a silence may wait as long.
pub(super) const PAUSE_MAX_NANOS: u64 = 500;

/// The set, and the length of the present silence.
#[derive(Debug)]
pub(super) struct SilentPoll {
    /// Polls in a row that found nothing, at most [`EMPTY_POLLS`].
    empty_polls: u8,
    /// Whether all sockets are members of the set.
    joined: bool,
    /// Poll back-off of the set.
    poll: PollBackoff,
    /// The set behind its registration, as they are dropped in this order. `None` before the first
    /// silence.
    set: Option<(Uninherited, EpollSet)>,
}

impl Default for SilentPoll {
    fn default() -> Self {
        let poll = PollBackoff::new(PAUSE_MAX_NANOS);
        Self { empty_polls: 0, joined: false, poll, set: None }
    }
}

impl SilentPoll {
    /// Whether a silence has begun that lasts, as far as is known. At most one system call.
    #[inline]
    pub(super) fn lasts(&mut self, now: Instant) -> bool {
        if !self.joined || !self.poll.is_due(now) {
            return self.joined;
        }
        let is_silent = self.set.as_ref().is_some_and(|(_, set)| set.is_silent());
        self.poll.record(now, !is_silent);
        is_silent
    }

    /// Makes the next poll of the set due.
    #[inline]
    pub(super) const fn force_now(&mut self) {
        self.poll.force_now();
    }

    /// Whether a silence has begun: the sockets are members of the set.
    #[inline]
    pub(super) const fn has_begun(&self) -> bool {
        self.joined
    }

    /// Records a poll that found `count` packets on `sockets`.
    #[inline]
    pub(super) fn record<'a>(&mut self, count: u16, sockets: impl Iterator<Item = BorrowedFd<'a>>) {
        if count > 0 {
            self.end(sockets);
        } else if self.empty_polls < EMPTY_POLLS {
            self.empty_polls += 1;
            if self.empty_polls == EMPTY_POLLS {
                self.begin(sockets);
            }
        }
    }

    /// Takes `sockets` out of the set. Call it also before they change.
    #[inline]
    pub(super) fn end<'a>(&mut self, sockets: impl Iterator<Item = BorrowedFd<'a>>) {
        self.empty_polls = 0;
        if self.joined {
            self.joined = false;
            self.leave(sockets);
        }
    }

    /// Makes `sockets` members. On an error they are polled as before; the next attempt follows the
    /// next silence.
    #[cold]
    fn begin<'a>(&mut self, sockets: impl Iterator<Item = BorrowedFd<'a>>) {
        match self.join(sockets) {
            Ok(()) => self.joined = true,
            Err(error) => {
                log::debug!("kernel sockets are polled one by one: {error}");
                // No member stays in a closed set.
                self.set = None;
            }
        }
    }

    fn join<'a>(&mut self, mut sockets: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<()> {
        let (_, set) = match &mut self.set {
            Some(set) => set,
            none => {
                let set = EpollSet::new()?;
                none.insert((Uninherited::new(&set), set))
            }
        };
        sockets.try_for_each(|socket| set.add(socket))
    }

    #[cold]
    fn leave<'a>(&self, sockets: impl Iterator<Item = BorrowedFd<'a>>) {
        if let Some((_, set)) = &self.set {
            sockets.for_each(|socket| set.remove(socket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    #[test]
    fn without_all_sockets_no_silence_begins_and_none_is_a_member() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // epoll(7) takes no regular files.
        let file = File::open("/proc/self/exe").unwrap();
        let mut silence = SilentPoll::default();
        let record = |silence: &mut SilentPoll, fds: &[BorrowedFd<'_>]| {
            (0..EMPTY_POLLS).for_each(|_| silence.record(0, fds.iter().copied()));
        };
        record(&mut silence, &[socket.as_fd(), file.as_fd()]);
        assert!(!silence.has_begun() && silence.set.is_none());
        silence.record(1, [socket.as_fd()].into_iter());
        record(&mut silence, &[socket.as_fd()]);
        assert!(silence.has_begun(), "the next silence");
    }
}
