// SPDX-License-Identifier: MIT OR Apache-2.0
//! Progress of a runtime for callers that read no completions, and the wake-ups at the end of each
//! call.
//!
//! In: the caller's waker. Out: moved packets; whether and when there is more to do. Called by
//! queues that poll, by the progress thread, and before a sleep. Bound: one [`Budget::PROGRESS`] a
//! call, or eight after a pause of the application.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags};
use ofi_xdp_core::{Budget, Instant, Progress};

use super::app_polls::AppPolls;
use super::side::CompletionSource;
use super::{Runtime, State};
use crate::sys::abi;
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::limits::{ANNOUNCED_IDLE_LIMIT, APP_IDLE_LIMIT, CONTENDED_IDLE_LIMIT};
use crate::wait::waker::{Waker, sleep};

/// A runtime as the progress thread finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    /// The application's polls.
    pub(crate) polls: AppPolls,
    /// A thread of the application sleeps in a wait call, and makes progress when it wakes.
    pub(crate) sleeps: bool,
    /// The application has announced a sleep on a descriptor.
    pub(crate) announced: bool,
    /// With an announced sleep: packets or timers have waited for [`ANNOUNCED_IDLE_LIMIT`].
    pub(crate) overdue: bool,
    /// Packets do not wake the thread: the application posted, or slept in a wait call, since the
    /// thread drove.
    pub(crate) suspended: bool,
    /// Packets both ways so far.
    pub(crate) packets: u64,
}

impl Observation {
    /// Whether the application polls without pause at `now`.
    pub(crate) fn is_polling(&self, now: Instant) -> bool {
        self.polls.is_polling(now)
    }

    /// Whether the application has stopped polling a moment before `now`, and not for a sleep in a
    /// wait call.
    pub(crate) fn has_stopped_polling(&self, now: Instant) -> bool {
        let idle = now.since(self.polls.last);
        (APP_IDLE_LIMIT..CONTENDED_IDLE_LIMIT).contains(&idle) && !self.sleeps && !self.announced
    }
}

/// The result of a turn of the progress thread, and the time of the next turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadTurn {
    /// Packets moved.
    pub(crate) moved: bool,
    /// The latest time of the next turn, unless a packet arrives earlier.
    pub(crate) next: Option<Instant>,
}

impl Runtime {
    /// The name of the runtime for the progress thread.
    pub(crate) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The latest time of the next progress call, unless a packet arrives earlier.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.lock().due()
    }

    /// Makes progress; whether a completion of `sources` can be read.
    pub(crate) fn poll_sources(
        &self,
        sources: &[CompletionSource],
        awake: Option<&Arc<Waker>>,
    ) -> bool {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        self.wake(&mut state, awake);
        state.sort_completions();
        let sorted = state.wakers.sorted;
        state.engine.with(|engine| sources.iter().any(|source| source.is_ready(engine, sorted)))
    }

    /// Polls at the runtime for the progress thread; wakes sleepers that missed an event. With
    /// `may_wait` waits for the lock if packets wake the thread. Otherwise `None` while it is
    /// locked: then it is being driven, and the driver must not wait.
    pub(crate) fn observe(&self, now: Instant, may_wait: bool) -> Option<Observation> {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) if may_wait && !self.is_suspended() => {
                self.lock_as_thread()
            }
            Err(TryLockError::WouldBlock) => return None,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let sleeps = state.wakers.application_sleeps();
        let announced = state.wakers.application_announced();
        if sleeps {
            let due = state.due();
            state.sort_completions();
            state.engine.with(|engine| state.wakers.rewake(engine, due));
        }
        let packets = state.engine.with(|engine| {
            let stats = engine.stats();
            stats.packets_received.wrapping_add(stats.packets_sent)
        });
        let polls = state.polls;
        let late = announced && now.since(polls.last) >= ANNOUNCED_IDLE_LIMIT;
        let overdue = late && (state.due().is_some_and(|due| due <= now) || state.is_readable());
        let suspended = self.is_suspended();
        Some(Observation { polls, sleeps, announced, overdue, suspended, packets })
    }

    /// Makes progress for the progress thread, which has taken the runtime over. `woken`: after a
    /// sleep; then all sockets are polled.
    pub(crate) fn drive_from_thread(&self, woken: bool) -> ThreadTurn {
        let mut state = self.lock_as_thread();
        if woken {
            state.port.arm();
            state.slept = true;
        }
        let progress = self.make_progress(&mut state, now(), Budget::PROGRESS);
        Self::wake_sleepers(&mut state, None);
        let next = state.due();
        self.end_turn(&mut state, next);
        ThreadTurn { moved: progress != Progress::default(), next }
    }

    /// Ends the progress thread's part: the application drives.
    pub(crate) fn hand_back(&self) {
        self.end_turns(&mut self.lock_as_thread());
    }

    /// Without sleepers, disarms the port: each packet would pay for a wake-up. Called by the
    /// progress thread while it monitors. A locked runtime is skipped.
    pub(crate) fn disarm_unused_port(&self) {
        let Ok(mut state) = self.state.try_lock() else { return };
        // The lock orders this with `arm_port`: a later sleeper arms the port later.
        if !state.wakers.has_possible_sleepers() {
            state.port.disarm();
        }
    }

    /// Lets packets wake sleepers on the descriptors, also those that have arrived already. They do
    /// not wake the progress thread then. Called before a sleep, after its waker is armed.
    /// `slept`: the next poll follows a sleep, so that its packets have waited for no longer than a
    /// wake-up takes.
    pub(crate) fn arm_port(&self, slept: bool) {
        let mut state = self.lock();
        state.port.arm();
        state.slept |= slept;
        self.suspend_for_sleeper(&state);
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

    /// Ends a call of the application: wakes the sleepers that it concerns, without `awake`, the
    /// caller's waker. A progress thread that has taken the runtime over has a turn at the next
    /// timer.
    #[inline]
    pub(super) fn wake(&self, state: &mut State, awake: Option<&Arc<Waker>>) {
        if state.thread_until.is_some() {
            self.set_turn(state);
        }
        Self::wake_sleepers(state, awake);
    }

    #[inline]
    fn wake_sleepers(state: &mut State, awake: Option<&Arc<Waker>>) {
        if state.wakers.has_possible_sleepers() {
            let due = state.due();
            state.sort_completions();
            let State { engine, wakers, .. } = state;
            engine.with(|engine| wakers.wake(engine, due, awake));
        }
    }
}

impl State {
    /// Whether a packet can be received, by the descriptors of an armed port.
    pub(super) fn is_readable(&self) -> bool {
        let descriptors = abi::descriptors(&self.port).map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let mut descriptors: Vec<_> = descriptors.collect();
        sleep(&mut descriptors, Some(Duration::ZERO)).is_ok()
            && descriptors.iter().any(|descriptor| descriptor.any().unwrap_or(false))
    }
}
