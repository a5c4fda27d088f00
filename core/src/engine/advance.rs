// SPDX-License-Identifier: MIT OR Apache-2.0
//! E. Time: what is due, and what has waited for company long enough.
//!
//! Bound: [`TIMERS_PER_ADVANCE`] timers a call; the rest are due at once in the next.

use super::Engine;
use crate::peer::{AckDue, PING_PART, Schedule, State};
use crate::time::{AGING_NANOS, TICK_NANOS, Tick};
use crate::{Instant, OpError};

/// Timers that one call of [`Engine::advance`] fires at the most.
pub const TIMERS_PER_ADVANCE: u32 = 64;

impl Engine<'_> {
    /// Moves time to `now`.
    #[inline]
    pub fn advance(&mut self, now: Instant) {
        let now = self.time(now);
        for _ in 0..TIMERS_PER_ADVANCE {
            let Some(active) = self.wheel.expire(now) else { return };
            self.fire(active, now);
        }
    }

    /// Records that wait for company may go alone from now on, and long messages that arrived are
    /// pulled: called once in every progress call, after what arrived was taken in.
    pub fn release_gathered(&mut self) {
        if !self.pulling.is_empty() {
            self.schedule_pulls();
        }
        // bound: gathering peers
        while !self.gathering.is_empty() {
            self.make_ready(self.gathering.head());
        }
    }

    /// Keeps the times that are stored in four bytes near enough to `now` to compare with it, also
    /// where the process, or its clock, stood still for long. Who is called neither within
    /// [`Self::attention_nanos`] nor when its next timer fires has not listened since, and has not
    /// asked: that time is no silence of peers, so a few calls bring no answer before one counts as
    /// dead. Bound: active peers, and the packets under way to them; once in [`AGING_NANOS`] or
    /// that time of attention.
    #[cold]
    pub(super) fn age(&mut self, now: Instant) {
        let (before, attention) = (self.now, self.attention_nanos());
        let listened = before.after_nanos(attention).max(self.poll_at().unwrap_or(now));
        let unheard = now.as_nanos().saturating_sub(listened.as_nanos());
        self.age_at = now.after_nanos(attention.min(AGING_NANOS));
        for active in 0..self.actives.capacity() {
            if !self.actives.is_used(active) {
                continue;
            }
            let state = &mut self.actives[active];
            state.age(before, now, unheard);
            for psn in (0..state.next_psn.since(state.first_psn)).map(|n| state.first_psn.plus(n)) {
                if let Some(note) = self.in_flight.packet(&state.directory, psn) {
                    note.sent_at = note.sent_at.aged(before, now);
                }
            }
        }
    }

    /// How long after a call an engine counts as listening: a quarter of the death time, after
    /// which a peer that owes an answer is asked.
    fn attention_nanos(&self) -> u64 {
        u64::from(self.death / PING_PART) * TICK_NANOS
    }

    /// Something is due for this peer: does it, and arms the next timer.
    #[inline(never)]
    fn fire(&mut self, active: u32, now: Instant) {
        let tick = self.tick();
        let state = &mut self.actives[active];
        if state.has_work() {
            let deadline = state.deadline(self.death, self.config.congestion, tick);
            if !deadline.has_come(tick) {
                // What it was set for has been done since, and what comes next is later.
                self.look(active);
                return self.wheel.arm(active, deadline.instant(now), now);
            }
        }
        let number = state.peer;
        if state.awaits_peer() && state.silent_since.plus(self.death).has_come(tick) {
            let reached = self.peers[number].state == State::Established;
            let error = if reached { OpError::TimedOut } else { OpError::Unreachable };
            log::info!("peer {}: {error}", self.peers[number].address);
            return self.end_connection(number, error);
        }
        let due = |at: Option<Tick>| at.is_some_and(|at| at.has_come(tick));
        if let AckDue::At(at) = state.ack_due
            && at.has_come(tick)
        {
            state.ack_due = AckDue::Now;
            self.make_ready(active);
        }
        if due(self.actives[active].hello_at) {
            self.repeat_handshake(active);
        }
        if due(self.actives[active].hold_until) {
            self.actives[active].hold_until = None;
        }
        if due(self.actives[active].loss_at) {
            self.actives[active].loss_at = None;
            self.detect_losses(active);
        }
        if due(self.actives[active].retransmit_at()) {
            self.time_out(active);
        }
        if due(self.actives[active].ping_at(self.death)) {
            let state = &mut self.actives[active];
            state.ping = true;
            state.timer_from = tick;
            self.make_ready(active);
        }
        // After a pause, or when the pace allows another packet.
        self.look(active);
        let state = &self.actives[active];
        let idle = !state.has_work() && state.schedule == Schedule::Idle;
        if idle && state.quiet_at().has_come(tick) {
            self.deactivate(active);
        } else {
            self.arm(active, now);
        }
    }

    /// Puts a peer in line that may send something.
    #[inline]
    fn look(&mut self, active: u32) {
        if self.may_send_new(active) || self.may_resend(active) {
            self.make_ready(active);
        }
    }

    /// Nothing is under way: the active state goes back to the pool, what matters stays with the
    /// peer.
    fn deactivate(&mut self, active: u32) {
        let number = self.actives[active].peer;
        self.release_active(number, active);
        self.stats.peers_quiet += 1;
    }
}
