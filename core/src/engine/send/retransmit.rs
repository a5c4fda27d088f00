// SPDX-License-Identifier: MIT OR Apache-2.0
//! Retransmission: the choice of a packet, and its records (`docs/PROTOCOL.md` §4.1).
//!
//! In: records of packets under way. Out: the same packet again, without the operations that are
//! superseded. Bound: the window.

use crate::Memory;
use crate::collections::list::List;
use crate::collections::serial::Psn;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::engine::send::pieces::{cut, record_piece};
use crate::engine::send::transmit::put_header;
use crate::peer::operation::TxOp;
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ConnSlot, OpSlot, PeerSlot};
use crate::wire::{Flags, HEADER_LEN, PacketKind};

/// Whether an operation is of the attempt that `rnr_epoch` names; all but messages are of any.
#[inline]
fn is_of_attempt(op: &TxOp, rnr_epoch: u8) -> bool {
    op.envelope().is_none() || op.rnr_epoch == rnr_epoch
}

#[cfg(test)]
mod tests;

impl Sender<'_> {
    /// Whether a packet that is taken for lost may be sent again now.
    #[inline]
    pub(super) fn may_retransmit(&self, cx: &Ctx<'_>, conn: ConnSlot) -> bool {
        let state = &cx.table[conn];
        state.tx().lost() > 0 && self.path_has_room(cx, state)
    }

    /// The lowest packet that is taken for lost. Bound: the window.
    pub(super) fn next_lost(&self, cx: &mut Ctx<'_>, conn: ConnSlot) -> Option<Psn> {
        if !self.may_retransmit(cx, conn) {
            return None;
        }
        cx.table[conn].tx_mut().next_lost(&self.in_flight)
    }

    /// The packet of the tail loss probe: the one sent last among those under way (RFC 8985 §7.3).
    /// It is the first one of them if the last may be refused for being out of order. Bound: the
    /// chunks of the window.
    pub(super) fn probe_packet(&self, cx: &Ctx<'_>, conn: ConnSlot) -> Option<Psn> {
        let tx = cx.table[conn].tx();
        let (first, last) = tx.ends_of_open(&self.in_flight)?;
        let out_of_order = tx.record(&self.in_flight, last)?.flags.contains(TxFlags::BARRIER);
        Some(if out_of_order { first } else { last })
    }

    /// Sends packet `psn` again, without the records that are superseded: whole, or its next piece
    /// if it takes more than `room` bytes.
    pub(super) fn retransmit<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        target: &RmaTarget<'_>,
        (conn, psn): (ConnSlot, Psn),
        (packet, room): (&mut [u8], usize),
        memory: &mut M,
    ) -> Option<usize> {
        let sent = *cx.table[conn].tx().record(&self.in_flight, psn)?;
        let peer = cx.table[conn].peer();
        let mut len = self.compose_again(target, (&sent, peer), packet, memory)?;
        let mut kind = PacketKind::Data;
        let mut is_sent = true;
        if len > room {
            let offset = cx.table[conn].next_piece(psn);
            let piece = cut(packet, len, room, offset)?;
            record_piece(cx, &mut self.in_flight, (conn, psn), piece);
            (kind, len, is_sent) = (PacketKind::Piece, piece.len, piece.is_last);
        }
        if is_sent {
            self.record_retransmission(cx, conn, psn)?;
        }
        cx.table[conn].path_mut().sent(cx.timers.tick());
        let mut flags = Flags::RETRANSMISSION | Flags::ACK_REQUEST;
        flags.set(Flags::BARRIER, sent.flags.contains(TxFlags::BARRIER));
        let mut header = self.header(cx, matcher, &cx.table[conn], kind, flags).with_psn(psn);
        header.rnr_epoch = sent.rnr_epoch;
        put_header(&header, packet)?;
        cx.table[conn].rx_mut().acknowledged(false);
        Some(len)
    }

    /// Writes the records of a packet behind the room for its header. Returns the length of both.
    fn compose_again<M: Memory>(
        &mut self,
        target: &RmaTarget<'_>,
        (sent, peer): (&TxPacket, PeerSlot),
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let mut at = HEADER_LEN;
        if sent.flags.contains(TxFlags::PART) {
            if let Some(slot) = self.op_of_attempt(sent, peer) {
                let offset = sent.begins_at(self.ops[slot].sent);
                let into = packet.get_mut(at..)?;
                at +=
                    self.encode_segment(target, slot, offset, sent.len, into, memory).unwrap_or(0);
            }
        } else {
            self.each_whole(sent, peer, |sender, slot| {
                let rest = packet.get_mut(at..).unwrap_or_default();
                at += sender.encode_whole(target, slot, rest, memory).unwrap_or(0);
            });
        }
        Some(at)
    }

    /// Records that all of packet `psn` goes out again.
    fn record_retransmission(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, psn: Psn) -> Option<()> {
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        let sent = state.tx().change_record(&mut self.in_flight, psn, |record| {
            record.sent_at = now;
            record.flags = record.flags.union(TxFlags::RETRANSMITTED).difference(TxFlags::LOST);
        })?;
        if sent.flags.contains(TxFlags::LOST) {
            state.tx_mut().lost_packet_retransmitted();
            // This packet is answered as well as a probe.
            state.path_mut().clear_tail_probe();
        }
        state.tx_mut().packet_retransmitted();
        cx.stats.retransmissions += 1;
        Some(())
    }

    /// The slot of the first operation of a packet to `peer`, if it is still under way, and of a
    /// message in the attempt in which the packet was sent.
    #[inline]
    pub(super) fn op_of_attempt(&self, packet: &TxPacket, peer: PeerSlot) -> Option<OpSlot> {
        Some(self.find_of_attempt(packet, peer)?.0)
    }

    /// The slot and the state of an operation, as [`Self::op_of_attempt`] finds it. An identifier
    /// comes again after 2^12 others of its slot, and a peer can leave a superseded packet without
    /// an acknowledgment for as long: it gets nothing of an operation for another one.
    #[inline(always)]
    pub(super) fn find_of_attempt(
        &self,
        packet: &TxPacket,
        peer: PeerSlot,
    ) -> Option<(OpSlot, &TxOp)> {
        let slot = OpSlot::of(packet.op);
        let (op, generation) = self.ops.tenant(slot)?;
        let is_op = slot.id(generation) == packet.op && op.peer.slot() == peer.number();
        (is_op && is_of_attempt(op, packet.rnr_epoch)).then_some((slot, op))
    }

    /// Calls `each` for the operations of a packet to `peer` that are still under way in the
    /// attempt in which it was sent. They are neighbours in the peer's queue: none of them can have
    /// ended before this packet was acknowledged, unless all of them were superseded.
    pub(super) fn each_whole(
        &mut self,
        packet: &TxPacket,
        peer: PeerSlot,
        mut each: impl FnMut(&mut Self, OpSlot),
    ) {
        let Some(first) = self.op_of_attempt(packet, peer) else { return };
        let first_serial = self.ops[first].serial;
        let mut slot = first;
        // bound: the operations of one packet
        while slot.is_some() {
            let serial = self.ops[slot].serial;
            if serial.wrapping_sub(first_serial) >= u32::from(packet.len)
                || !is_of_attempt(&self.ops[slot], packet.rnr_epoch)
            {
                return;
            }
            let next = List::next(&mut self.ops, slot);
            each(self, slot);
            slot = next;
        }
    }
}
