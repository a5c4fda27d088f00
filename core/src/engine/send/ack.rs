// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledgments: packets are retired, operations credited and ended (`docs/PROTOCOL.md` §4.3,
//! §8.3).
//!
//! Bound: the packets under way to one peer (at most 256), and the operations that end.

use crate::collections::list::List;
use crate::collections::serial::{Msn, Psn};
use crate::collections::slab::SlotIndex;
use crate::collections::time::Tick;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::engine::send::loss::PING_FROM_TIMEOUT;
use crate::peer::Connection;
use crate::peer::in_flight::{TxFlags, TxPacket};
use crate::peer::operation::TxKind;
use crate::peer::slots::{ConnSlot, OpSlot};
use crate::wire::{Flags, Header, Sack};

impl Sender<'_> {
    /// Processes the acknowledgment in a header, and the bitmap of a selective acknowledgment. Both
    /// were checked before. `is_latest`: no packet that was sent later has arrived.
    #[inline(always)]
    pub(crate) fn acknowledge(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        header: &Header,
        is_latest: bool,
        sack: Sack<'_>,
    ) {
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        let ack = header.ack_psn();
        let ahead = state.tx().first_psn().is_before(ack);
        // The counts of errors and of accepted messages, and the refused attempt, are truncated: a
        // late one could pass for a future one. At the peer they only grow, as `ack_psn` does. So a
        // header that acknowledges more than any before was sent after all of them, and one that
        // acknowledges less before one of them. If it acknowledges as much, the clock decides;
        // headers of one tick are a few steps late at most. A new connection has heard nothing, but
        // knows that everything before it was acknowledged. Thus it takes no header from before
        // that.
        let current = ahead || (is_latest && ack == state.tx().first_psn());
        if current {
            state.errors_mut().announce(header.err_count);
        }
        if header.flags().contains(Flags::DUPLICATES_SEEN) {
            state.path_mut().saw_duplicate();
        }
        let accepted = state.tx().accepted_msn().nearest(header.accepted_msn());
        let advanced = current && state.tx().accepted_msn().is_before(accepted);
        if advanced {
            state.tx_mut().messages_accepted(accepted);
        }
        let runs = header.is_understood();
        let retired = if ahead { self.retire(cx, matcher, conn, ack, runs) } else { 0 };
        let marked = if sack.is_empty() { 0 } else { self.mark_all(cx, matcher, conn, sack) };
        let newly_acked = retired + marked;
        let state = &mut cx.table[conn];
        if newly_acked > 0 {
            state.on_newly_acked(newly_acked, now);
        } else if state.tx().lost() > 0 && state.path().timeouts() > PING_FROM_TIMEOUT {
            // The ping was answered: lost packets may go, one by one.
            state.tx_mut().allow_one_retransmission();
        }
        let refused =
            current && header.receiver_status().receiver_not_ready_in(state.tx().rnr_epoch());
        let behind_hole = state.tx().sacked() > 0;
        let holes = behind_hole || state.tx().lost() > 0;
        let waits = advanced && !state.sends().list().is_empty();
        if behind_hole {
            self.detect_losses(cx, conn);
        }
        if waits {
            self.end_accepted(cx, matcher, conn);
        }
        if refused {
            self.start_over(cx, conn);
        }
        if holes && self.may_retransmit(cx, conn) {
            cx.table.make_ready(conn);
        }
    }

    /// Retires the packets before `ack`, which is beyond the last acknowledgment. Returns how many
    /// of them are newly acknowledged. `runs`: operations may end in runs.
    pub(crate) fn retire(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        ack: Psn,
        runs: bool,
    ) -> u32 {
        let first = cx.table[conn].tx().first_psn();
        let mut newly_acked = 0;
        for psn in (0..ack.since(first)).map(|n| first.plus(n)) {
            newly_acked +=
                u32::from(self.packet_arrived(cx, matcher, conn, psn, psn.plus(1) == ack, runs));
        }
        let state = &mut cx.table[conn];
        state.tx_mut().retire_until(&mut self.in_flight, ack);
        newly_acked.max(1)
    }

    /// Credits packet `psn`, which is about to be retired. The latest one tells the round trip,
    /// including the time that the peer took to answer: right for time-outs, which must be longer.
    /// Returns whether the packet is newly acknowledged.
    #[inline]
    fn packet_arrived(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        psn: Psn,
        is_latest: bool,
        runs: bool,
    ) -> bool {
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        let Some(packet) = state.tx().record(&self.in_flight, psn) else { return false };
        let packet = *packet;
        if packet.flags.contains(TxFlags::ACKED) {
            state.tx_mut().sacked_packet_retires();
            if packet.flags.contains(TxFlags::EVENT) {
                self.credit_ops(cx, matcher, conn, &packet, false);
            }
            return false;
        }
        if is_latest && !packet.flags.contains(TxFlags::RETRANSMITTED) {
            state.path_mut().sample(now.since(packet.sent_at));
        }
        self.record_first_ack(cx, conn, &packet);
        self.credit_ops(cx, matcher, conn, &packet, runs);
        true
    }

    /// Marks the packets of a bitmap. Returns how many are newly acknowledged.
    fn mark_all(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        sack: Sack<'_>,
    ) -> u32 {
        let mut newly_acked = 0;
        for (first, word) in sack.words() {
            let mut rest = word & cx.table[conn].tx().open_from(&self.in_flight, first);
            // bound: the bits of a word
            while rest != 0 {
                let psn = first.plus(rest.trailing_zeros());
                newly_acked += u32::from(self.mark_sacked(cx, matcher, conn, psn));
                rest &= rest - 1;
            }
        }
        newly_acked
    }

    /// Marks packet `psn` as arrived although a packet before it is missing. Returns whether it is
    /// newly acknowledged.
    fn mark_sacked(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        psn: Psn,
    ) -> bool {
        let state = &mut cx.table[conn];
        if psn.is_before(state.tx().first_psn()) {
            return false;
        }
        let marked = state.tx().change_record(&mut self.in_flight, psn, |record| {
            record.flags = record.flags.union(TxFlags::ACKED).difference(TxFlags::LOST);
        });
        let Some(packet) = marked.filter(|packet| !packet.flags.contains(TxFlags::ACKED)) else {
            return false;
        };
        state.tx_mut().packet_sacked(psn);
        self.record_first_ack(cx, conn, &packet);
        if !packet.flags.contains(TxFlags::EVENT) {
            self.credit_ops(cx, matcher, conn, &packet, false);
        }
        true
    }

    /// Records the first acknowledgment of a packet.
    #[inline]
    fn record_first_ack(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, packet: &TxPacket) {
        let state = &mut cx.table[conn];
        if packet.flags.contains(TxFlags::LOST) {
            state.tx_mut().lost_packet_arrived();
        }
        state.path_mut().acked(packet.sent_at);
    }

    /// Ends the messages at the front of an acknowledged packet in one loop, while each lacks
    /// nothing else. [`Self::credit_ops`] has the same effect, one message at a time. The messages
    /// are neighbours in their queue, and stay neighbours as they end. Returns the rest of the
    /// packet. Bound: the operations of one packet.
    // Not inlined: the loop needs all registers.
    #[inline(never)]
    fn end_run(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, packet: &TxPacket) -> Option<TxPacket> {
        let state = &mut cx.table[conn];
        if !state.may_complete() {
            return Some(*packet);
        }
        let first = OpSlot::of(packet.op);
        if !self.ops.is_used(first) || packet.op != first.id(self.ops.generation(first)) {
            return None;
        }
        let first_serial = self.ops[first].serial;
        let (mut last, mut next, mut count, mut passed) = (OpSlot::NONE, first, 0, 0);
        while next.is_some() {
            let op = &mut self.ops[next];
            passed = op.serial.wrapping_sub(first_serial);
            let TxKind::Message(envelope) = &op.kind else { break };
            let ends = passed < u32::from(packet.len)
                && op.rnr_epoch == packet.rnr_epoch
                && envelope.msn.is_before(state.tx().accepted_msn())
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
            let (queue, run) = (state.sends_mut().list_mut(), (first, last));
            cx.completions.finish_send_run(&mut self.ops, &mut cx.stats, queue, run, count);
        }
        let left =
            u32::from(packet.len).checked_sub(passed).filter(|&left| left > 0 && next.is_some())?;
        Some(TxPacket { op: self.op_id(next), len: left as u16, ..*packet })
    }

    /// Credits the operations of an acknowledged packet. `runs`: they may end in runs.
    #[inline(always)]
    fn credit_ops(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        packet: &TxPacket,
        runs: bool,
    ) {
        if packet.len == 1 || packet.flags.contains(TxFlags::PART) {
            if let Some(slot) = self.op_of_attempt(packet.op, packet.rnr_epoch) {
                self.credit_op(cx, matcher, conn, slot);
            }
            return;
        }
        let rest = if runs { self.end_run(cx, conn, packet) } else { Some(*packet) };
        if let Some(rest) = rest {
            self.each_whole(&rest, |sender, slot| sender.credit_op(cx, matcher, conn, slot));
        }
    }

    #[inline(always)]
    fn credit_op(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        slot: OpSlot,
    ) {
        let op = &mut self.ops[slot];
        op.in_flight -= 1;
        let TxKind::Message(envelope) = &op.kind else {
            return self.try_finish(cx, matcher, conn, slot);
        };
        // The check of `try_finish` for a pushed message.
        let state = &mut cx.table[conn];
        let accepted = envelope.msn.is_before(state.tx().accepted_msn());
        if accepted && op.all_sent && op.in_flight == 0 && state.may_complete() {
            state.sends_mut().list_mut().remove(&mut self.ops, slot);
            self.finish(cx, slot);
        }
    }

    /// Ends accepted messages, which may have been acknowledged before. Bound: operations up to the
    /// first message that is not accepted.
    #[inline]
    pub(crate) fn end_accepted(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
    ) {
        let mut slot = cx.table[conn].sends().list().head();
        while slot.is_some() {
            let next = List::next(&mut self.ops, slot);
            let accepted = cx.table[conn].tx().accepted_msn();
            let envelope = self.ops[slot].envelope();
            if envelope.is_some_and(|envelope| !envelope.msn.is_before(accepted)) {
                return;
            }
            self.try_finish(cx, matcher, conn, slot);
            slot = next;
        }
    }

    /// Ends the operations that waited for announced errors, all of which have arrived. Bound:
    /// operations posted to one peer.
    pub(super) fn finish_after_errors(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
    ) {
        let mut slot = cx.table[conn].sends().list().head();
        while slot.is_some() {
            let next = List::next(&mut self.ops, slot);
            self.try_finish(cx, matcher, conn, slot);
            slot = next;
        }
    }

    /// Ends an operation if it lacks nothing.
    pub(super) fn try_finish(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        slot: OpSlot,
    ) {
        let state = &cx.table[conn];
        let op = &self.ops[slot];
        if !op.all_sent || op.in_flight > 0 {
            return;
        }
        let posted = self.is_posted(slot);
        let ended = match &op.kind {
            TxKind::Message(envelope) => envelope.msn.is_before(state.tx().accepted_msn()),
            TxKind::Rendezvous(_) => op.answered,
            _ => op.answered || !op.is_request(),
        };
        if !ended || (posted && !state.may_complete()) {
            return;
        }
        cx.table[conn].queue(posted).list_mut().remove(&mut self.ops, slot);
        if posted {
            self.finish(cx, slot);
        } else {
            self.finish_internal(cx, matcher, conn, slot);
        }
    }

    /// Whether a packet acknowledges the oldest one under way and no other, and so ends the only
    /// message in it: the send time of that packet, and the operation.
    #[inline(always)]
    pub(crate) fn predict_end(
        &self,
        state: &Connection,
        header: &Header,
        accepted: Msn,
    ) -> Option<(Tick, OpSlot)> {
        let oldest = state.tx().first_psn();
        if state.tx().all_acknowledged() || header.ack_psn() != oldest.plus(1) {
            return None;
        }
        let record = state.tx().record(&self.in_flight, oldest)?;
        if record.flags != TxFlags::empty() || record.len != 1 {
            return None;
        }
        let slot = self.op_of_attempt(record.op, record.rnr_epoch)?;
        let op = &self.ops[slot];
        let ends = match &op.kind {
            TxKind::Message(envelope) => envelope.msn.is_before(accepted),
            _ => false,
        };
        (ends && op.all_sent && op.in_flight == 1 && state.may_complete())
            .then_some((record.sent_at, slot))
    }

    /// Retires the oldest packet under way; its operation, as [`Self::predict_end`] found it,
    /// leaves its queue.
    #[inline(always)]
    pub(crate) fn retire_predicted(
        &mut self,
        state: &mut Connection,
        now: Tick,
        ack: Psn,
        sent_at: Tick,
        slot: OpSlot,
    ) {
        state.path_mut().sample(now.since(sent_at));
        state.path_mut().acked(sent_at);
        state.tx_mut().retire_until(&mut self.in_flight, ack);
        state.on_newly_acked(1, now);
        state.sends_mut().list_mut().remove(&mut self.ops, slot);
        self.ops[slot].in_flight = 0;
    }
}
