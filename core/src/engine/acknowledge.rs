// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an acknowledgment means to the sender: packets retired, operations credited, losses found
//! (`docs/PROTOCOL.md` §4.3–4.5), receiver-not-ready obeyed (§6.4).
//!
//! Bound: the packets under way to one peer (at most 256), and the operations that complete.

use super::{Engine, post::pending_cost};
use crate::in_flight::{TxFlags, TxPacket};
use crate::peer::{TICK_NANOS, ticks};
use crate::serial::Psn;
use crate::slab::{List, NIL};
use crate::wire::{Header, sacked};
use crate::{Instant, OpId};

/// First pause after receiver-not-ready; doubles each time in a row.
const RNR_PAUSE_NANOS: u64 = 50_000;
/// The pause doubles this many times at the most (12.8 ms).
const RNR_PAUSE_DOUBLINGS: u8 = 8;

impl Engine<'_> {
    /// Takes in what `header` and, of an acknowledgment, the bitmap say. Plausible as a whole:
    /// checked before.
    pub(super) fn acknowledge(&mut self, active: u32, header: &Header, sack: &[u64], now: Instant) {
        let ack = header.ack_psn();
        let retired = self.retire(active, ack, now);
        let marked = sacked(ack, sack).filter(|&psn| self.mark_sacked(active, psn)).count() as u32;
        if retired + marked > 0 {
            let state = &mut self.actives[active];
            let credit = u16::try_from(2 * (retired + marked)).unwrap_or(u16::MAX);
            state.resend_credit = state.resend_credit.saturating_add(credit);
            state.backoff = 0;
            state.probe = false;
            state.timer_from = now;
        }
        if self.actives[active].sacked > 0 {
            self.detect_losses(active, now);
        }
        let state = &mut self.actives[active];
        let accepted = state.accepted_msn.nearest(header.accepted_msn());
        if state.accepted_msn.is_before(accepted) {
            state.accepted_msn = accepted;
            state.rnr_count = 0;
        }
        self.complete_sends(active);
        let state = &self.actives[active];
        if header.pressure().receiver_not_ready_in(state.tx_rnr_epoch) {
            self.start_over(active, now);
        }
        if self.may_send_new(active) {
            self.make_ready(active);
        }
    }

    /// Everything before `ack` has arrived. Returns how many packets that is news of.
    fn retire(&mut self, active: u32, ack: Psn, now: Instant) -> u32 {
        let (first, next) = (self.actives[active].first_psn, self.actives[active].next_psn);
        if !first.is_before(ack) {
            return 0;
        }
        for psn in (0..ack.since(first)).map(|n| first.plus(n)) {
            self.packet_arrived(active, psn, psn.plus(1) == ack, now);
        }
        let state = &mut self.actives[active];
        self.in_flight.retire(&mut state.directory, first, ack, next);
        state.first_psn = ack;
        if state.lost_from.is_before(ack) {
            state.lost_from = ack;
        }
        ack.since(first)
    }

    /// Credits packet `psn`, which is about to be retired. The `newest` one tells the round trip,
    /// with the time that the peer took to answer in it: right for time-outs, which must outlast
    /// that.
    fn packet_arrived(&mut self, active: u32, psn: Psn, newest: bool, now: Instant) {
        let state = &mut self.actives[active];
        let Some(packet) = self.in_flight.packet(&state.directory, psn) else { return };
        let packet = *packet;
        if packet.flags.contains(TxFlags::ACKED) {
            state.sacked -= 1;
            return;
        }
        if newest && !packet.flags.contains(TxFlags::RESENT) {
            state.rtt.sample(ticks(now).wrapping_sub(packet.sent_at));
        }
        self.credit(active, &packet);
    }

    /// Marks packet `psn` as arrived though something before it is missing. Returns whether that is
    /// news.
    fn mark_sacked(&mut self, active: u32, psn: Psn) -> bool {
        let state = &mut self.actives[active];
        if psn.is_before(state.first_psn) {
            return false;
        }
        let Some(note) = self.in_flight.packet(&state.directory, psn) else { return false };
        if note.flags.contains(TxFlags::ACKED) {
            return false;
        }
        let packet = *note;
        note.flags = note.flags.union(TxFlags::ACKED).difference(TxFlags::LOST);
        state.sacked += 1;
        self.credit(active, &packet);
        true
    }

    /// Packet `packet` has arrived, and this is the first that is known of it.
    fn credit(&mut self, active: u32, packet: &TxPacket) {
        let state = &mut self.actives[active];
        if packet.flags.contains(TxFlags::LOST) {
            state.lost -= 1;
        }
        if packet.sent_at.wrapping_sub(state.newest_acked) < 1 << 31 {
            state.newest_acked = packet.sent_at;
        }
        if packet.flags.contains(TxFlags::SEGMENT) {
            self.credit_op(packet.op, packet.rnr_epoch);
            return;
        }
        self.each_message(packet, |engine, number| {
            let id = engine.op_id(number);
            engine.credit_op(id, packet.rnr_epoch);
        });
    }

    fn credit_op(&mut self, id: OpId, rnr_epoch: u8) {
        if let Some(number) = self.op_of_attempt(id, rnr_epoch) {
            self.sends[number].in_flight -= 1;
        }
    }

    /// The slot of a send, if it is still waiting, in the attempt that `rnr_epoch` names.
    pub(super) fn op_of_attempt(&self, id: OpId, rnr_epoch: u8) -> Option<u32> {
        let number = id.slot();
        let current = self.sends.is_used(number)
            && self.op_id(number) == id
            && self.sends[number].rnr_epoch == rnr_epoch;
        current.then_some(number)
    }

    /// Calls `each` for the messages of a packet that are still waiting in the attempt in which it
    /// was sent. They are neighbours in the peer's list: none of them can have completed before
    /// this packet was acknowledged.
    pub(super) fn each_message(&mut self, packet: &TxPacket, mut each: impl FnMut(&mut Self, u32)) {
        let Some(first) = self.op_of_attempt(packet.op, packet.rnr_epoch) else { return };
        let first_msn = self.sends[first].envelope.msn;
        let mut number = first;
        // bound: the messages of one packet
        while number != NIL {
            let op = &self.sends[number];
            if op.envelope.msn.since(first_msn) >= u32::from(packet.len)
                || op.rnr_epoch != packet.rnr_epoch
            {
                return;
            }
            let next = List::next(&mut self.sends, number);
            each(self, number);
            number = next;
        }
    }

    /// Completes what is acknowledged as well as accepted. Bound: accepted messages that are not
    /// complete.
    fn complete_sends(&mut self, active: u32) {
        let mut number = self.actives[active].sends.head();
        while number != NIL {
            let op = &self.sends[number];
            let state = &mut self.actives[active];
            if !op.envelope.msn.is_before(state.accepted_msn) {
                return;
            }
            let done = op.all_sent && op.in_flight == 0;
            let next = List::next(&mut self.sends, number);
            if done {
                state.sends.remove(&mut self.sends, number);
                self.finish_send(number);
            }
            number = next;
        }
    }

    /// Finds packets that are lost (RFC 8985 §6.2): sent before one that has arrived, and overdue
    /// by a round trip and a reordering window. Where that time has not passed yet, a timer asks
    /// again.
    pub(super) fn detect_losses(&mut self, active: u32, now: Instant) {
        let now_ticks = ticks(now);
        let state = &mut self.actives[active];
        let patience = state.rtt.smoothed() + state.rtt.reorder_window();
        let mut arrived_beyond = state.sacked;
        let mut wait: Option<u32> = None;
        let mut psn = state.first_psn;
        // bound: the window
        while psn != state.next_psn && arrived_beyond > 0 {
            let Some(note) = self.in_flight.packet(&state.directory, psn) else { break };
            let sent_before_newest = state.newest_acked.wrapping_sub(note.sent_at) < 1 << 31;
            if note.flags.contains(TxFlags::ACKED) {
                arrived_beyond -= 1;
            } else if !note.flags.contains(TxFlags::LOST) && sent_before_newest {
                let age = now_ticks.wrapping_sub(note.sent_at);
                if age >= patience {
                    note.flags |= TxFlags::LOST;
                    state.lost += 1;
                    state.resend_credit = u16::MAX;
                    self.stats.losses_by_ack += 1;
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
        state.loss_at = wait.map(|left| now.after_nanos(u64::from(left) * TICK_NANOS));
        if state.lost > 0 {
            self.make_ready(active);
        }
    }

    /// The peer discards messages from `accepted_msn` on: sends them again, in a new attempt, after
    /// a pause (`docs/PROTOCOL.md` §6.4). Packets of the old attempt that are under way count for
    /// nothing any more.
    fn start_over(&mut self, active: u32, now: Instant) {
        self.stats.restarts_after_rnr += 1;
        let jitter = self.rng.next();
        let state = &mut self.actives[active];
        state.tx_rnr_epoch = state.tx_rnr_epoch.wrapping_add(1);
        let pause = RNR_PAUSE_NANOS << state.rnr_count.min(RNR_PAUSE_DOUBLINGS);
        state.rnr_count = state.rnr_count.saturating_add(1);
        state.hold_until = Some(now.after_nanos(pause + jitter % (pause / 4)));
        let (accepted, epoch) = (state.accepted_msn, state.tx_rnr_epoch);
        state.cursor = NIL;
        let mut number = state.sends.head();
        // bound: sends posted to one peer
        while number != NIL {
            let op = &mut self.sends[number];
            if !op.envelope.msn.is_before(accepted) {
                if op.all_sent {
                    state.pending += pending_cost(op.envelope.total);
                }
                op.sent = 0;
                op.in_flight = 0;
                op.all_sent = false;
                op.rnr_epoch = epoch;
                if state.cursor == NIL {
                    state.cursor = number;
                }
            }
            number = List::next(&mut self.sends, number);
        }
    }
}
