// SPDX-License-Identifier: MIT OR Apache-2.0
//! The turns of the progress thread that the application's calls set while it has taken the runtime
//! over.
//!
//! In: posts, polls, begins and ends of sleeps. Out: the time of the thread's next turn; whether
//! packets wake the thread. Callers: the application's calls, and the thread itself. Bound: two
//! system calls a call, none while the thread monitors.
//!
//! A packet that wakes both the application and the thread makes them wait for each other's lock.
//! So packets do not wake the thread after a post, as most applications poll then, and during a
//! sleep in a wait call. It looks again [`APP_IDLE_LIMIT`] after the post or the end of the sleep.
//! A poll that finds nothing under way any more lets packets wake the thread again, at once. Not so
//! for datagrams: whether an answer to one is under way is not known.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use ofi_xdp_core::Instant;

use super::{Runtime, State};
use crate::sys::abi;
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::sys::limits::APP_IDLE_LIMIT;

/// The time of a turn that is not set.
const NEVER: Instant = Instant::from_nanos(u64::MAX);
/// After so many sleeps without a turn the thread has one: it hands back to an application that
/// sleeps without pauses between.
const SLEEPS_MAX: u8 = 8;

impl Runtime {
    /// From now on calls set turns of the progress thread.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn connect_alarm(&self) -> Result<(), Error> {
        self.lock().wakers.alarm.connect(self.id())
    }

    /// Undoes [`Self::connect_alarm`].
    pub(crate) fn disconnect_alarm(&self) {
        self.lock().wakers.alarm.disconnect();
    }

    /// The end of a post that has sent packets at `now`: the application polls soon.
    #[cold]
    pub(super) fn expect_polls(&self, state: &mut State, now: Instant) {
        self.suspend(state);
        self.look_again(state, now);
    }

    /// The begin of a sleep in a wait call: packets wake the sleeper.
    pub(super) fn suspend_for_sleeper(&self, state: &State) {
        if state.thread_until.is_some() && state.wakers.application_sleeps() {
            self.suspend(state);
        }
    }

    /// The end of a sleep in a wait call.
    pub(crate) fn end_sleep(&self) {
        self.count_sleepers(&mut self.lock());
    }

    /// Packets wake the thread again once no thread sleeps in a wait call.
    pub(super) fn count_sleepers(&self, state: &mut State) {
        if !self.is_suspended() || state.wakers.application_sleeps() {
            return;
        }
        state.sleeps = state.sleeps.saturating_add(1);
        if state.sleeps < SLEEPS_MAX {
            self.set_turn(state);
        }
        if self.is_suspended() {
            self.look_again(state, now());
        }
    }

    /// The end of any other call: the thread has a turn at the next timer. A sleeper wakes at it
    /// itself, and after a post the thread looks again soon.
    #[cold]
    pub(super) fn set_turn(&self, state: &mut State) {
        if self.is_suspended() {
            // Of datagrams nothing is ever under way, though an answer may be.
            let expects =
                state.engine.with(|engine| engine.has_work() || engine.carries_datagrams());
            if expects || state.wakers.application_sleeps() {
                return;
            }
            if state.thread_until != Some(NEVER) {
                state.wakers.alarm.unset();
            }
            self.resume(state, None);
        }
        // The thread sends what a call leaves, and datagrams that wait for others, if the
        // application does not come back.
        let waits = state.engine.with(|engine| engine.datagrams_waiting() > 0);
        let rest = waits.then_some(Instant::ZERO);
        if let Some((due, until)) = rest.or_else(|| state.due()).zip(state.thread_until)
            && due < until
        {
            state.wakers.alarm.set(due);
            state.thread_until = Some(due);
        }
    }

    /// The thread has a turn at `next`, and packets do not wake it. `sleeps`: the application slept
    /// in a wait call when it was observed, at `now`. Returns the time of the turn, which is sooner
    /// if that sleep has ended.
    pub(crate) fn stand_by(
        &self,
        now: Instant,
        sleeps: bool,
        next: Option<Instant>,
    ) -> Option<Instant> {
        let mut state = self.lock_as_thread();
        let is_awake = sleeps && !state.wakers.application_sleeps();
        let next = if is_awake { Some(now.after(APP_IDLE_LIMIT)) } else { next };
        self.suspend(&state);
        (state.thread_until, state.sleeps) = (Some(next.unwrap_or(NEVER)), 0);
        next
    }

    /// Packets wake the thread, which has its next turn at `next`.
    fn resume(&self, state: &mut State, next: Option<Instant>) {
        if self.suspended.swap(false, Ordering::Relaxed) {
            self.watch(state, true);
        }
        state.thread_until = Some(next.unwrap_or(NEVER));
    }

    /// The thread monitors from now on, and calls set no turns.
    pub(super) fn end_turns(&self, state: &mut State) {
        self.suspended.store(false, Ordering::Relaxed);
        (state.thread_until, state.sleeps) = (None, 0);
    }

    /// Whether packets do not wake the thread. Changed under the lock.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::Relaxed)
    }

    /// Whether the application has polled without pause since the thread drove.
    pub(crate) fn is_polled(&self) -> bool {
        self.polled.load(Ordering::Relaxed)
    }

    /// The end of a turn of the thread: it drives, and has its next turn at `next`.
    pub(super) fn end_turn(&self, state: &mut State, next: Option<Instant>) {
        state.sleeps = 0;
        self.polled.store(false, Ordering::Relaxed);
        self.resume(state, next);
    }

    fn suspend(&self, state: &State) {
        if !self.suspended.swap(true, Ordering::Relaxed) {
            self.watch(state, false);
        }
    }

    fn watch(&self, state: &State, watched: bool) {
        let watch = |it: BorrowedFd<'_>| state.wakers.alarm.watch(it, self.id(), watched);
        abi::descriptors(&state.port).for_each(watch);
    }

    /// The thread looks again after [`APP_IDLE_LIMIT`], if it does not look before.
    fn look_again(&self, state: &mut State, now: Instant) {
        let at = now.after(APP_IDLE_LIMIT);
        if !state.thread_until.is_some_and(|until| until > now && until <= at) {
            state.wakers.alarm.set(at);
            state.thread_until = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use ofi_xdp_core::CompletionGroup;

    use super::*;
    use crate::runtime::tests::{datagram_runtime, endpoint_of, port, post_datagram, send_batch};
    use crate::sys::abi::fi_addr_t;
    use crate::wait::wait_fd::Wait;
    use crate::wait::waker::Waker;

    /// A runtime that the thread has taken over, the set that the thread sleeps on, and the waker
    /// of a sleeper.
    fn taken_over() -> (Arc<Runtime>, Arc<Wait>, Arc<Waker>) {
        let thread = Arc::new(Wait::new().unwrap());
        let (runtime, sleeper) = endpoint_of(&thread);
        runtime.connect_alarm().unwrap();
        runtime.descriptors(|descriptor| thread.add_named(descriptor, runtime.id())).unwrap();
        runtime.drive_from_thread(true);
        (runtime, thread, sleeper)
    }

    /// A runtime of datagrams that the thread has taken over, and the address of a peer.
    fn datagrams_taken_over() -> (Arc<Runtime>, Arc<Wait>, fi_addr_t) {
        let thread = Arc::new(Wait::new().unwrap());
        let (runtime, peer) = datagram_runtime(&thread);
        runtime.connect_alarm().unwrap();
        runtime.drive_from_thread(true);
        (runtime, thread, peer)
    }

    /// Whether the thread has a turn within `timeout`.
    fn has_turn(thread: &Wait, timeout: Duration) -> bool {
        let mut names = Vec::new();
        thread.sleep(Some(timeout)).unwrap();
        thread.ready(&mut names).unwrap();
        !names.is_empty()
    }

    /// Long enough for any alarm of these tests.
    const LATE: Duration = Duration::from_secs(10);

    #[test]
    fn after_a_post_packets_do_not_wake_the_thread_until_it_looks_again() {
        let (runtime, thread, _) = taken_over();
        let time = now();
        runtime.expect_polls(&mut runtime.lock(), time);
        assert_eq!(runtime.lock().thread_until, Some(time.after(APP_IDLE_LIMIT)));
        assert!(has_turn(&thread, LATE), "it looks again");
        send_batch(&mut port(), &runtime);
        assert!(!has_turn(&thread, Duration::ZERO), "packets do not wake it");
        runtime.drive_from_thread(true);
        send_batch(&mut port(), &runtime);
        assert!(has_turn(&thread, LATE), "it has taken the runtime over again");
    }

    #[test]
    fn a_poll_with_nothing_under_way_lets_packets_wake_the_thread() {
        let (runtime, thread, _) = taken_over();
        runtime.expect_polls(&mut runtime.lock(), now().after(LATE));
        runtime.poll_sources(&[], None);
        assert_eq!(runtime.lock().thread_until, Some(NEVER));
        assert!(!has_turn(&thread, Duration::ZERO));
        send_batch(&mut port(), &runtime);
        assert!(has_turn(&thread, LATE));
    }

    #[test]
    fn after_a_datagram_packets_do_not_wake_the_thread_until_it_looks_again() {
        let (runtime, _, peer) = datagrams_taken_over();
        post_datagram(&runtime, peer, false);
        let turn = runtime.lock().thread_until;
        runtime.poll_sources(&[], None);
        assert!(runtime.is_suspended());
        assert_eq!(runtime.lock().thread_until, turn);
        assert!(turn.is_some_and(|at| at < NEVER));
    }

    /// It waits for others while a completion is unread.
    #[test]
    fn the_thread_has_a_turn_for_a_datagram_that_waits() {
        let (runtime, thread, peer) = datagrams_taken_over();
        post_datagram(&runtime, peer, false);
        assert!(has_turn(&thread, LATE));
        runtime.drive_from_thread(true);
        post_datagram(&runtime, peer, false);
        assert!(runtime.lock().engine.with(|engine| engine.datagrams_waiting() > 0));
        assert!(has_turn(&thread, LATE));
        runtime.drive_from_thread(true);
        assert!(runtime.lock().engine.with(|engine| engine.datagrams_waiting() == 0));
    }

    #[test]
    fn a_turn_after_a_post_does_not_wait_for_the_lock() {
        let (runtime, ..) = taken_over();
        runtime.expect_polls(&mut runtime.lock(), now());
        let locked = runtime.lock();
        assert!(runtime.observe(now(), true).is_none());
        drop(locked);
        assert!(runtime.observe(now(), true).is_some_and(|seen| seen.suspended));
    }

    #[test]
    fn a_series_of_polls_is_seen_without_the_lock() {
        let (runtime, ..) = taken_over();
        assert!((0..100).any(|_| {
            // Where another thread has the core for long, a poll begins the series anew.
            runtime.poll_sources(&[], None);
            runtime.is_polled()
        }));
        runtime.drive_from_thread(true);
        assert!(!runtime.is_polled(), "the thread drove");
    }

    #[test]
    fn posts_and_sleeps_do_not_put_the_turn_off() {
        let (runtime, ..) = taken_over();
        let time = now();
        let until = |at| {
            runtime.expect_polls(&mut runtime.lock(), at);
            runtime.lock().thread_until
        };
        let first = time.after(APP_IDLE_LIMIT);
        assert_eq!(until(time), Some(first));
        assert_eq!(until(time.after(APP_IDLE_LIMIT / 2)), Some(first));
        // That turn is over.
        assert_eq!(until(first), Some(first.after(APP_IDLE_LIMIT)));
    }

    #[test]
    fn packets_wake_a_sleeper_alone_and_the_thread_looks_after_its_sleep() {
        let (runtime, thread, sleeper) = taken_over();
        sleeper.arm();
        runtime.arm_port(false);
        send_batch(&mut port(), &runtime);
        assert!(!has_turn(&thread, Duration::ZERO));
        runtime.end_sleep();
        assert_eq!(runtime.lock().thread_until, Some(NEVER), "another thread still sleeps");
        sleeper.disarm();
        runtime.end_sleep();
        assert!(has_turn(&thread, LATE));
    }

    #[test]
    fn packets_wake_the_thread_after_the_group_of_the_sleeper_has_left() {
        let (runtime, thread, sleeper) = taken_over();
        sleeper.arm();
        runtime.arm_port(false);
        // The sleeper's queue visits this runtime no more.
        runtime.remove_group(CompletionGroup::default());
        assert!(!runtime.is_suspended());
        send_batch(&mut port(), &runtime);
        assert!(has_turn(&thread, LATE));
    }

    #[test]
    fn a_sleep_that_ends_while_the_thread_decides_is_not_missed() {
        let (runtime, _, sleeper) = taken_over();
        let time = now();
        sleeper.arm();
        assert_eq!(runtime.stand_by(time, true, None), None);
        sleeper.disarm();
        let soon = Some(time.after(APP_IDLE_LIMIT));
        assert_eq!(runtime.stand_by(time, true, None), soon);
        assert_eq!(runtime.lock().thread_until, soon);
    }

    #[test]
    fn nothing_is_set_while_the_thread_monitors() {
        let (runtime, thread, sleeper) = taken_over();
        runtime.descriptors(|descriptor| thread.remove(descriptor)).unwrap();
        runtime.hand_back();
        sleeper.arm();
        runtime.arm_port(false);
        assert!(!runtime.is_suspended());
        sleeper.disarm();
        runtime.end_sleep();
        runtime.wake(&mut runtime.lock(), None);
        assert!(!has_turn(&thread, Duration::ZERO));
        assert_eq!(runtime.lock().thread_until, None);
    }
}
