// SPDX-License-Identifier: MIT OR Apache-2.0
//! What peers answer to this side's reads, atomics and pulls; and errors (`docs/PROTOCOL.md` §7.2,
//! §8).
//!
//! In: records of packets that were admitted once. Out: bytes placed where the operation wants
//! them, credits on their way back, operations ended. An answer to an operation that has ended, or
//! to another peer's, is discarded. Bound: the record.

use super::Engine;
use crate::operation::TxKind;
use crate::serial::Psn;
use crate::wire::{ErrorRecord, ResponseRecord};
use crate::{Memory, OpId, Placement, Target};

impl Engine<'_> {
    /// Bytes that this side asked for, or the reason why there are none.
    pub(super) fn take_in_response<M: Memory>(
        &mut self,
        active: u32,
        psn: Psn,
        response: &ResponseRecord<'_>,
        memory: &mut M,
    ) {
        let Some(number) = self.asked(active, response.op) else {
            self.stats.records_discarded += 1;
            return;
        };
        let op = &mut self.ops[number];
        let len = response.payload.len() as u64;
        // Bytes asked for that have not come.
        let open = op.sent.saturating_sub(op.total - op.missing);
        let end = response.offset.checked_add(len);
        let expected = open > 0 || op.total == 0;
        match response.status {
            Ok(()) if expected && len <= open && end.is_some_and(|end| end <= op.sent) => {
                op.missing -= len;
                op.answered = op.missing == 0;
                let more = !op.answered;
                let at = match op.kind {
                    TxKind::Pull { recv, offset, .. } => {
                        let offset = offset + response.offset;
                        Placement { target: Target::Recv(self.recv_id(recv)), offset, more }
                    }
                    _ => {
                        Placement { target: Target::Op(response.op), offset: response.offset, more }
                    }
                };
                if len > 0 {
                    self.stats.bytes_placed += len;
                    memory.place(at, response.payload);
                }
            }
            Err(code) if expected => {
                op.outcome = Err(code.into());
                op.answered = true;
                if !op.all_sent {
                    self.advance_cursor(active, number);
                }
            }
            _ => {
                self.stats.records_discarded += 1;
                return;
            }
        }
        let op = &self.ops[number];
        if op.answered || op.sent + op.missing == op.total {
            self.owe_credit(active, number, psn);
            self.try_finish(active, number);
        }
    }

    /// A request of operation `number` is answered in full. The peer's slot is free when the
    /// answer is acknowledged; every packet that goes out after everything up to `psn` has arrived
    /// tells it that.
    fn owe_credit(&mut self, active: u32, number: u32, psn: Psn) {
        let posted = self.is_posted(number);
        let state = &mut self.actives[active];
        // Parts of the answer may have come in any order: the highest number so far covers them.
        let end = state.window.end();
        let next = psn.plus(1);
        let credits = &mut state.credits;
        credits.asking -= u8::from(posted);
        credits.returning += 1;
        credits.return_psn = Psn(if end.is_before(next) { next } else { end }.0.wrapping_sub(1));
    }

    /// An operation that waits for an answer of this peer.
    fn asked(&self, active: u32, id: OpId) -> Option<u32> {
        let number = self.own(active, id)?;
        let op = &self.ops[number];
        let asked = op.sent > 0 || op.all_sent;
        (op.is_request() && asked && !op.answered).then_some(number)
    }

    /// An operation of ours with this peer.
    fn own(&self, active: u32, id: OpId) -> Option<u32> {
        let number = id.slot();
        let known = self.ops.is_used(number) && self.op_id(number) == id;
        let peer = self.peer_id(self.actives[active].peer);
        let ours = known && self.ops[number].peer == peer && !self.ops[number].done;
        ours.then_some(number)
    }

    /// An operation of ours was in error.
    pub(super) fn take_in_error(&mut self, active: u32, error: &ErrorRecord) {
        let errors = &mut self.actives[active].errors;
        errors.received = errors.received.wrapping_add(1);
        if errors.received.wrapping_sub(errors.announced) < 1 << 7 {
            // The header of this very packet was of an earlier time.
            errors.announced = errors.received;
        }
        let found = self.own(active, error.op).filter(|&number| {
            let op = &self.ops[number];
            op.is_write() && (op.sent > 0 || op.all_sent)
        });
        if let Some(number) = found {
            let op = &mut self.ops[number];
            op.outcome = Err(error.code.into());
            if !op.all_sent {
                self.advance_cursor(active, number);
            }
        }
        self.stats.errors_received += 1;
        if self.actives[active].may_complete() {
            self.end_gated(active);
        }
    }
}
