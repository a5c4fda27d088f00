// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an acknowledgment means to the sender: packets retired, operations credited and ended
//! (`docs/PROTOCOL.md` §4.3, §8.3).
//!
//! Bound: the packets under way to one peer (at most 256), and the operations that end.

use super::Engine;
use super::loss::PING_FROM_TIMEOUT;
use crate::OpId;
use crate::in_flight::{TxFlags, TxPacket};
use crate::operation::TxKind;
use crate::serial::Psn;
use crate::slab::{List, NIL};
use crate::wire::{Flags, Header, sacked};

impl Engine<'_> {
    /// Takes in what `header` and, of an acknowledgment, the bitmap say. Plausible as a whole:
    /// checked before. `newest`: none that was sent later has been heard.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, active: u32, header: &Header, newest: bool, sack: &[u64]) {
        let now = self.tick();
        let state = &mut self.actives[active];
        let ack = header.ack_psn();
        let ahead = state.first_psn.is_before(ack);
        // The counts of errors and of accepted messages, and the attempt that is refused, are cut
        // short: a late one would be taken for one of the future. At the peer they only move on, as
        // `ack_psn` does. So a header that acknowledges more than any before was sent after them,
        // and one that acknowledges less before one of them; where it is as much, the clock decides
        // (and of those of one tick each is believed, and is no more than a few steps late). What a
        // late one says, a later one has said. State that is fresh has heard nothing, but knows
        // what was acknowledged: everything, and so says no header from before what came last.
        let current = ahead || (newest && ack == state.first_psn);
        if current && header.err_count.wrapping_sub(state.errors.announced) < 1 << 7 {
            state.errors.announced = header.err_count;
        }
        if header.flags().contains(Flags::DUPLICATES_SEEN) {
            state.rtt.saw_duplicate();
        }
        let accepted = state.accepted_msn.nearest(header.accepted_msn());
        let advanced = current && state.accepted_msn.is_before(accepted);
        if advanced {
            state.accepted_msn = accepted;
            state.rnr_count = 0;
        }
        let runs = header.is_understood();
        let retired = if ahead { self.retire(active, ack, runs) } else { 0 };
        let marked = if sack.is_empty() { 0 } else { self.mark_all(active, ack, sack) };
        let news = retired + marked;
        let state = &mut self.actives[active];
        if news > 0 {
            state.news(news, now);
        } else if state.lost > 0 && state.backoff > PING_FROM_TIMEOUT {
            // It answers the question whether it is there: what is lost may go, one by one.
            state.resend_credit = state.resend_credit.max(1);
        }
        let refused = current && header.pressure().receiver_not_ready_in(state.tx_rnr_epoch);
        let behind_hole = state.sacked > 0;
        let holes = behind_hole || state.lost > 0;
        let waits = advanced && !state.sends.list.is_empty();
        if behind_hole {
            self.detect_losses(active);
        }
        if waits {
            self.end_accepted(active);
        }
        if refused {
            self.start_over(active);
        }
        if holes && self.may_resend(active) {
            self.make_ready(active);
        }
    }

    /// Everything before `ack` has arrived, which is beyond what was acknowledged so far. Returns
    /// how many packets that is news of. `runs`: operations may end in runs.
    pub(super) fn retire(&mut self, active: u32, ack: Psn, runs: bool) -> u32 {
        let first = self.actives[active].first_psn;
        let mut news = 0;
        for psn in (0..ack.since(first)).map(|n| first.plus(n)) {
            news += u32::from(self.packet_arrived(active, psn, psn.plus(1) == ack, runs));
        }
        let state = &mut self.actives[active];
        self.in_flight.retire(&mut state.directory, first, ack);
        state.retired_until(ack);
        news.max(1)
    }

    /// Credits packet `psn`, which is about to be retired. The `newest` one tells the round trip,
    /// with the time that the peer took to answer in it: right for time-outs, which must outlast
    /// that. Returns whether its arrival is news.
    #[inline]
    fn packet_arrived(&mut self, active: u32, psn: Psn, newest: bool, runs: bool) -> bool {
        let now = self.tick();
        let state = &mut self.actives[active];
        let Some(packet) = self.in_flight.packet(&state.directory, psn) else { return false };
        let packet = *packet;
        if packet.flags.contains(TxFlags::ACKED) {
            state.sacked -= 1;
            if packet.flags.contains(TxFlags::EVENT) {
                self.credit_ops(active, &packet, false);
            }
            return false;
        }
        if newest && !packet.flags.contains(TxFlags::RESENT) {
            state.rtt.sample(now.since(packet.sent_at));
        }
        self.note_arrival(active, &packet);
        self.credit_ops(active, &packet, runs);
        true
    }

    /// Marks what the bitmap behind `ack` names. Returns how many packets that is news of.
    fn mark_all(&mut self, active: u32, ack: Psn, sack: &[u64]) -> u32 {
        sacked(ack, sack).filter(|&psn| self.mark_sacked(active, psn)).count() as u32
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
        self.note_arrival(active, &packet);
        if !packet.flags.contains(TxFlags::EVENT) {
            self.credit_ops(active, &packet, false);
        }
        true
    }

    /// Packet `packet` has arrived, and this is the first that is known of it.
    #[inline]
    fn note_arrival(&mut self, active: u32, packet: &TxPacket) {
        let state = &mut self.actives[active];
        if packet.flags.contains(TxFlags::LOST) {
            state.lost -= 1;
        }
        state.newest_acked = state.newest_acked.max(packet.sent_at);
    }

    /// Ends the messages at the front of a packet that has arrived, as long as that is all that is
    /// missing to each of them: what [`Self::credit_ops`] does with one after the other. They are
    /// neighbours, and stay so as they end. Returns what is left of the packet. Bound: the
    /// operations of one packet.
    // Apart, so that the loop has the registers to itself.
    #[inline(never)]
    fn end_run(&mut self, active: u32, packet: &TxPacket) -> Option<TxPacket> {
        let state = &mut self.actives[active];
        if !state.may_complete() {
            return Some(*packet);
        }
        let first = packet.op.slot();
        if !self.ops.is_used(first) || packet.op != OpId::new(first, self.ops.generation(first)) {
            return None;
        }
        let first_serial = self.ops[first].serial;
        let (mut last, mut next, mut count, mut passed) = (NIL, first, 0, 0);
        while next != NIL {
            let op = &mut self.ops[next];
            passed = op.serial.wrapping_sub(first_serial);
            let TxKind::Message(envelope) = &op.kind else { break };
            let ends = passed < u32::from(packet.len)
                && op.rnr_epoch == packet.rnr_epoch
                && envelope.msn.is_before(state.accepted_msn)
                && (op.in_flight, op.all_sent, op.signal) == (1, true, true)
                && op.outcome.is_ok();
            if !ends {
                break;
            }
            op.in_flight = 0;
            op.done = true;
            (last, next) = (next, op.links.next());
            count += 1;
        }
        if count > 0 {
            state.sends.list.move_run(&mut self.ops, (first, last), &mut self.sends_done);
            self.stats.messages_sent += count;
            self.tally.sends.done += count;
        }
        let left =
            u32::from(packet.len).checked_sub(passed).filter(|&left| left > 0 && next != NIL)?;
        Some(TxPacket { op: self.op_id(next), len: left as u16, ..*packet })
    }

    /// Credits the operations of a packet that has arrived. `runs`: they may end in runs.
    #[inline(always)]
    fn credit_ops(&mut self, active: u32, packet: &TxPacket, runs: bool) {
        if packet.len == 1 || packet.flags.contains(TxFlags::PART) {
            if let Some(number) = self.op_of_attempt(packet.op, packet.rnr_epoch) {
                self.credit_op(active, number);
            }
            return;
        }
        let rest = if runs { self.end_run(active, packet) } else { Some(*packet) };
        if let Some(rest) = rest {
            self.each_whole(&rest, |engine, number| engine.credit_op(active, number));
        }
    }

    #[inline(always)]
    fn credit_op(&mut self, active: u32, number: u32) {
        let op = &mut self.ops[number];
        op.in_flight -= 1;
        let TxKind::Message(envelope) = &op.kind else { return self.try_finish(active, number) };
        // As there, without what other operations may wait for.
        let state = &mut self.actives[active];
        let accepted = envelope.msn.is_before(state.accepted_msn);
        if accepted && op.all_sent && op.in_flight == 0 && state.may_complete() {
            state.sends.list.remove(&mut self.ops, number);
            self.finish_send(number);
        }
    }

    /// Messages that the peer has accepted may have been acknowledged before. Bound: operations up
    /// to the first message that is not accepted.
    #[inline]
    pub(super) fn end_accepted(&mut self, active: u32) {
        let mut number = self.actives[active].sends.list.head();
        while number != NIL {
            let next = List::next(&mut self.ops, number);
            let accepted = self.actives[active].accepted_msn;
            let envelope = self.ops[number].envelope();
            if envelope.is_some_and(|envelope| !envelope.msn.is_before(accepted)) {
                return;
            }
            self.try_finish(active, number);
            number = next;
        }
    }

    /// The last error that the peer had announced has arrived: what waited for that may end. Bound:
    /// operations posted to one peer.
    pub(super) fn end_gated(&mut self, active: u32) {
        let mut number = self.actives[active].sends.list.head();
        while number != NIL {
            let next = List::next(&mut self.ops, number);
            self.try_finish(active, number);
            number = next;
        }
    }

    /// Ends an operation if nothing is missing to that.
    pub(super) fn try_finish(&mut self, active: u32, number: u32) {
        let state = &self.actives[active];
        let op = &self.ops[number];
        if !op.all_sent || op.in_flight > 0 {
            return;
        }
        let posted = self.is_posted(number);
        let ended = match &op.kind {
            TxKind::Message(envelope) => envelope.msn.is_before(state.accepted_msn),
            TxKind::Rendezvous(_) => op.answered,
            _ => op.answered || !op.is_request(),
        };
        if !ended || (posted && !state.may_complete()) {
            return;
        }
        self.actives[active].queue(posted).list.remove(&mut self.ops, number);
        if posted {
            self.finish_send(number);
        } else {
            self.end_own(active, number);
        }
    }

    /// An operation of the engine's own has done its work, and is out of its queue.
    fn end_own(&mut self, active: u32, number: u32) {
        match self.ops[number].kind {
            TxKind::Response { .. } => self.actives[active].credits.serving -= 1,
            TxKind::Error { .. } => {
                self.actives[active].errors.open -= 1;
                self.responders_spare += 1;
            }
            TxKind::Pull { recv, .. } => return self.end_pull(active, number, recv),
            _ => {}
        }
        self.ops.release(number);
    }
}
