// SPDX-License-Identifier: MIT OR Apache-2.0
//! E. Time: what is due, and what has waited for company long enough.
//!
//! Bound: [`TIMERS_PER_ADVANCE`] timers a call; the rest are due at once in the next.

use super::Engine;
use crate::in_flight::TxFlags;
use crate::peer::{AckDue, Schedule, State, ticks};
use crate::{Instant, OpError};

/// Timers that one call of [`Engine::advance`] fires at the most.
pub const TIMERS_PER_ADVANCE: u32 = 64;

impl Engine<'_> {
    /// Moves time to `now`.
    pub fn advance(&mut self, now: Instant) {
        let now = self.time(now);
        for _ in 0..TIMERS_PER_ADVANCE {
            let Some(active) = self.wheel.expire(now) else { return };
            self.fire(active, now);
        }
    }

    /// Records that wait for company may go alone from now on: called once in every progress call,
    /// after what arrived was taken in.
    pub fn release_gathered(&mut self) {
        // bound: gathering peers
        while !self.gathering.is_empty() {
            self.make_ready(self.gathering.head());
        }
    }

    /// Something is due for this peer: does it, and arms the next timer.
    fn fire(&mut self, active: u32, now: Instant) {
        let death = self.config.death;
        let state = &mut self.actives[active];
        let number = state.peer;
        if state.awaits_peer() && now >= state.silent_since.after(death) {
            let reached = self.peers[number].state == State::Established;
            let error = if reached { OpError::TimedOut } else { OpError::Unreachable };
            log::info!("peer {}: {error}", self.peers[number].address);
            return self.end_connection(number, error);
        }
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if let AckDue::At(at) = state.ack_due
            && at <= now
        {
            state.ack_due = AckDue::Now;
            self.make_ready(active);
        }
        if due(self.actives[active].hello_at) {
            self.repeat_handshake(active, now);
        }
        if due(self.actives[active].hold_until) {
            self.actives[active].hold_until = None;
            if self.may_send_new(active) {
                self.make_ready(active);
            }
        }
        if due(self.actives[active].loss_at) {
            self.actives[active].loss_at = None;
            self.detect_losses(active, now);
        }
        if due(self.actives[active].retransmit_at()) {
            self.time_out(active, now);
        }
        let state = &self.actives[active];
        if !state.has_work() && state.schedule == Schedule::Idle && now >= state.quiet_at() {
            self.deactivate(active);
        } else {
            self.arm(active, now);
        }
    }

    /// Nothing was acknowledged for long: first the tail probe, then everything under way counts as
    /// lost. Of that one packet goes out, and two more for each that is acknowledged from then on:
    /// a time-out in error, because the peer did not come to answer, costs one packet.
    fn time_out(&mut self, active: u32, now: Instant) {
        let state = &mut self.actives[active];
        state.timer_from = now;
        let before = state.backoff;
        state.backoff = before.saturating_add(1);
        if before == 0 {
            state.probe = true;
            self.stats.tail_probes += 1;
        } else {
            self.stats.timeouts += 1;
            state.resend_credit = 1;
            let mut psn = state.first_psn;
            // bound: the window
            while psn != state.next_psn {
                let Some(note) = self.in_flight.packet(&state.directory, psn) else { break };
                if !note.flags.intersects(TxFlags::ACKED | TxFlags::LOST) {
                    note.flags |= TxFlags::LOST;
                    state.lost += 1;
                }
                psn = psn.plus(1);
            }
            state.lost_from = state.first_psn;
        }
        log::trace!("time-out {before} after {} ticks", ticks(now));
        self.make_ready(active);
    }

    /// Nothing is under way: the active state goes back to the pool, what matters stays with the
    /// peer.
    fn deactivate(&mut self, active: u32) {
        let number = self.actives[active].peer;
        self.actives[active].save(&mut self.peers[number]);
        self.peers[number].active = crate::slab::NIL;
        self.wheel.disarm(active);
        self.actives.release(active);
    }
}
