// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet that goes out once more: which one, and the records it had (`docs/PROTOCOL.md` §4.1).
//!
//! In: notes of packets under way. Out: the same packet again, less what nobody needs any more.
//! Bound: the window.

use super::Engine;
use crate::in_flight::{TxFlags, TxPacket};
use crate::serial::Psn;
use crate::slab::{List, NIL};
use crate::wire::{Flags, HEADER_LEN, PacketKind};
use crate::{Memory, OpId};

impl Engine<'_> {
    /// Whether a packet that is taken for lost may go now.
    #[inline]
    pub(super) fn may_resend(&self, active: u32) -> bool {
        let state = &self.actives[active];
        state.may_resend() && self.path_has_room(state)
    }

    /// The lowest packet that is taken for lost. Bound: the window.
    pub(super) fn next_lost(&mut self, active: u32) -> Option<Psn> {
        if !self.may_resend(active) {
            return None;
        }
        let state = &mut self.actives[active];
        let mut psn = state.lost_from;
        while psn != state.next_psn {
            let note = self.in_flight.packet(&state.directory, psn)?;
            if note.flags.contains(TxFlags::LOST) {
                state.lost_from = psn;
                return Some(psn);
            }
            psn = psn.plus(1);
        }
        // Not reached while the count is right; a wrong count must not stop the peer for good.
        debug_assert!(false, "lost packets are at or after `lost_from`");
        state.lost_from = state.first_psn;
        state.lost = 0;
        None
    }

    /// The packet that draws an answer when nothing else does: the one sent last among those under
    /// way (RFC 8985 §7.3), but the first where the last one may have been refused for being early.
    pub(super) fn probe_packet(&mut self, active: u32) -> Option<Psn> {
        let state = &self.actives[active];
        let count = state.next_psn.since(state.first_psn);
        let open = |psn: &Psn| {
            let note = self.in_flight.packet(&state.directory, *psn);
            note.filter(|note| !note.flags.contains(TxFlags::ACKED)).map(|note| note.flags)
        };
        let mut open = open;
        let last =
            (0..count).rev().map(|n| state.first_psn.plus(n)).find(|psn| open(psn).is_some())?;
        let early = open(&last)?.contains(TxFlags::BARRIER);
        Some(if early { state.first_psn } else { last })
    }

    /// Sends packet `psn` once more: the records it had, less those that are superseded.
    pub(super) fn emit_again<M: Memory>(
        &mut self,
        active: u32,
        psn: Psn,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let now = self.tick();
        let state = &mut self.actives[active];
        let note = self.in_flight.packet(&state.directory, psn)?;
        let sent = *note;
        note.sent_at = now;
        note.flags = note.flags.union(TxFlags::RESENT).difference(TxFlags::LOST);
        if sent.flags.contains(TxFlags::LOST) {
            state.lost -= 1;
            // It draws an answer, too.
            state.probe = false;
            state.resend_credit = state.resend_credit.saturating_sub(1);
        }
        state.timer_from = now;
        state.congestion.sent(&state.rtt, now);
        state.resent = state.resent.wrapping_add(1);
        self.stats.retransmissions += 1;
        let mut flags = Flags::RETRANSMISSION | Flags::ACK_REQUEST;
        flags.set(Flags::BARRIER, sent.flags.contains(TxFlags::BARRIER));
        let mut header = self.header(active, PacketKind::Data, flags, psn);
        header.rnr_epoch = sent.rnr_epoch;
        super::transmit::put_header(&header, packet)?;
        let mut at = HEADER_LEN;
        if sent.flags.contains(TxFlags::PART) {
            if let Some(number) = self.op_of_attempt(sent.op, sent.rnr_epoch) {
                let offset = sent.begins_at(self.ops[number].sent);
                let into = packet.get_mut(at..)?;
                at += self.put_part(number, offset, sent.len, into, memory).unwrap_or(0);
            }
        } else {
            self.each_whole(&sent, |engine, number| {
                let rest = packet.get_mut(at..).unwrap_or_default();
                at += engine.put_whole(number, rest, memory).unwrap_or(0);
            });
        }
        self.actives[active].acknowledged(false);
        Some(at)
    }

    /// The slot of an operation, if it is still under way, and of a message in the attempt that
    /// `rnr_epoch` names.
    #[inline]
    pub(super) fn op_of_attempt(&self, id: OpId, rnr_epoch: u8) -> Option<u32> {
        let number = id.slot();
        let known = self.ops.is_used(number) && self.op_id(number) == id;
        (known && self.is_of_attempt(number, rnr_epoch)).then_some(number)
    }

    #[inline]
    fn is_of_attempt(&self, number: u32, rnr_epoch: u8) -> bool {
        let op = &self.ops[number];
        op.envelope().is_none() || op.rnr_epoch == rnr_epoch
    }

    /// Calls `each` for the operations of a packet that are still under way in the attempt in which
    /// it was sent. They are neighbours in the peer's queue: none of them can have ended before
    /// this packet was acknowledged, unless all of them were superseded.
    pub(super) fn each_whole(&mut self, packet: &TxPacket, mut each: impl FnMut(&mut Self, u32)) {
        let Some(first) = self.op_of_attempt(packet.op, packet.rnr_epoch) else { return };
        let first_serial = self.ops[first].serial;
        let mut number = first;
        // bound: the operations of one packet
        while number != NIL {
            let serial = self.ops[number].serial;
            if serial.wrapping_sub(first_serial) >= u32::from(packet.len)
                || !self.is_of_attempt(number, packet.rnr_epoch)
            {
                return;
            }
            let next = List::next(&mut self.ops, number);
            each(self, number);
            number = next;
        }
    }
}

#[cfg(test)]
mod tests;
