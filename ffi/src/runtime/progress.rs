// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress of a runtime for callers that read no completions, and the wake-ups at the end of each
//! call.
//!
//! In: the caller's waker. Out: moved packets; whether and when there is more to do. Called by
//! queues that poll, by the progress thread, and before a sleep. Bound: one [`Budget::PROGRESS`] a
//! call.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, TryLockError};

use ofi_xdp_core::{Budget, Instant};

use super::side::Side;
use super::{Runtime, State};
use crate::sys::abi;
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::limits::{ANNOUNCED_IDLE_LIMIT, APP_IDLE_LIMIT};
use crate::wait::waker::Waker;

impl Runtime {
    /// The latest time of the next progress call, unless a packet arrives earlier.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due()
    }

    /// Makes progress; whether a completion of `sides` can be read.
    pub(crate) fn poll_sides(&self, sides: &[Side], awake: Option<&Arc<Waker>>) -> bool {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        self.wake(&state, awake);
        state.engine.with(|engine| sides.iter().any(|&side| side.is_ready(engine)))
    }

    /// Whether the application makes progress itself: a recent call of it did, or a thread of it
    /// sleeps in a wait call.
    pub(crate) fn is_app_driven(&self) -> bool {
        if self.endpoint.wakers.application_sleeps() {
            return true;
        }
        let limit = if self.endpoint.wakers.application_announced() {
            ANNOUNCED_IDLE_LIMIT
        } else {
            APP_IDLE_LIMIT
        };
        // A locked runtime is being driven. The test must not delay the driver.
        match self.state.try_lock() {
            Ok(state) => now().since(state.last_app_progress) < limit,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => false,
        }
    }

    /// Makes progress for the progress thread; returns the latest time of the next call.
    pub(crate) fn drive_from_thread(&self) -> Option<Instant> {
        let mut state = self.lock();
        let last_app_progress = state.last_app_progress;
        state.port.arm();
        self.drive(&mut state, now(), Budget::PROGRESS);
        state.last_app_progress = last_app_progress;
        self.wake(&state, Some(&self.endpoint.wakers.thread));
        state.due()
    }

    /// Lets packets wake sleepers on the descriptors, those that have arrived already included.
    /// Called before a sleep, after its waker is armed.
    pub(crate) fn arm_port(&self) {
        self.lock().port.arm();
    }

    /// Calls `each` with every descriptor that becomes readable when a packet arrives.
    ///
    /// # Errors
    /// The first error that `each` returns.
    pub(crate) fn descriptors(
        &self,
        each: impl FnMut(BorrowedFd<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        abi::descriptors(&self.lock().port).try_for_each(each)
    }

    /// Wakes the sleepers that the call concerns. `awake`, the caller's waker, is left out.
    #[inline]
    pub(super) fn wake(&self, state: &State, awake: Option<&Arc<Waker>>) {
        if self.endpoint.wakers.has_possible_sleepers() {
            let due = state.due();
            state.engine.with(|engine| self.endpoint.wakers.wake(engine, due, awake));
        }
    }

    /// Wakes sleepers that missed an event. Without sleepers, disarms the port: each packet would
    /// pay for a wake-up. Called by the progress thread while it monitors. A locked runtime is
    /// skipped.
    pub(crate) fn recheck_sleepers(&self) {
        let Ok(mut state) = self.state.try_lock() else { return };
        // The lock orders this with `arm_port`: a later sleeper arms the port later.
        if self.endpoint.wakers.has_possible_sleepers() {
            let due = state.due();
            state.engine.with(|engine| self.endpoint.wakers.rewake(engine, due));
        } else {
            state.port.disarm();
        }
    }
}
