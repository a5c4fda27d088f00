// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a peer gets attention: its timer in the wheel, and its place in the lines of those that
//! send.
//!
//! In: that something has changed for a peer. Out: [`transmit`](Engine::transmit) and
//! [`advance`](Engine::advance) find it in time. Bound: one timer and one place for each peer.

use super::Engine;
use crate::Instant;
use crate::peer::Schedule;

/// A timer that fires this soon need not be looked at: less than the delay of an acknowledgment.
pub(super) const TIMER_SLACK_NANOS: u64 = 8_000;

impl Engine<'_> {
    /// Makes sure that the wheel fires for this peer in time, give or take [`TIMER_SLACK_NANOS`]. A
    /// timer that fires too early is put right then.
    #[inline]
    pub(super) fn arm(&mut self, active: u32, now: Instant) {
        let armed = self.wheel.deadline(active);
        if armed.is_none_or(|armed| armed > now.after_nanos(TIMER_SLACK_NANOS)) {
            self.arm_anew(active, armed, now);
        }
    }

    pub(super) fn arm_anew(&mut self, active: u32, armed: Option<Instant>, now: Instant) {
        let tick = self.tick();
        let deadline = self.actives[active].deadline(self.death, self.config.congestion, tick);
        let deadline = deadline.instant(now);
        if armed.is_none_or(|armed| deadline < armed) {
            self.wheel.arm(active, deadline, now);
        }
    }

    /// Puts a peer in the line of those that send.
    #[inline]
    pub(super) fn make_ready(&mut self, active: u32) {
        self.actives[active].released = true;
        self.enqueue(active, Schedule::Ready);
    }

    /// Moves a peer to the list that `schedule` stands for; being ready is never taken back here.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, active: u32, schedule: Schedule) {
        let state = &mut self.actives[active];
        let current = state.schedule;
        if current == schedule || current == Schedule::Ready {
            return;
        }
        state.schedule = schedule;
        if current == Schedule::Gathering {
            self.gathering.remove(&mut self.actives, active);
        }
        match schedule {
            Schedule::Idle => {}
            Schedule::Gathering => self.gathering.push_back(&mut self.actives, active),
            Schedule::Ready => self.ready.push_back(&mut self.actives, active),
        }
    }

    /// Takes a peer out of every line.
    #[inline]
    pub(super) fn unschedule(&mut self, active: u32) {
        match core::mem::take(&mut self.actives[active].schedule) {
            Schedule::Idle => {}
            Schedule::Gathering => self.gathering.remove(&mut self.actives, active),
            Schedule::Ready => self.ready.remove(&mut self.actives, active),
        }
    }
}
