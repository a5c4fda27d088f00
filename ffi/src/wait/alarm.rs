// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns of the progress thread for one runtime, as the application's calls set them.
//!
//! In: the time of a turn; whether packets wake the thread. Out: a timer in the set that the thread
//! sleeps on, and the runtime's descriptors in that set or out of it. Callers: the application's
//! calls and the thread, under the lock of the runtime. Bound: one timer a runtime. No call wakes
//! the thread now: a second thread that wants the lock costs the application more than the turn.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use ofi_xdp_core::Instant;

use super::wait_fd::Wait;
use crate::sys::errno::Error;

/// See the module.
#[derive(Debug)]
pub(crate) struct Alarm {
    thread: Arc<Wait>,
    timer: TimerFd,
}

impl Alarm {
    /// `thread`: the descriptor that the progress thread sleeps on.
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors are out.
    pub(crate) fn new(thread: &Arc<Wait>) -> Result<Self, Error> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?;
        Ok(Self { thread: Arc::clone(thread), timer })
    }

    /// From now on the timer gives the runtime `name` a turn.
    ///
    /// # Errors
    /// [`Error::Os`].
    pub(crate) fn connect(&self, name: usize) -> Result<(), Error> {
        self.thread.add_event(self.timer.as_fd(), name)
    }

    /// Ends the turns.
    pub(crate) fn disconnect(&self) {
        // The timer is closed with the runtime anyway.
        let _ = self.thread.remove(self.timer.as_fd());
    }

    /// The thread has a turn at `at`, and none at an earlier time that was set.
    pub(crate) fn set(&self, at: Instant) {
        // Zero would disarm the timer. It has a valid time, so this cannot fail.
        let at = at.since(Instant::ZERO).max(Duration::from_nanos(1));
        let at = TimeSpec::from_duration(at);
        let _ = self.timer.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME);
    }

    /// The thread has no turn at the time that was set.
    pub(crate) fn unset(&self) {
        // Cannot fail on a descriptor that is a timer.
        let _ = self.timer.unset();
    }

    /// Whether a packet for `descriptor` gives the runtime `name` a turn. Packets that are there
    /// count. A descriptor that the thread has removed stays out.
    pub(crate) fn watch(&self, descriptor: BorrowedFd<'_>, name: usize, watched: bool) {
        if let Err(error) = self.thread.watch(descriptor, name, watched) {
            log::info!(target: "ep_data", "progress thread: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clock::now;
    use crate::wait::waker::Waker;

    fn turns(thread: &Wait, timeout: Duration) -> Vec<usize> {
        let mut names = Vec::new();
        thread.sleep(Some(timeout)).unwrap();
        thread.ready(&mut names).unwrap();
        names
    }

    #[test]
    fn a_timer_gives_one_turn() {
        let thread = Arc::new(Wait::new().unwrap());
        let alarm = Alarm::new(&thread).unwrap();
        alarm.connect(7).unwrap();
        alarm.set(now().after(Duration::from_secs(3600)));
        assert!(turns(&thread, Duration::ZERO).is_empty());
        for at in [Instant::ZERO, now()] {
            alarm.set(at);
            assert_eq!(turns(&thread, Duration::from_secs(10)), [7]);
            assert!(turns(&thread, Duration::ZERO).is_empty(), "one turn");
        }
        alarm.disconnect();
        alarm.set(Instant::ZERO);
        assert!(turns(&thread, Duration::ZERO).is_empty());
    }

    #[test]
    fn a_packet_gives_a_turn_while_it_is_watched() {
        let thread = Arc::new(Wait::new().unwrap());
        let alarm = Alarm::new(&thread).unwrap();
        let socket = Waker::new().unwrap();
        alarm.watch(socket.descriptor(), 7, false);
        thread.add_named(socket.descriptor(), 7).unwrap();
        alarm.watch(socket.descriptor(), 7, false);
        socket.force();
        assert!(turns(&thread, Duration::ZERO).is_empty());
        alarm.watch(socket.descriptor(), 7, true);
        assert_eq!(turns(&thread, Duration::from_secs(10)), [7], "packets that are there count");
    }
}
