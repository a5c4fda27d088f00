// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for completions: in `fi_cq_sread`, or on the queue's descriptor after `fi_trywait`.
//!
//! In: an array and a time, or the question whether one may wait. Out: completions, an error, or
//! nothing in time. Who waits polls for `FI_XDP_SPIN`, then sleeps; `waker` says what orders that.
//! Bound: the time that the caller gives.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ofi_xdp_core::Instant;

use super::{Cq, earlier};
use crate::errno::Error;
use crate::param;
use crate::progress::now;
use crate::shim::cq::Entries;
use crate::wait::Wait;

impl Cq {
    /// `fi_trywait`: prepares the descriptor to be waited on.
    ///
    /// # Errors
    /// [`Error::Again`] if there is something to read first; [`Error::NotSupported`] if nobody may
    /// wait here.
    pub(crate) fn try_wait(&self) -> Result<(), Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        let state = self.lock();
        wait.end_wait();
        wait.waker().announce();
        self.watch(&state);
        if self.look(&state) {
            wait.end_wait();
            return Err(Error::Again);
        }
        let due = state.due();
        wait.waker().sleep_until(due);
        wait.set_timer(due)
    }

    /// Makes `outer` wait for this queue's descriptor too.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::NotSupported`] if nobody may wait here.
    pub(crate) fn join(&self, outer: &Wait) -> Result<(), Error> {
        self.wait.as_ref().ok_or(Error::NotSupported)?.join(outer)
    }

    /// `fi_cq_sread`.
    ///
    /// # Errors
    /// As of a read; [`Error::Interrupted`]; [`Error::NotSupported`] if nobody may block here.
    pub(super) fn wait_and_read(
        &self,
        entries: &mut Entries,
        timeout: Option<Duration>,
    ) -> Result<usize, Error> {
        let wait = self.wait.as_ref().filter(|_| self.object.may_block());
        let wait = wait.ok_or(Error::NotSupported)?;
        let mut time = now();
        let deadline = timeout.map(|timeout| time.after(timeout));
        let spin_until = time.after(param::spin());
        // bound: FI_XDP_SPIN, the timeout, a completion, a signal
        while time < spin_until || deadline.is_some_and(|deadline| time >= deadline) {
            if let Some(result) = self.read_until(entries, deadline, time) {
                self.share(entries);
                return result;
            }
            std::hint::spin_loop();
            time = now();
        }
        self.read_asleep(wait, entries, deadline)
    }

    /// As [`Self::read_once`], unless nothing is there and there is time left, at `time`.
    fn read_until(
        &self,
        entries: &mut Entries,
        deadline: Option<Instant>,
        time: Instant,
    ) -> Option<Result<usize, Error>> {
        let result = self.read_once(entries);
        let signaled = self.signaled.swap(false, Ordering::Relaxed);
        let late = deadline.is_some_and(|deadline| time >= deadline);
        (result != Err(Error::Again) || signaled || late).then_some(result)
    }

    /// Sleeps until there is something to read.
    fn read_asleep(
        &self,
        wait: &Wait,
        entries: &mut Entries,
        deadline: Option<Instant>,
    ) -> Result<usize, Error> {
        let waker = wait.waker();
        let mut woken = false;
        // bound: the timeout, a completion, a signal
        let result = loop {
            // Armed first, then one more look: see `waker`.
            waker.arm();
            self.watch(&self.lock());
            let time = now();
            if let Some(result) = self.read_until(entries, deadline, time) {
                woken |= waker.disarm();
                break result;
            }
            let until = earlier(deadline, self.lock().due());
            waker.sleep_until(until);
            let slept = wait.sleep(until.map(|until| until.since(time)));
            waker.disarm();
            woken = true;
            if let Err(error) = slept {
                break Err(error);
            }
        };
        if woken {
            // What woke this one may have been for others, too: they look for themselves.
            waker.wake();
        } else {
            self.share(entries);
        }
        result
    }
}
