// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recovery: a thread beside the data path that repeats an attempt until it succeeds.
//!
//! In: what was lost, and an attempt. Out: its result, once. Caller: `hybrid.rs`, which checks with
//! one load a call and is woken by a descriptor if it sleeps. A thread is needed because closing
//! and opening an `AF_XDP` socket wait for locks and grace periods of the kernel, and opening
//! allocates. Bounds: one thread for a port without its `AF_XDP` half,
//! [`PAUSE_MIN`] to [`PAUSE_MAX`] between two attempts. Dropping the value waits for the current
//! attempt.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::thread::Thread;

/// Pause before the first attempt; it doubles with each attempt.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// State of both threads.
struct SharedState<T> {
    /// Whether there is a result; the data path reads this flag.
    found: AtomicBool,
    /// Wakes a sleeping thread at a result: it is not sleeping on the new socket yet, where packets
    /// may arrive.
    event: OwnedFd,
    state: Mutex<State<T>>,
    stopped: Condvar,
}

struct State<T> {
    result: Option<T>,
    stop: bool,
}

/// A thread that repeats an attempt until it succeeds.
pub(crate) struct Recovery<T> {
    shared: Arc<SharedState<T>>,
    thread: Option<Thread>,
}

impl<T> fmt::Debug for Recovery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery").field("found", &self.shared.found).finish_non_exhaustive()
    }
}

impl<T> SharedState<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for `pause`; returns whether to continue.
    fn sleep(&self, pause: Duration) -> bool {
        let state = self.lock();
        let waited = self.stopped.wait_timeout_while(state, pause, |state| !state.stop);
        !waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }
}

impl<T: Send + 'static> Recovery<T> {
    /// Drops `lost` at once, and repeats `attempt` until it returns a result.
    pub(crate) fn start(
        lost: impl Send + 'static,
        mut attempt: impl FnMut() -> Option<T> + Send + 'static,
    ) -> io::Result<Self> {
        let state = Mutex::new(State { result: None, stop: false });
        let (found, stopped) = (AtomicBool::new(false), Condvar::new());
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(SharedState { found, event, state, stopped });
        let worker_state = Arc::clone(&shared);
        let worker = move || {
            drop(lost);
            let mut pause = PAUSE_MIN;
            // bound: ends with success, or when the port is dropped.
            while worker_state.sleep(pause) {
                if let Some(found) = attempt() {
                    worker_state.lock().result = Some(found);
                    worker_state.found.store(true, Ordering::Release);
                    // Written last, so that the woken thread finds the result. The event has room
                    // for one number.
                    let _ = rustix::io::write(&worker_state.event, &1_u64.to_ne_bytes());
                    return;
                }
                pause = (2 * pause).min(PAUSE_MAX);
            }
        };
        let thread = Thread::without_signals(c"xdp-recovery", worker)?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl<T> Recovery<T> {
    /// The result, if there is one. One load otherwise.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<T> {
        if !self.shared.found.load(Ordering::Acquire) {
            return None;
        }
        self.shared.lock().result.take()
    }

    /// Readable from the result until this value is dropped.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }
}

impl<T> Drop for Recovery<T> {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.stopped.notify_all();
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::thread;

    fn is_readable<T: Send + 'static>(recovery: &Recovery<T>) -> bool {
        let descriptor = recovery.descriptor();
        let pause = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&pause)).unwrap() == 1
    }

    #[test]
    fn attempts_go_on_until_one_succeeds() {
        let mut attempts = 0;
        let mut recovery = Recovery::start((), move || {
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
        assert!((0..500).any(|_| is_readable(&recovery)), "a sleeping thread is not woken");
    }

    #[test]
    fn the_lost_part_goes_before_the_first_attempt() {
        let (lost, goes) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let recovery = Recovery::start(lost, move || sender.send(goes.try_recv()).ok()).unwrap();
        assert_eq!(receiver.recv(), Ok(Err(std::sync::mpsc::TryRecvError::Disconnected)));
        drop(recovery);
    }

    #[test]
    fn a_drop_does_not_wait_for_the_next_attempt() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let recovery = Recovery::<()>::start((), move || {
            let _ = sender.send(());
            None
        })
        .unwrap();
        receiver.recv().unwrap();
        drop(recovery);
        assert!(receiver.recv().is_err(), "the thread is gone, and its attempt with it");
    }
}
