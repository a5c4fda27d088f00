// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting for a counter: in `fi_cntr_wait`, or on its descriptor after `fi_trywait`.
//!
//! In: a threshold and a timeout, or a question from `fi_trywait`. Out: success at the threshold,
//! an error, or the end of the timeout. A waiting thread polls for `FI_XDP_SPIN`, then sleeps
//! (`waker` has the order of the two, `sleepers` the case of several threads). Bound: the timeout.

use std::time::Duration;

use ofi_xdp_core::Instant;

use super::sleepers::Lead;
use super::{Caller, Cntr, CounterValues, RECHECK};
use crate::objects::wait_set::{WaitMember, WaitObject};
use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::sys::param;
use crate::wait::spin_yield;
use crate::wait::wait_fd::Wait;

/// The end of a `fi_cntr_wait`.
#[derive(Debug)]
struct Goal {
    threshold: u64,
    /// The number of errors at its start.
    failed: u64,
    deadline: Option<Instant>,
}

impl Goal {
    /// The result of the wait if it ends at `time` with these values.
    fn outcome(&self, values: CounterValues, time: Instant) -> Option<Result<(), Error>> {
        match self.deadline {
            _ if values.done >= self.threshold => Some(Ok(())),
            _ if values.failed != self.failed => Some(Err(Error::Available)),
            Some(deadline) if time >= deadline => Some(Err(Error::TimedOut)),
            _ => None,
        }
    }
}

impl WaitMember for Cntr {
    fn join(&self, outer: &Wait) -> Result<(), Error> {
        self.wait.as_ref().ok_or(Error::NotSupported)?.join(outer)
    }

    fn leave(&self, outer: &Wait) {
        self.wait.as_ref().inspect(|wait| wait.leave(outer));
    }

    fn try_wait(&self) -> Result<(), Error> {
        let wait = self.wait.as_ref().ok_or(Error::NotSupported)?;
        let mut state = self.lock();
        self.come_back(&mut state);
        if !self.clear_signal(&mut state, Caller::Reader) {
            state = self.pause(state, Some(now().after(RECHECK)));
            // If it stays on, the descriptor is readable.
            self.clear_signal(&mut state, Caller::Reader);
        }
        state.announcers.announce()?;
        wait.announce_wait();
        drop(state);
        self.watch(false);
        let values = self.progress(Caller::Reader);
        if !self.may_sleep(values) {
            self.cancel_wait();
            return Err(Error::Again);
        }
        self.watch(true);
        let due = self.due();
        wait.waker().sleep_until(due);
        wait.set_timer(due)
    }

    fn cancel_wait(&self) {
        self.wait.as_ref().inspect(|wait| wait.cancel_wait());
        self.come_back(&mut self.lock());
    }
}

impl Cntr {
    /// Whether the calling thread, which has announced a sleep, may sleep on these values.
    fn may_sleep(&self, values: CounterValues) -> bool {
        let mut state = self.lock();
        let read = state.read;
        state.announcers.may_sleep(values, read)
    }

    /// `fi_cntr_wait`.
    ///
    /// # Errors
    /// [`Error::Available`] when an operation fails meanwhile; [`Error::TimedOut`],
    /// [`Error::Interrupted`]; [`Error::NotSupported`] for a member of a wait set.
    pub(crate) fn wait(&self, threshold: u64, timeout: Option<Duration>) -> Result<(), Error> {
        if matches!(self.object, WaitObject::Set(_)) {
            // A member of a wait set has no blocking call (fi_cntr(3)).
            return Err(Error::NotSupported);
        }
        self.cancel_wait();
        let start = now();
        let deadline = timeout.map(|timeout| start.after(timeout));
        let spin_until = start.after(param::spin());
        let goal = Goal { threshold, failed: self.values(Caller::Reader).failed, deadline };
        // bound: FI_XDP_SPIN, the timeout, the threshold, an error
        let wait = loop {
            let time = now();
            if let Some(outcome) = goal.outcome(self.progress(Caller::Reader), time) {
                return outcome;
            }
            if let Some(wait) = self.wait.as_ref().filter(|_| time >= spin_until) {
                break wait;
            }
            if self.wait.is_none() {
                spin_yield::found_nothing();
            }
            std::hint::spin_loop();
        };
        let outcome = self.sleep_for(wait, &goal);
        self.lock().members.iter().for_each(|member| member.endpoint.end_sleep());
        // The wake-up may have been meant for other sleepers too, which poll for themselves.
        wait.waker().wake();
        outcome
    }

    /// Sleeps until the goal is reached. A signal ends the sleep of the leader.
    fn sleep_for(&self, wait: &Wait, goal: &Goal) -> Result<(), Error> {
        // bound: the timeout, the threshold, an error
        loop {
            if let Some(lead) = self.lead() {
                return self.sleep_in_lead(&lead, wait, goal);
            }
            let values = self.progress(Caller::Follower);
            if let Some(outcome) = goal.outcome(values, now()) {
                return outcome;
            }
            self.follow(values, goal.deadline);
        }
    }

    fn sleep_in_lead(&self, _lead: &Lead<'_>, wait: &Wait, goal: &Goal) -> Result<(), Error> {
        let mut slept = false;
        // bound: the timeout, the threshold, an error
        loop {
            // Armed first, then one more poll: see `waker`.
            wait.waker().arm();
            let is_clear = self.clear_signal(&mut self.lock(), Caller::Leader);
            self.watch(slept);
            let time = now();
            let values = self.progress(Caller::Leader);
            if let Some(outcome) = goal.outcome(values, time) {
                wait.waker().disarm();
                return outcome;
            }
            let outcome = if is_clear {
                let until = earlier(goal.deadline, self.due());
                wait.waker().sleep_until(until);
                wait.sleep(until.map(|until| until.since(time)))
            } else {
                self.follow(values, earlier(goal.deadline, Some(time.after(RECHECK))));
                Ok(())
            };
            wait.waker().disarm();
            outcome?;
            slept = is_clear;
        }
    }

    /// Latest time of the next progress call, unless a packet arrives before.
    fn due(&self) -> Option<Instant> {
        let state = self.lock();
        let own = state.members.iter().filter_map(|member| member.endpoint.due()).min();
        if state.regions.is_empty() && !self.domain.work().is_busy() {
            return own;
        }
        let mut others = Some(now().after(RECHECK));
        // The closure returns no error.
        let _ = self.domain.registry().visit(|endpoint| {
            others = earlier(others, endpoint.due());
            Ok(())
        });
        earlier(own, others)
    }

    /// Prepares the endpoints for a sleep on the descriptor. `slept`: the next poll follows one.
    pub(super) fn watch(&self, slept: bool) {
        let state = self.lock();
        state.members.iter().for_each(|member| member.endpoint.arm_port(slept));
        if !state.regions.is_empty() {
            // The closure returns no error.
            let _ = self.domain.registry().visit(|endpoint| {
                endpoint.arm_port(slept);
                Ok(())
            });
        }
    }
}
