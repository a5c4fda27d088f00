// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reaper of descriptors: threads that close descriptors of clients, because a close may block
//! without limit.
//!
//! The last close of a descriptor can wait for a file server (FUSE), or for a connection to linger
//! (`SO_LINGER`, socket(7)). Closing a Unix socket also closes the descriptors in its unread
//! messages. The loop of `server.rs` must not block, so these threads close. All descriptors of a
//! user go to the same thread. A blocked close delays only users with the same remainder of the
//! user id.
//!
//! In: descriptors and the user that they came from. Out: nothing. Caller: `server.rs`. Bounds:
//! [`THREADS`]; [`PENDING_MAX`] descriptors and those of the last message, which `server.rs`
//! ensures by [`FdReaper::has_room`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Number of threads.
const THREADS: u32 = 32;
/// Stack of each thread, in bytes; it only closes descriptors.
const STACK_BYTES: usize = 64 << 10;
/// Number of descriptors in the queues from which on no more are read from clients. With those of
/// all connections and grants it must stay below `DESCRIPTORS` (`main.rs`). The kernel closes
/// descriptors without a free number itself, on the thread that receives them.
const PENDING_MAX: usize = 1024;

/// The threads and their queues.
#[derive(Debug)]
pub(crate) struct FdReaper {
    threads: Vec<Sender<Vec<OwnedFd>>>,
    /// Number of descriptors that are not closed yet.
    pending: Arc<AtomicUsize>,
}

impl FdReaper {
    /// Starts the threads.
    pub(crate) fn new() -> io::Result<Self> {
        let pending = Arc::new(AtomicUsize::new(0));
        let start = |number| {
            let (sender, receiver) = channel();
            let pending = Arc::clone(&pending);
            let builder = thread::Builder::new().name(format!("closer-{number}"));
            builder.stack_size(STACK_BYTES).spawn(move || work(&receiver, &pending))?;
            Ok(sender)
        };
        let threads = (0..THREADS).map(start).collect::<io::Result<_>>()?;
        Ok(Self { threads, pending })
    }

    /// Closes `descriptors`, which came from user `uid`.
    pub(crate) fn close(&self, uid: u32, descriptors: Vec<OwnedFd>) {
        self.pending.fetch_add(descriptors.len(), Ordering::Relaxed);
        let number = usize::try_from(uid % THREADS).unwrap_or_default();
        let sent = self.threads.get(number).map(|thread| thread.send(descriptors));
        debug_assert!(matches!(sent, Some(Ok(()))), "the threads live as long as this value");
    }

    /// Whether more descriptors may be read from clients.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.load(Ordering::Relaxed) < PENDING_MAX
    }
}

/// Closes descriptors until the queue is closed.
fn work(descriptors: &Receiver<Vec<OwnedFd>>, pending: &AtomicUsize) {
    for descriptor in descriptors.iter().flatten() {
        drop(descriptor);
        pending.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// A connection with its other end. Its close blocks until the other end is closed.
    fn lingering() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[0; 65_536]).is_ok() {}
        stream.set_nonblocking(false).unwrap();
        let socket = socket2::Socket::from(stream);
        socket.set_linger(Some(Duration::from_secs(3600))).unwrap();
        (socket.into(), listener.accept().unwrap().0)
    }

    fn eventually(mut condition: impl FnMut() -> bool) {
        for _ in 0..500 {
            if condition() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("not in time");
    }

    #[test]
    fn a_blocked_close_delays_its_own_user_only() {
        let reaper = FdReaper::new().unwrap();
        let (slow, other_end) = lingering();
        let quick = || OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        reaper.close(7, vec![slow, quick()]);
        reaper.close(8, vec![quick()]);
        eventually(|| reaper.pending.load(Ordering::Relaxed) == 2);
        assert!(reaper.has_room());
        reaper.close(7, (0..PENDING_MAX - 2).map(|_| quick()).collect());
        assert!(!reaper.has_room(), "not one more");
        drop(other_end);
        eventually(|| reaper.pending.load(Ordering::Relaxed) == 0);
        assert!(reaper.has_room());
    }
}
