// SPDX-License-Identifier: MIT OR Apache-2.0
//! Getting back what a port lost, beside the data path.
//!
//! An attempt comes in, what it found goes out, once: to `port.rs`, which asks with one load a
//! call, and is woken by a descriptor if it sleeps. A thread makes the attempts, since opening an
//! `AF_XDP` socket takes milliseconds and allocates. Bounds: one thread for a port that has lost
//! something, [`PAUSE_MIN`] to [`PAUSE_MAX`] between two attempts; dropping the value waits for the
//! attempt that is under way.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::event::{EventfdFlags, eventfd};

/// The time before the first attempt; it doubles from attempt to attempt.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest time between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// What both threads see.
struct Shared<T> {
    /// Whether there is a result: what the data path asks.
    found: AtomicBool,
    /// The same for who sleeps: packets may come to what was found, and nobody sleeps on that yet.
    event: OwnedFd,
    state: Mutex<State<T>>,
    stopped: Condvar,
}

struct State<T> {
    result: Option<T>,
    stop: bool,
}

/// Attempts that go on until one succeeds. See the module.
pub(crate) struct Recovery<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T> fmt::Debug for Recovery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery").field("found", &self.shared.found).finish_non_exhaustive()
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for `pause`; says whether to go on.
    fn sleep(&self, pause: Duration) -> bool {
        let state = self.lock();
        let waited = self.stopped.wait_timeout_while(state, pause, |state| !state.stop);
        !waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }
}

impl<T: Send + 'static> Recovery<T> {
    /// Makes `attempt` again and again until it finds something.
    pub(crate) fn start(
        mut attempt: impl FnMut() -> Option<T> + Send + 'static,
    ) -> io::Result<Self> {
        let state = Mutex::new(State { result: None, stop: false });
        let (found, stopped) = (AtomicBool::new(false), Condvar::new());
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { found, event, state, stopped });
        let theirs = Arc::clone(&shared);
        let work = move || {
            let mut pause = PAUSE_MIN;
            // bound: ends with success, or when the port goes.
            while theirs.sleep(pause) {
                if let Some(found) = attempt() {
                    theirs.lock().result = Some(found);
                    theirs.found.store(true, Ordering::Release);
                    // Last, so that nobody wakes in vain. It has room for one number.
                    let _ = rustix::io::write(&theirs.event, &1_u64.to_ne_bytes());
                    return;
                }
                pause = (2 * pause).min(PAUSE_MAX);
            }
        };
        // The thread inherits the mask: signals are for the application's own threads.
        let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        let thread = thread::Builder::new().name("xdp-recovery".to_owned()).spawn(work);
        mask.thread_set_mask()?;
        Ok(Self { shared, thread: Some(thread?) })
    }
}

impl<T> Recovery<T> {
    /// What was found, if it was. One load while it was not.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<T> {
        if !self.shared.found.load(Ordering::Acquire) {
            return None;
        }
        self.shared.lock().result.take()
    }

    /// Readable once something was found, until this is dropped.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl<T> Drop for Recovery<T> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.stopped.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, there is nothing left to wait for.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable<T: Send + 'static>(recovery: &Recovery<T>) -> bool {
        let descriptor = recovery.descriptor();
        let pause = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&pause)).unwrap() == 1
    }

    #[test]
    fn attempts_go_on_until_one_succeeds() {
        let mut attempts = 0;
        let mut recovery = Recovery::start(move || {
            attempts += 1;
            (attempts == 2).then_some(attempts)
        })
        .unwrap();
        assert_eq!((recovery.take(), is_readable(&recovery)), (None, false));
        let found = (0..500).find_map(|_| {
            thread::sleep(Duration::from_millis(10));
            recovery.take()
        });
        assert_eq!(found, Some(2));
        assert_eq!(recovery.take(), None, "once");
        assert!((0..500).any(|_| is_readable(&recovery)), "who sleeps is not told");
    }

    #[test]
    fn who_goes_does_not_wait_for_the_next_attempt() {
        let (told, heard) = std::sync::mpsc::channel();
        let recovery = Recovery::<()>::start(move || {
            let _ = told.send(());
            None
        })
        .unwrap();
        heard.recv().unwrap();
        drop(recovery);
        assert!(heard.recv().is_err(), "the thread is gone, and its attempt with it");
    }
}
