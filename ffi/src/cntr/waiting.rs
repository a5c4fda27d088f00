// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for a counter: in `fi_cntr_wait`, or on its descriptor after `fi_trywait`.
//!
//! In: a threshold and a time, or the question whether one may wait. Out: that it is reached, an
//! error, or nothing in time. Who waits polls for `FI_XDP_SPIN`, then sleeps; `waker` says what
//! orders that. Bound: the time that the caller gives.

use std::time::Duration;

use ofi_xdp_core::Instant;

use super::{Cntr, GLANCE};
use crate::cq::earlier;
use crate::errno::Error;
use crate::idle;
use crate::param;
use crate::progress::now;
use crate::wait::Wait;
use crate::wait_set::WaitObject;

/// What `fi_cntr_wait` waits for.
#[derive(Debug)]
struct Goal {
    threshold: u64,
    /// Errors that there were at its beginning.
    failed: u64,
    deadline: Option<Instant>,
}

impl Cntr {
    /// `fi_trywait`: prepares the descriptor to be waited on.
    ///
    /// # Errors
    /// [`Error::Again`] if the values are not those that the application has read;
    /// [`Error::NotSupported`] if nobody may wait here.
    pub(crate) fn try_wait(&self) -> Result<(), Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        wait.end_wait();
        wait.waker().announce();
        self.watch();
        self.work();
        if self.values() != self.lock().seen {
            wait.end_wait();
            return Err(Error::Again);
        }
        let due = self.due();
        wait.waker().sleep_until(due);
        wait.set_timer(due)
    }

    /// Makes `outer` wait for this counter's descriptor too.
    ///
    /// # Errors
    /// [`Error::Os`]; [`Error::NotSupported`] if nobody may wait here.
    pub(crate) fn join(&self, outer: &Wait) -> Result<(), Error> {
        self.wait.as_ref().ok_or(Error::NotSupported)?.join(outer)
    }

    /// `fi_cntr_wait`.
    ///
    /// # Errors
    /// [`Error::Available`] when an operation fails meanwhile; [`Error::TimedOut`],
    /// [`Error::Interrupted`]; [`Error::NotSupported`] of a member of a wait set.
    pub(super) fn wait_for(&self, threshold: u64, timeout: Option<Duration>) -> Result<(), Error> {
        if matches!(self.object, WaitObject::Set(_)) {
            // As of queues (fi_cntr(3)).
            return Err(Error::NotSupported);
        }
        let start = now();
        let deadline = timeout.map(|timeout| start.after(timeout));
        let spin_until = start.after(param::spin());
        let goal = Goal { threshold, failed: self.values().failed, deadline };
        // bound: FI_XDP_SPIN, the timeout, the threshold, an error
        let wait = loop {
            let time = now();
            if let Some(outcome) = self.outcome(&goal, time) {
                return outcome;
            }
            if let Some(wait) = self.wait.as_ref().filter(|_| time >= spin_until) {
                break wait;
            }
            if self.wait.is_none() {
                idle::found_nothing();
            }
            std::hint::spin_loop();
        };
        let outcome = self.sleep_for(wait, &goal);
        // What woke this one may have been for others, too: they look for themselves.
        wait.waker().wake();
        outcome
    }

    /// How a wait ends, if it does at `time`.
    fn outcome(&self, goal: &Goal, time: Instant) -> Option<Result<(), Error>> {
        self.waker().inspect(|waker| waker.settle());
        self.work();
        let values = self.values();
        match goal.deadline {
            _ if values.done >= goal.threshold => Some(Ok(())),
            _ if values.failed != goal.failed => Some(Err(Error::Available)),
            Some(deadline) if time >= deadline => Some(Err(Error::TimedOut)),
            _ => None,
        }
    }

    /// Sleeps until the values are what is waited for.
    fn sleep_for(&self, wait: &Wait, goal: &Goal) -> Result<(), Error> {
        // bound: the timeout, the threshold, an error
        loop {
            // Armed first, then one more look: see `waker`.
            wait.waker().arm();
            self.watch();
            let time = now();
            if let Some(outcome) = self.outcome(goal, time) {
                wait.waker().disarm();
                return outcome;
            }
            let until = earlier(goal.deadline, self.due());
            wait.waker().sleep_until(until);
            let slept = wait.sleep(until.map(|until| until.since(time)));
            wait.waker().disarm();
            slept?;
        }
    }

    /// When progress is due at the latest, unless a packet arrives before.
    fn due(&self) -> Option<Instant> {
        let state = self.lock();
        let own = state.members.iter().filter_map(|member| member.endpoint.due()).min();
        if state.regions.is_empty() && !self.domain.work().is_busy() {
            return own;
        }
        let mut others = Some(now().after(GLANCE));
        // Asking cannot fail.
        let _ = self.domain.registry().visit(|endpoint| {
            others = earlier(others, endpoint.due());
            Ok(())
        });
        earlier(own, others)
    }

    /// Before a sleep on the descriptor.
    pub(super) fn watch(&self) {
        let state = self.lock();
        state.members.iter().for_each(|member| member.endpoint.watch());
        if !state.regions.is_empty() {
            // Asking cannot fail.
            let _ = self.domain.registry().visit(|endpoint| {
                endpoint.watch();
                Ok(())
            });
        }
    }
}
