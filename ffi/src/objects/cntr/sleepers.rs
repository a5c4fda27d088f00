// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads that sleep in `fi_cntr_wait` on one counter.
//!
//! In: a thread that would sleep; the values that calls find. Out: one thread that leads, and
//! sleeps on the descriptor; the others, which follow, sleep until new values are found or no
//! thread leads. Each waits for a value of its own. If several slept on the descriptor, the first
//! to wake would make it unreadable for the thread that has its value. Bound: the application's
//! threads.

use std::mem;
use std::sync::{Arc, PoisonError};

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
        let mut state = self.lock();
        // The caller looks at the values before it follows again, whatever ended the sleep.
        if state.sleepers.is_led && state.found == known {
            state.sleepers.following += 1;
            let mut state = match deadline.map(|deadline| deadline.since(now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    let slept = self.changed.wait_timeout(state, left);
                    slept.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleepers.following -= 1;
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
