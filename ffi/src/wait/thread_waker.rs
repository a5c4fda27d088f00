// SPDX-License-Identifier: MIT OR Apache-2.0
//! The waker of a domain's progress thread, which serves many endpoints.
//!
//! In: endpoints with a timer that the thread does not know. Out: a wake-up of the thread, and
//! their list. Callers: the application's calls, under the lock of the endpoint; the thread. No
//! call is lost, because the thread arms the waker before it takes the list. Bound: one entry an
//! endpoint.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::Instant;

use super::waker::Waker;
use crate::sys::errno::Error;

/// See the module.
#[derive(Debug)]
pub(crate) struct ThreadWaker {
    waker: Arc<Waker>,
    calls: Mutex<Vec<usize>>,
}

impl ThreadWaker {
    /// `waker`: of the descriptor that the thread sleeps on.
    pub(crate) fn new(waker: &Arc<Waker>) -> Self {
        Self { waker: Arc::clone(waker), calls: Mutex::default() }
    }

    /// Makes room for the calls of `endpoints`, so that no call allocates.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn reserve(&self, endpoints: usize) -> Result<(), Error> {
        self.lock().try_reserve(endpoints).map_err(|_| Error::NoMemory)
    }

    /// Has the thread drive `endpoint`, which may be `listed` already; wakes the thread if it
    /// sleeps beyond `at`.
    pub(crate) fn call(&self, endpoint: usize, at: Instant, listed: bool) {
        if !listed {
            self.lock().push(endpoint);
        }
        self.waker.wake_before(Some(at));
    }

    /// Moves the endpoints that calls have named to `into`.
    pub(crate) fn take(&self, into: &mut Vec<usize>) {
        into.append(&mut self.lock());
    }

    // The lock protects a list, which is consistent at all times.
    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_listed_and_wakes_the_thread_once_if_it_sleeps_beyond() {
        let waker = Arc::new(Waker::new().unwrap());
        let thread = ThreadWaker::new(&waker);
        let (earlier, later) = (Instant::from_nanos(10), Instant::from_nanos(20));
        let mut listed = Vec::new();
        thread.call(1, earlier, false);
        waker.arm();
        thread.take(&mut listed);
        assert_eq!(listed, [1], "calls before the waker is armed are found in the list");
        waker.sleep_until(Some(later));
        thread.call(2, later, false);
        assert!(!waker.drain(), "the thread wakes by itself");
        thread.call(2, earlier, true);
        thread.call(3, earlier, false);
        assert!(waker.disarm(), "the thread was woken");
        thread.take(&mut listed);
        assert_eq!(listed, [1, 2, 3]);
    }
}
