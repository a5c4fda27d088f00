// SPDX-License-Identifier: MIT OR Apache-2.0
//! Closing what came from clients, which may take for ever.
//!
//! The last close of a descriptor can wait for whoever serves a file (FUSE), or for a connection to
//! linger (`SO_LINGER`, socket(7)); and with a Unix socket go the descriptors in messages that
//! nobody read. `server.rs` waits for nobody, so what is to be closed comes in here, with the user
//! whose it was, and threads close it. A user's things are all closed by the same thread: who makes
//! one wait holds up those few whose number has the same remainder. Bounds: [`THREADS`]; of
//! descriptors [`HELD_MAX`] and what came last, which `server.rs` sees to by [`Closers::has_room`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// How many threads there are.
const THREADS: u32 = 32;
/// Bytes of each one's stack: they do nothing but close.
const STACK_BYTES: usize = 64 << 10;
/// Descriptors that may wait to be closed before no more are taken from clients. With those of all
/// connections and grants it must stay within `DESCRIPTORS` (`main.rs`): what the kernel cannot
/// give a number it closes itself, on the thread that receives it.
const HELD_MAX: usize = 1024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Closers {
    threads: Vec<Sender<Vec<OwnedFd>>>,
    /// How many descriptors have not been closed yet.
    held: Arc<AtomicUsize>,
}

impl Closers {
    /// Starts the threads.
    pub(crate) fn new() -> io::Result<Self> {
        let held = Arc::new(AtomicUsize::new(0));
        let start = |number| {
            let (sender, receiver) = channel();
            let held = Arc::clone(&held);
            let builder = thread::Builder::new().name(format!("closer-{number}"));
            builder.stack_size(STACK_BYTES).spawn(move || work(&receiver, &held))?;
            Ok(sender)
        };
        let threads = (0..THREADS).map(start).collect::<io::Result<_>>()?;
        Ok(Self { threads, held })
    }

    /// Has `descriptors` closed, which came from user `uid`.
    pub(crate) fn close(&self, uid: u32, descriptors: Vec<OwnedFd>) {
        self.held.fetch_add(descriptors.len(), Ordering::Relaxed);
        let number = usize::try_from(uid % THREADS).unwrap_or_default();
        let sent = self.threads.get(number).map(|thread| thread.send(descriptors));
        debug_assert!(matches!(sent, Some(Ok(()))), "the threads live as long as this value");
    }

    /// Whether more may be taken from clients: so few descriptors wait to be closed.
    pub(crate) fn has_room(&self) -> bool {
        self.held.load(Ordering::Relaxed) < HELD_MAX
    }
}

/// Closes what comes, until nothing can come any more.
fn work(descriptors: &Receiver<Vec<OwnedFd>>, held: &AtomicUsize) {
    for descriptor in descriptors.iter().flatten() {
        drop(descriptor);
        held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    /// A connection whose close waits until its other end, the second, is gone.
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
    fn who_makes_a_close_wait_holds_up_themselves() {
        let closers = Closers::new().unwrap();
        let (slow, other_end) = lingering();
        let quick = || OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        closers.close(7, vec![slow, quick()]);
        closers.close(8, vec![quick()]);
        eventually(|| closers.held.load(Ordering::Relaxed) == 2);
        assert!(closers.has_room());
        closers.close(7, (0..HELD_MAX - 2).map(|_| quick()).collect());
        assert!(!closers.has_room(), "not one more");
        drop(other_end);
        eventually(|| closers.held.load(Ordering::Relaxed) == 0);
        assert!(closers.has_room());
    }
}
