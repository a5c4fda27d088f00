// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acknowledgments: packets are retired, and their operations credited (`docs/PROTOCOL.md` §4.3).
//! [ending](super::ending) ends the operations that lack nothing then.
//!
//! Bound: the packets under way to one peer (at most
//! [`WINDOW_PACKETS`](crate::WINDOW_PACKETS)).

use crate::collections::serial::{Msn, Psn};
use crate::collections::time::Tick;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::engine::send::ending::{End, EndRule};
use crate::peer::Connection;
use crate::peer::operation::TxKind;
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ConnSlot, OpSlot};
use crate::wire::{Flags, Header, Sack};

/// Records the first acknowledgment of a packet.
#[inline(always)]
fn record_acked(state: &mut Connection, packet: &TxPacket) {
    if packet.flags.contains(TxFlags::LOST) {
        state.tx_mut().lost_packet_arrived();
        // It was late: an acknowledgment names it before it is sent again.
        state.path_mut().saw_late_packet();
    } else if packet.flags.contains(TxFlags::RETRANSMITTED) {
        state.path_mut().saw_repeated_packet();
    }
    state.path_mut().acked(packet.sent_at);
}

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
        // late one could pass for a future one. At the peer they only grow, as `ack_psn` does. A
        // header that acknowledges more than any before was sent after all of them. A header that
        // acknowledges less was sent before one of them. If it acknowledges as much, the clock
        // decides; headers of one tick are a few steps late at most. A new connection starts with
        // everything before it acknowledged, so no older header passes.
        let current = ahead || (is_latest && ack == state.tx().first_psn());
        if current {
            state.errors_mut().announce(header.err_count);
        }
        if header.flags().contains(Flags::DUPLICATES_SEEN) {
            state.path_mut().saw_late_packet();
            state.tx_mut().saw_duplicate();
        }
        let accepted = state.tx().accepted_msn().nearest(header.accepted_msn());
        let advanced = current && state.tx().accepted_msn().is_before(accepted);
        if advanced {
            state.tx_mut().messages_accepted(accepted);
        }
        let runs = header.is_understood();
        let mut acked = 0;
        if ahead {
            acked = self.retire(cx, matcher, conn, ack, runs);
        }
        if !sack.is_empty() {
            acked += self.mark_all(cx, matcher, conn, sack);
        }
        let state = &mut cx.table[conn];
        if acked > 0 {
            state.on_newly_acked(acked, now);
        }
        let refused =
            current && header.receiver_status().receiver_not_ready_in(state.tx().rnr_epoch());
        let overtaken = state.tx().may_be_overtaken();
        let holes = overtaken || state.tx().lost() > 0;
        let waits = advanced && !state.sends().list().is_empty();
        if overtaken {
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

    /// Whether the peer has acknowledged the lowest packet that it misses. Its records may be gone,
    /// so that it cannot be sent again; and without it, those behind it may never be taken.
    #[inline]
    pub(crate) fn is_contradicted(&self, cx: &Ctx<'_>, conn: ConnSlot) -> bool {
        let tx = cx.table[conn].tx();
        tx.sacked() > 0
            && tx
                .record(&self.in_flight, tx.first_psn())
                .is_some_and(|first| first.flags.contains(TxFlags::ACKED))
    }

    /// Retires the packets before `ack`, which is beyond the last acknowledgment. Returns how
    /// many of them are newly acknowledged, as one at least. `runs`: operations may end in runs.
    pub(crate) fn retire(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        ack: Psn,
        runs: bool,
    ) -> u32 {
        let first = cx.table[conn].tx().first_psn();
        let (mut acked, mut passed, count) = (0, 0, ack.since(first));
        while passed < count {
            let (psn, is_latest) = (first.plus(passed), passed + 1 == count);
            passed += 1;
            let Some(packet) = cx.table[conn].tx().record(&self.in_flight, psn) else { continue };
            let packet = *packet;
            if packet.flags == TxFlags::PART && !is_latest {
                let more = self.credit_parts(cx, matcher, conn, psn, count - passed) - 1;
                acked += 1 + more;
                passed += more;
            } else {
                acked +=
                    u32::from(self.packet_arrived(cx, matcher, conn, &packet, is_latest, runs));
            }
        }
        let state = &mut cx.table[conn];
        state.tx_mut().retire_until(&mut self.in_flight, ack);
        acked.max(1)
    }

    /// Credits a packet that is about to be retired. The latest one tells the round trip, including
    /// the time that the peer took to answer: right for time-outs, which must be longer. Returns
    /// whether it is newly acknowledged.
    #[inline]
    fn packet_arrived(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        packet: &TxPacket,
        is_latest: bool,
        runs: bool,
    ) -> bool {
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        let to = (conn, state.peer());
        if packet.flags.contains(TxFlags::ACKED) {
            state.tx_mut().sacked_packet_retires();
            if packet.flags.contains(TxFlags::EVENT) {
                self.credit_ops(cx, matcher, to, packet, false);
            }
            return false;
        }
        if is_latest && !packet.flags.contains(TxFlags::RETRANSMITTED) {
            state.path_mut().sample(now.since(packet.sent_at));
        }
        record_acked(state, packet);
        self.credit_ops(cx, matcher, to, packet, runs);
        true
    }

    /// Credits packet `psn`, which carries a part and was sent once, and those behind it in its
    /// chunk with parts of the same operation, up to `most` in all. They are about to be retired,
    /// and none is the latest. Returns how many. [`Self::packet_arrived`] has the same effect for
    /// one.
    // Not inlined: messages in one packet have no parts.
    #[inline(never)]
    fn credit_parts(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        psn: Psn,
        most: u32,
    ) -> u32 {
        let state = &mut cx.table[conn];
        let records = state.tx().records_from(&self.in_flight, psn);
        let Some(&first) = records.first() else { return 1 };
        let TxPacket { op, rnr_epoch, mut sent_at, .. } = first;
        let peer = state.peer();
        let mut count = 0;
        for record in records.iter().take(most as usize) {
            if record.flags != TxFlags::PART || (record.op, record.rnr_epoch) != (op, rnr_epoch) {
                break;
            }
            sent_at = sent_at.max(record.sent_at);
            count += 1;
        }
        state.path_mut().acked(sent_at);
        if let Some(slot) = self.op_of_attempt(&first, peer) {
            self.credit_op(cx, matcher, conn, slot, count);
        }
        count
    }

    /// Marks the packets of a bitmap. Returns how many are newly acknowledged.
    fn mark_all(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        sack: Sack<'_>,
    ) -> u32 {
        let mut acked = 0;
        for (first, word) in sack.words() {
            let mut rest = word & cx.table[conn].tx().open_from(&self.in_flight, first);
            // bound: the bits of a word
            while rest != 0 {
                let psn = first.plus(rest.trailing_zeros());
                acked += u32::from(self.mark_sacked(cx, matcher, conn, psn));
                rest &= rest - 1;
            }
        }
        acked
    }

    /// Marks packet `psn` as arrived although a packet before it is missing. Returns whether
    /// it is newly acknowledged.
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
        let to = (conn, state.peer());
        state.tx_mut().packet_sacked(psn);
        record_acked(state, &packet);
        if !packet.flags.contains(TxFlags::EVENT) {
            self.credit_ops(cx, matcher, to, &packet, false);
        }
        true
    }

    /// The send time and the operation of the oldest packet under way, if a packet acknowledges it
    /// and no other, and it has one message only.
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
        let (slot, op) = self.find_of_attempt(record, state.peer())?;
        let is_message = matches!(op.kind, TxKind::Message(_));
        let rule = EndRule::of(state).once_accepted(accepted);
        let ends = is_message && rule.apply(op, 1) == End::Posted;
        ends.then_some((record.sent_at, slot))
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
        let op = &mut self.ops[slot];
        op.in_flight = 0;
        let links = core::mem::take(&mut op.links);
        state.sends_mut().remove_linked(&mut self.ops, links);
    }
}
