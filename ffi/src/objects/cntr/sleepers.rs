// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that sleep in `fi_cntr_wait` on one counter.
//!
//! In: a thread that would sleep; the values that calls find. Out: one thread that leads, and
//! sleeps on the descriptor; the others, which follow, sleep until new values are found or no
//! thread leads. Each waits for a value of its own. If several slept on the descriptor, the first
//! to wake would make it unreadable for the thread that has its value. For the same reason no
//! thread clears the signal of the descriptor while another one may need it (`announced`). A thread
//! that would sleep looks again after [`RECHECK`](super::RECHECK) then. Bound: the application's
//! threads.

use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};

use ofi_xdp_core::Instant;

use super::{Caller, Cntr, CounterValues, State};
use crate::sys::clock::now;
use crate::wait::waker::Waker;

/// The lead of the sleepers, until it is dropped.
#[derive(Debug)]
pub(super) struct Lead<'a>(&'a Cntr);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.sleepers.is_led = false;
        self.0.wake_followers(&state);
    }
}

impl Cntr {
    /// The waker of this counter if it need not learn of the progress that `caller` makes.
    pub(super) fn awake(&self, caller: Caller) -> Option<&Arc<Waker>> {
        // A timer that a follower sets is the leader's.
        self.waker().filter(|_| caller != Caller::Follower)
    }

    /// The lead, unless another thread has it.
    pub(super) fn lead(&self) -> Option<Lead<'_>> {
        let was_led = mem::replace(&mut self.lock().sleepers.is_led, true);
        (!was_led).then(|| Lead(self))
    }

    /// Sleeps until other values than `known` are found, no thread leads, or until `deadline`.
    pub(super) fn follow(&self, known: CounterValues, deadline: Option<Instant>) {
        let state = self.lock();
        // The caller looks at the values before it follows again, whatever ended the sleep.
        if state.sleepers.is_led && state.found == known {
            drop(self.pause(state, deadline));
        }
    }

    /// Sleeps until [`Self::wake_followers`], or until `deadline`.
    pub(super) fn pause<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
    ) -> MutexGuard<'a, State> {
        state.sleepers.following += 1;
        let mut state = match deadline.map(|deadline| deadline.since(now())) {
            None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(left) => {
                let slept = self.changed.wait_timeout(state, left);
                slept.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.sleepers.following -= 1;
        state
    }

    /// Makes the descriptor unreadable for `caller`, which polls next, unless another thread may
    /// need the signal: the leader, or one that announced a sleep and is not back. Returns whether
    /// the caller can sleep.
    pub(super) fn clear_signal(&self, state: &mut State, caller: Caller) -> bool {
        let Some(waker) = self.waker().filter(|waker| waker.is_signaled()) else { return true };
        let is_led = caller != Caller::Leader && waker.has_armed();
        if is_led || state.announcers.keep_signal(now) {
            return false;
        }
        waker.take_signal();
        self.wake_followers(state);
        true
    }

    /// The calling thread is back from a sleep on the descriptor, if it was away.
    pub(super) fn come_back(&self, state: &mut State) {
        if state.announcers.come_back() {
            self.wake_followers(state);
        }
    }

    /// Notes the values that `caller` has found; new ones wake all other sleepers.
    pub(super) fn note(&self, state: &mut State, values: CounterValues, caller: Caller) {
        if mem::replace(&mut state.found, values) == values {
            return;
        }
        self.wake_followers(state);
        if let Some(waker) = self.waker() {
            match caller {
                Caller::Leader => waker.wake_others(),
                Caller::Follower | Caller::Reader => waker.wake(),
            }
        }
    }

    fn wake_followers(&self, state: &State) {
        if state.sleepers.following > 0 {
            self.changed.notify_all();
        }
    }
}
