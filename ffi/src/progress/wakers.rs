// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who may sleep until something happens on an endpoint, and waking them.
//!
//! In: what the engine has finished and when it is due next. Out: wake-ups of those whom that
//! concerns. The endpoint calls at the end of each call that drives it, under its lock (`waker`
//! says what that orders). Bounds: two queues, the counters that were bound, one thread; while
//! nobody sleeps, a load for each.

use std::sync::{Arc, Mutex, PoisonError};

use ofi_xdp_core::{Engine, Instant, Tally};

use super::{ActiveEndpoint, State, is_ready};
use crate::ops::Side;
use crate::waker::Waker;

/// See the module.
#[derive(Debug)]
pub(crate) struct Wakers {
    /// Readers of the queue of its sends, if they may wait.
    pub(crate) transmit: Option<Arc<Waker>>,
    /// Readers of the queue of its receives, if they may wait.
    pub(crate) receive: Option<Arc<Waker>>,
    /// Readers of counters of its operations, if they may wait.
    pub(crate) counters: Vec<Arc<Waker>>,
    /// What had ended when those were woken last. Locked under the endpoint's lock alone.
    pub(crate) told: Mutex<Tally>,
    /// The domain's progress thread.
    pub(crate) thread: Arc<Waker>,
}

impl Wakers {
    /// The application's own.
    fn of_application(&self) -> impl Iterator<Item = &Arc<Waker>> {
        [&self.transmit, &self.receive].into_iter().flatten().chain(&self.counters)
    }

    /// Whether a thread of the application sleeps in a call of ours: it drives what comes.
    pub(super) fn application_sleeps(&self) -> bool {
        self.of_application().any(|waker| waker.has_armed())
    }

    /// Whether the application has said that it will sleep on a descriptor.
    pub(super) fn application_announced(&self) -> bool {
        self.of_application().any(|waker| waker.is_announced())
    }

    /// Wakes threads that sleep in calls of ours where there is something for them, whoever was to
    /// have woken them: several may sleep on one descriptor, and the first that wakes makes it
    /// unreadable again.
    pub(super) fn remind(&self, engine: &Engine<'_>, due: Option<Instant>) {
        let Self { transmit, receive, counters, .. } = self;
        counters.iter().filter(|waker| waker.has_armed()).for_each(|waker| waker.wake());
        for (waker, side) in [(transmit, Side::Transmit), (receive, Side::Receive)] {
            if let Some(waker) = waker.as_ref().filter(|waker| waker.has_armed()) {
                if is_ready(engine, side) {
                    waker.wake();
                } else {
                    waker.wake_before(due);
                }
            }
        }
    }

    /// Whether anybody sleeps, or may sleep without a word.
    #[inline]
    pub(super) fn anybody_may_sleep(&self) -> bool {
        let may_sleep = |waker: &Arc<Waker>| waker.has_sleepers() || waker.is_lent();
        self.thread.has_sleepers() || self.of_application().any(may_sleep)
    }

    /// Whether the application may sleep without a word.
    pub(super) fn any_lent(&self) -> bool {
        self.of_application().any(|waker| waker.is_lent())
    }

    /// Wakes whoever sleeps for what there is now, or may sleep, or sleeps beyond `due`; except for
    /// the one who made the call (`awake`), who sees it all the same.
    #[cold]
    pub(super) fn wake(
        &self,
        engine: &Engine<'_>,
        due: Option<Instant>,
        awake: Option<&Arc<Waker>>,
    ) {
        let Self { transmit, receive, counters, told, thread } = self;
        let sleeps = |waker: &&Arc<Waker>| {
            (waker.has_sleepers() || waker.is_lent())
                && !awake.is_some_and(|awake| Arc::ptr_eq(awake, waker))
        };
        if sleeps(&thread) {
            thread.wake_before(due);
        }
        // Which of them counts what has ended is not compared: whoever sleeps looks. But that
        // something has: two that each wake the other by looking would never sleep.
        let ended = engine.tally();
        let before =
            std::mem::replace(&mut *told.lock().unwrap_or_else(PoisonError::into_inner), *ended);
        for waker in counters.iter().filter(sleeps) {
            if before == *ended {
                waker.wake_before(due);
            } else {
                waker.rouse();
            }
        }
        for (waker, side) in [(transmit, Side::Transmit), (receive, Side::Receive)] {
            if let Some(waker) = waker.as_ref().filter(sleeps) {
                if is_ready(engine, side) {
                    waker.rouse();
                } else {
                    waker.wake_before(due);
                }
            }
        }
    }
}

impl ActiveEndpoint {
    /// Wakes whom it concerns, at the end of a call; not `awake`, who made it.
    #[inline]
    pub(super) fn wake(&self, state: &State, awake: Option<&Arc<Waker>>) {
        if self.wakers.anybody_may_sleep() {
            let due = state.due();
            state.engine.with_dependent(|_, engine| self.wakers.wake(engine, due, awake));
        }
    }

    /// Has packets wake nobody, if nobody sleeps: each would pay for it. Threads that sleep are
    /// reminded of what is there for them. For the progress thread, when it does not stand in; an
    /// endpoint that is being driven is left for another time.
    pub(crate) fn review(&self) {
        let Ok(mut state) = self.state.try_lock() else { return };
        // Under the lock, as `watch`: who arms before this is seen, who arms later watches later.
        if self.wakers.anybody_may_sleep() {
            let due = state.due();
            state.engine.with_dependent(|_, engine| self.wakers.remind(engine, due));
        } else {
            state.port.unwatch();
        }
    }
}
