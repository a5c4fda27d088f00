// SPDX-License-Identifier: MIT OR Apache-2.0
//! Responses of peers to reads, atomics and rendezvous reads of this side; errors
//! (`docs/PROTOCOL.md` §7.2, §8).
//!
//! In: records of packets that were admitted once. Out: bytes placed for their operation, credits
//! on their way back, operations ended. A response to an operation that has ended, or to that of
//! another peer, is discarded. Bound: the record.

use crate::collections::serial::Psn;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::Connection;
use crate::peer::operation::TxKind;
use crate::peer::slots::{ConnSlot, OpSlot};
use crate::peer::watch::mark;
use crate::wire::{ErrorRecord, ResponseRecord};
use crate::{DropReason, Memory, OpId, Placement, Target};

impl Sender<'_> {
    /// Processes requested bytes, or the reason why there are none. When as many bytes as were
    /// requested have arrived, each requested byte must have arrived once.
    ///
    /// # Errors
    /// [`DropReason::Overlap`]: the connection must end.
    pub(crate) fn process_response<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        psn: Psn,
        response: &ResponseRecord<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let Some(slot) = self.open_request(cx, conn, response.op) else {
            cx.stats.records_discarded += 1;
            return Ok(());
        };
        let op = &mut self.ops[slot];
        let asking = op.open_requests();
        let len = response.payload.len() as u64;
        // Requested bytes that have not arrived.
        let open = op.sent.saturating_sub(op.total - op.missing);
        let end = response.offset.checked_add(len);
        let expected = open > 0 || op.total == 0;
        match response.status {
            Ok(()) if expected && len <= open && end.is_some_and(|end| end <= op.sent) => {
                op.missing -= len;
                if let Some(covered) = op.kind.covered_mut() {
                    cx.coverage.add(covered, response.offset, len);
                    if len == open && !cx.coverage.is_complete(*covered, op.sent) {
                        return Err(DropReason::Overlap);
                    }
                }
                op.answered = op.missing == 0;
                let more = !op.answered;
                let at = match op.kind {
                    TxKind::RendezvousRead { recv, offset, .. } => {
                        let offset = offset + response.offset;
                        Placement { target: Target::Recv(matcher.recv_id(recv)), offset, more }
                    }
                    _ => {
                        Placement { target: Target::Op(response.op), offset: response.offset, more }
                    }
                };
                if len > 0 {
                    cx.stats.bytes_placed += len;
                    memory.place(at, response.payload);
                }
            }
            Err(code) if expected => {
                op.outcome = Err(code.into());
                op.answered = true;
                if !op.all_sent {
                    self.advance_cursor(cx, conn, slot);
                }
            }
            _ => {
                cx.stats.records_discarded += 1;
                return Ok(());
            }
        }
        // bound: the credit
        for _ in self.ops[slot].open_requests()..asking {
            self.owe_credit(cx, conn, slot, psn);
        }
        if self.ops[slot].answered {
            self.try_finish(cx, matcher, conn, slot);
        }
        Ok(())
    }

    /// How many bytes may follow a response before the last one that is missing. `None`: it brings
    /// no bytes of an open operation, or the last ones. Up to there [`Self::process_response`] does
    /// not fail and ends no operation.
    #[inline]
    pub(crate) fn predict_response(
        &self,
        cx: &Ctx<'_>,
        conn: ConnSlot,
        response: &ResponseRecord<'_>,
    ) -> Option<u64> {
        let op = &self.ops[self.open_request(cx, conn, response.op)?];
        let open = op.sent.saturating_sub(op.total - op.missing);
        response.status.ok()?;
        open.checked_sub(response.payload.len() as u64 + 1)
    }

    /// Returns the credit of a request that is answered in full. The peer's slot is free when the
    /// response is acknowledged. Every packet that is sent after all packets up to `psn` have
    /// arrived shows this to the peer.
    fn owe_credit(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, slot: OpSlot, psn: Psn) {
        let posted = self.is_posted(slot);
        let state = &mut cx.table[conn];
        // Parts of the response may arrive in any order: the highest number so far covers them.
        let end = state.rx().receive_window().end();
        let next = psn.plus(1);
        let last = Psn(if end.is_before(next) { next } else { end }.0.wrapping_sub(1));
        state.credits_mut().answered(posted, last);
    }

    /// The operation that waits for a response of this peer.
    fn open_request(&self, cx: &Ctx<'_>, conn: ConnSlot, id: OpId) -> Option<OpSlot> {
        let slot = self.op_with_peer(cx, conn, id)?;
        let op = &self.ops[slot];
        let asked = op.sent > 0 || op.all_sent;
        (op.is_request() && asked && !op.answered).then_some(slot)
    }

    /// Marks for the answers that a peer owes, each 0 if none: to the posted requests that it has
    /// acknowledged; to rendezvous reads and notices of their end, for which it needs no room, and
    /// which it acknowledges in any case. The
    /// oldest one counts: a peer that answers others owes that one nevertheless. Bound: the
    /// operations with the peer.
    pub(crate) fn owed_answers(&self, state: &Connection) -> [u16; 2] {
        [state.sends(), state.responses()].map(|queue| {
            let mut slot = queue.list().head();
            while slot.is_some() && !self.is_owed(slot) {
                slot = self.ops[slot].links.next();
            }
            if slot.is_none() {
                return 0;
            }
            // A later request may have the same slot and as many missing bytes; its generation is
            // another one.
            mark(self.ops[slot].missing as u32 ^ self.op_id(slot).bits().rotate_left(12))
        })
    }

    /// Whether the peer owes the answer to an operation. It owes none to a long read between two of
    /// its requests, which waits for credit.
    fn is_owed(&self, slot: OpSlot) -> bool {
        let op = &self.ops[slot];
        let asked = op.sent > 0 || op.all_sent;
        asked
            && match op.kind {
                TxKind::RendezvousRead { .. } | TxKind::Fin { .. } => true,
                _ => op.is_request() && op.in_flight == 0 && op.open_requests() > 0,
            }
    }

    /// The operation of this side with this peer.
    fn op_with_peer(&self, cx: &Ctx<'_>, conn: ConnSlot, id: OpId) -> Option<OpSlot> {
        let slot = OpSlot::of(id);
        let known = self.ops.is_used(slot) && self.op_id(slot) == id;
        let peer = cx.table.peer_of(conn);
        let ours = known && self.ops[slot].peer == peer && !self.ops[slot].done;
        ours.then_some(slot)
    }

    /// Processes the error of an operation of this side. Operations wait for errors that were
    /// announced: one record of a packet ends them at the most. Bound: the operations posted to the
    /// peer.
    pub(crate) fn process_error(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        error: &ErrorRecord,
    ) {
        let waited = !cx.table[conn].may_complete();
        cx.table[conn].errors_mut().record_arrived();
        let found = self.op_with_peer(cx, conn, error.op).filter(|&slot| {
            let op = &self.ops[slot];
            op.is_write() && (op.sent > 0 || op.all_sent)
        });
        if let Some(slot) = found {
            let op = &mut self.ops[slot];
            op.outcome = Err(error.code.into());
            if !op.all_sent {
                self.advance_cursor(cx, conn, slot);
            }
        }
        cx.stats.errors_received += 1;
        if waited && cx.table[conn].may_complete() {
            self.finish_after_errors(cx, matcher, conn);
        } else if let Some(slot) = found {
            self.try_finish(cx, matcher, conn, slot);
        }
    }
}
