// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is lost, by the evidence of acknowledgments (RFC 8985) or of silence (`docs/PROTOCOL.md`
//! §4.5); and what a sender does when the receiver was not ready (§6.4).
//!
//! Bound: the window, or the operations posted to one peer.

use super::{Engine, post::pending_cost};
use crate::in_flight::TxFlags;
use crate::slab::{List, NIL};

/// First pause after receiver-not-ready; doubles each time in a row.
const RNR_PAUSE_NANOS: u64 = 50_000;
/// The pause doubles this many times at the most (12.8 ms).
const RNR_PAUSE_DOUBLINGS: u8 = 8;
/// From this time-out in a row on the sender asks whether the peer is there before it sends payload
/// again.
pub(super) const PING_FROM_TIMEOUT: u8 = 3;

impl Engine<'_> {
    /// Finds packets that are lost (RFC 8985 §6.2): sent before one that has arrived, and overdue
    /// by a round trip and a reordering window. Where that time has not passed yet, a timer asks
    /// again.
    pub(super) fn detect_losses(&mut self, active: u32) {
        let now = self.tick();
        let state = &mut self.actives[active];
        let patience = state.rtt.smoothed() + state.rtt.reorder_window();
        let mut arrived_beyond = state.sacked;
        let mut wait: Option<u32> = None;
        let mut found = false;
        let mut psn = state.first_psn;
        // bound: the window
        while psn != state.next_psn && arrived_beyond > 0 {
            let Some(note) = self.in_flight.packet(&state.directory, psn) else { break };
            if note.flags.contains(TxFlags::ACKED) {
                arrived_beyond -= 1;
            } else if !note.flags.contains(TxFlags::LOST)
                && note.sent_at.has_come(state.newest_acked)
            {
                let age = now.since(note.sent_at);
                if age >= patience {
                    note.flags |= TxFlags::LOST;
                    state.lost += 1;
                    state.resend_credit = u16::MAX;
                    self.stats.losses_by_ack += 1;
                    found = true;
                    if psn.is_before(state.lost_from) || state.lost == 1 {
                        state.lost_from = psn;
                    }
                } else {
                    let left = patience - age;
                    wait = Some(wait.map_or(left, |least| least.min(left)));
                }
            }
            psn = psn.plus(1);
        }
        state.loss_at = wait.map(|left| now.plus(left));
        if found {
            state.congestion.lost(&state.rtt, now);
        }
        if state.lost > 0 {
            self.make_ready(active);
        }
    }

    /// Nothing was acknowledged for long: first the tail probe, then everything under way counts as
    /// lost. Of that one packet goes out, and two more for each that is acknowledged from then on:
    /// a time-out in error, because the peer did not come to answer, costs one packet.
    pub(super) fn time_out(&mut self, active: u32) {
        let now = self.tick();
        let state = &mut self.actives[active];
        state.timer_from = now;
        let before = state.backoff;
        state.backoff = before.saturating_add(1);
        if before == 0 {
            state.probe = true;
            self.stats.tail_probes += 1;
        } else {
            self.stats.timeouts += 1;
            state.congestion.timed_out(before);
            state.ping = before >= PING_FROM_TIMEOUT;
            state.resend_credit = u16::from(!state.ping);
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
        self.make_ready(active);
    }

    /// The peer discards messages from `accepted_msn` on: sends them again, in a new attempt, after
    /// a pause (`docs/PROTOCOL.md` §6.4). Packets of the old attempt that are under way count for
    /// nothing any more. Other operations stay as they are.
    pub(super) fn start_over(&mut self, active: u32) {
        self.stats.restarts_after_rnr += 1;
        let jitter = self.rng.next();
        let now = self.tick();
        let state = &mut self.actives[active];
        state.tx_rnr_epoch = state.tx_rnr_epoch.wrapping_add(1);
        let pause = RNR_PAUSE_NANOS << state.rnr_count.min(RNR_PAUSE_DOUBLINGS);
        state.rnr_count = state.rnr_count.saturating_add(1);
        state.hold_until = Some(now.plus_nanos(pause + jitter % (pause / 4)));
        let (accepted, epoch) = (state.accepted_msn, state.tx_rnr_epoch);
        state.sent_msn = accepted;
        let mut cursor = NIL;
        let mut number = state.sends.list.head();
        // bound: operations posted to one peer
        while number != NIL {
            let op = &mut self.ops[number];
            if op.envelope().is_some_and(|envelope| !envelope.msn.is_before(accepted)) {
                if op.all_sent {
                    state.pending += pending_cost(op);
                }
                op.sent = 0;
                op.in_flight = 0;
                op.all_sent = false;
                op.rnr_epoch = epoch;
            }
            if !op.all_sent && cursor == NIL {
                cursor = number;
            }
            number = List::next(&mut self.ops, number);
        }
        state.sends.cursor = cursor;
    }
}
