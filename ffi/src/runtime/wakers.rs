// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wakers of an endpoint: its queues, its counters, the progress thread.
//!
//! In: the engine's completions, and the time of its next timer. Out: wake-ups of the sleepers that
//! they concern. Called by the runtime at the end of each call, under its lock (`wait::waker` has
//! the order). Bound: two queues, the bound counters. Without sleepers, one load each.

use std::sync::{Arc, Mutex, PoisonError};

use ofi_xdp_core::{Engine, Instant, OpCounters};

use super::side::Side;
use crate::wait::thread_waker::ThreadWaker;
use crate::wait::waker::Waker;

/// See the module.
#[derive(Debug)]
pub(crate) struct Wakers {
    /// Readers of the transmit queue, if they may wait.
    pub(crate) transmit: Option<Arc<Waker>>,
    /// Readers of the receive queue, if they may wait.
    pub(crate) receive: Option<Arc<Waker>>,
    /// Readers of the bound counters, if they may wait.
    pub(crate) counters: Vec<Arc<Waker>>,
    /// The counters at the last wake-up of those readers. Locked under the runtime's lock only.
    pub(crate) last_counters: Mutex<OpCounters>,
    /// The domain's progress thread.
    pub(crate) thread: Arc<ThreadWaker>,
}

impl Wakers {
    /// The wakers of the application's threads.
    fn of_application(&self) -> impl Iterator<Item = &Arc<Waker>> {
        [&self.transmit, &self.receive].into_iter().flatten().chain(&self.counters)
    }

    /// Whether a thread of the application sleeps in a wait call. It makes progress when it wakes.
    pub(super) fn application_sleeps(&self) -> bool {
        self.of_application().any(|waker| waker.has_armed())
    }

    /// Whether the application has announced a sleep on a descriptor.
    pub(super) fn application_announced(&self) -> bool {
        self.of_application().any(|waker| waker.is_wait_announced())
    }

    /// Wakes sleepers in wait calls that have something to do. They may have missed a wake-up:
    /// several sleep on one descriptor, and the first to wake makes it unreadable.
    pub(super) fn rewake(&self, engine: &Engine<'_>, due: Option<Instant>) {
        let Self { transmit, receive, counters, .. } = self;
        counters.iter().filter(|waker| waker.has_armed()).for_each(|waker| waker.wake());
        for (waker, side) in [(transmit, Side::Transmit), (receive, Side::Receive)] {
            if let Some(waker) = waker.as_ref().filter(|waker| waker.has_armed()) {
                if side.is_ready(engine) {
                    waker.wake();
                } else {
                    waker.wake_before(due);
                }
            }
        }
    }

    /// Whether a thread of the application sleeps, or may sleep on an exported descriptor.
    #[inline]
    pub(super) fn has_possible_sleepers(&self) -> bool {
        let may_sleep = |waker: &Arc<Waker>| waker.has_sleepers() || waker.is_exported();
        self.of_application().any(may_sleep)
    }

    /// Whether the application has an exported descriptor.
    pub(super) fn any_exported(&self) -> bool {
        self.of_application().any(|waker| waker.is_exported())
    }

    /// Wakes sleepers, and possible sleepers, that have something to do or sleep beyond `due`. The
    /// waker `awake` is left out: its thread made this call.
    #[cold]
    pub(super) fn wake(
        &self,
        engine: &Engine<'_>,
        due: Option<Instant>,
        awake: Option<&Arc<Waker>>,
    ) {
        let Self { transmit, receive, counters, last_counters, .. } = self;
        let sleeps = |waker: &&Arc<Waker>| {
            (waker.has_sleepers() || waker.is_exported())
                && !awake.is_some_and(|awake| Arc::ptr_eq(awake, waker))
        };
        // All sleepers on counters are woken if any operation has ended: each compares for itself.
        // Without that condition two sleepers would wake each other forever.
        let ended = engine.op_counters();
        let before = std::mem::replace(
            &mut *last_counters.lock().unwrap_or_else(PoisonError::into_inner),
            *ended,
        );
        for waker in counters.iter().filter(sleeps) {
            if before == *ended {
                waker.wake_before(due);
            } else {
                waker.signal_fd();
            }
        }
        for (waker, side) in [(transmit, Side::Transmit), (receive, Side::Receive)] {
            if let Some(waker) = waker.as_ref().filter(sleeps) {
                if side.is_ready(engine) {
                    waker.signal_fd();
                } else {
                    waker.wake_before(due);
                }
            }
        }
    }
}
