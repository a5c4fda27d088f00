// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for completions: in `fi_cq_sread`, or on the queue's descriptor after `fi_trywait`.
//!
//! In: room for completions and a timeout, or a question from `fi_trywait`. Out: completions, an
//! error, or the end of the timeout. A waiting thread polls for `FI_XDP_SPIN`, then sleeps (`waker`
//! has the order of the two). Bound: the timeout.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ofi_xdp_core::Instant;

use super::{Cq, Entry};
use crate::objects::wait_set::WaitMember;
use crate::sys::abi;
use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::sys::param;
use crate::wait::wait_fd::Wait;

impl WaitMember for Cq {
    fn join(&self, outer: &Wait) -> Result<(), Error> {
        self.wait.as_ref().ok_or(Error::NotSupported)?.join(outer)
    }

    fn leave(&self, outer: &Wait) {
        self.wait.as_ref().inspect(|wait| wait.leave(outer));
    }

    fn try_wait(&self) -> Result<(), Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        let mut state = self.lock();
        wait.announce_wait();
        wait.waker().clear_signal();
        self.watch(&state, false);
        let mut ready = self.poll_members(&state);
        if !ready && self.domain.work().is_busy() {
            // The lock of the work comes before that of a queue.
            drop(state);
            self.domain.work().run();
            state = self.lock();
            ready = self.poll_members(&state);
        }
        if ready {
            wait.end_wait();
            return Err(Error::Again);
        }
        self.watch(&state, true);
        let due = state.due();
        wait.waker().sleep_until(due);
        wait.set_timer(due)
    }

    fn cancel_wait(&self) {
        self.wait.as_ref().inspect(|wait| wait.cancel_wait());
    }
}

impl Cq {
    /// `fi_cq_sread`.
    ///
    /// # Errors
    /// The errors of [`Self::read`]; [`Error::Interrupted`]; [`Error::NotSupported`] without a wait
    /// object of its own.
    pub(crate) fn read_wait(
        &self,
        room: usize,
        timeout: Option<Duration>,
        mut push: impl FnMut(abi::fi_cq_format, &Entry),
    ) -> Result<usize, Error> {
        let wait = self.wait.as_ref().filter(|_| self.object.may_block());
        let wait = wait.ok_or(Error::NotSupported)?;
        let mut time = now();
        let deadline = timeout.map(|timeout| time.after(timeout));
        let spin_until = time.after(param::spin());
        // bound: FI_XDP_SPIN, the timeout, a completion, a signal
        while time < spin_until || deadline.is_some_and(|deadline| time >= deadline) {
            if let Some(result) = self.read_until(room, &mut push, deadline, time) {
                self.share(room, result);
                return result;
            }
            std::hint::spin_loop();
            time = now();
        }
        self.read_asleep(wait, room, &mut push, deadline)
    }

    /// Reads once; `None` if there is nothing to return and time is left, at `time`.
    fn read_until(
        &self,
        room: usize,
        push: &mut impl FnMut(abi::fi_cq_format, &Entry),
        deadline: Option<Instant>,
        time: Instant,
    ) -> Option<Result<usize, Error>> {
        let result = self.read_once(room, push);
        // Ordered with `signal` and the begin of the sleep.
        let signaled = self.signaled.swap(false, Ordering::AcqRel);
        let late = deadline.is_some_and(|deadline| time >= deadline);
        (result != Err(Error::Again) || signaled || late).then_some(result)
    }

    /// Sleeps until there is a completion to read.
    fn read_asleep(
        &self,
        wait: &Wait,
        room: usize,
        push: &mut impl FnMut(abi::fi_cq_format, &Entry),
        deadline: Option<Instant>,
    ) -> Result<usize, Error> {
        let waker = wait.waker();
        let mut woken = false;
        // bound: the timeout, a completion, a signal
        let result = loop {
            // Armed first, then one more poll: see `waker`.
            waker.arm();
            self.watch(&self.lock(), woken);
            // It may have been meant for other sleepers too, like any wake-up.
            woken |= waker.take_signal();
            let time = now();
            if let Some(result) = self.read_until(room, push, deadline, time) {
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
        self.end_sleep(&self.lock());
        if woken {
            // The wake-up may have been meant for other sleepers too, which poll for themselves.
            waker.wake();
        } else {
            self.share(room, result);
        }
        result
    }
}
