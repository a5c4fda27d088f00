// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of an operation, whole or a part of it, now or again (`docs/PROTOCOL.md` §3.5).
//!
//! In: an operation under way. Out: its record in a packet, the payload by [`Memory::gather`].
//! Called when a packet is composed and when it is sent again; changes nothing. Bound: the record.

use super::Engine;
use crate::operation::{Supply, TxKind, TxOp};
use crate::wire::{
    AtomicRequestRecord, ERROR_LEN, ErrorCode, FIN_LEN, READ_LEN_MAX, READ_REQUEST_LEN,
    ReadRequestRecord, atomic_request_len, atomic_response_len, message_len, operand_len,
    put_atomic_request, put_atomic_response, put_error, put_fin, put_message, put_read_request,
    put_read_response, put_rts, put_segment, put_write, read_response_len, rts_len, write_len,
};
use crate::{AtomicForm, Gather, Memory, Remote, Source};

impl Engine<'_> {
    /// Bytes that an operation takes up in a packet as a whole; `None`: it is always sent in parts.
    #[inline]
    pub(super) fn whole_len(&self, number: u32) -> Option<usize> {
        let op = &self.ops[number];
        let total = usize::try_from(op.total).ok().filter(|&total| total <= usize::from(u16::MAX));
        match &op.kind {
            TxKind::Message(envelope) => Some(message_len(total?, envelope.data.is_some())),
            TxKind::Rendezvous(envelope) => Some(rts_len(envelope.data)),
            TxKind::Write { data, .. } if op.sent == 0 => Some(write_len(total?, *data)),
            TxKind::Read { .. } => {
                (op.total <= u64::from(READ_LEN_MAX)).then_some(READ_REQUEST_LEN)
            }
            TxKind::Atomic { op: what, .. } => Some(atomic_request_len(operand_len(*what, total?))),
            TxKind::Response { supply: Supply::Former, .. } => Some(atomic_response_len(total?)),
            TxKind::Response { .. } if op.sent == 0 => Some(read_response_len(total?)),
            TxKind::Error { .. } => Some(ERROR_LEN),
            TxKind::Pull { .. } => Some(READ_REQUEST_LEN),
            TxKind::Fin { .. } => Some(FIN_LEN),
            TxKind::Write { .. } | TxKind::Response { .. } => None,
        }
    }

    /// Writes all of an operation, now or again; `None` if it does not fit.
    #[inline(always)]
    pub(super) fn put_whole<M: Memory>(
        &self,
        number: u32,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let id = self.op_id(number);
        let op = &self.ops[number];
        let own = Gather { source: Source::Op(id), offset: 0, more: false };
        let total = u16::try_from(op.total);
        match op.kind {
            TxKind::Message(ref envelope) => {
                put_message(into, envelope, |payload| memory.gather(own, payload))
            }
            TxKind::Rendezvous(envelope) => put_rts(into, &envelope, u64::from(id.bits())),
            TxKind::Write { remote, data } => {
                let len = total.ok()?;
                put_write(into, id, remote, (data, true, 0), len, |payload| {
                    memory.gather(own, payload);
                })
            }
            TxKind::Read { .. } => self.put_request(number, 0, into),
            TxKind::Atomic { .. } => self.put_atomic(number, into, memory),
            TxKind::Response { request, supply: Supply::Former, .. } => {
                let former = Gather { source: Source::Former(id), offset: 0, more: false };
                let len = total.ok()?;
                put_atomic_response(into, request, len, |payload| memory.gather(former, payload))
            }
            TxKind::Response { .. } => self.put_response(op, 0, total.ok()?, into, memory),
            TxKind::Error { request, code } => put_error(into, request, code, 0),
            TxKind::Pull { handle, offset, .. } => {
                let remote = Remote { key: handle, address: offset };
                let len = u32::try_from(op.total).ok()?;
                let (pull, offset, last) = (true, 0, true);
                put_read_request(
                    into,
                    &ReadRequestRecord { op: id, remote, pull, offset, len, last },
                )
            }
            TxKind::Fin { handle } => put_fin(into, handle, op.total),
        }
    }

    fn put_atomic<M: Memory>(&self, number: u32, into: &mut [u8], memory: &mut M) -> Option<usize> {
        let id = self.op_id(number);
        let TxKind::Atomic { remote, form, datatype, op, count } = self.ops[number].kind else {
            return None;
        };
        let record = AtomicRequestRecord {
            op_id: id,
            remote,
            fetch: form != AtomicForm::Base,
            datatype: datatype as u8,
            op: op as u8,
            count,
            payload: &[],
        };
        let len = operand_len(op, datatype.size() * usize::from(count));
        let own = Gather { source: Source::Op(id), offset: 0, more: false };
        put_atomic_request(into, &record, u16::try_from(len).ok()?, |payload| {
            memory.gather(own, payload);
        })
    }

    /// A request for the part of a read that begins at `offset`.
    fn put_request(&self, number: u32, offset: u64, into: &mut [u8]) -> Option<usize> {
        let op = &self.ops[number];
        let TxKind::Read { remote } = op.kind else { return None };
        let len = op.total.checked_sub(offset)?.min(u64::from(READ_LEN_MAX));
        let request = ReadRequestRecord {
            op: self.op_id(number),
            remote: Remote { key: remote.key, address: remote.address.wrapping_add(offset) },
            pull: false,
            offset,
            len: u32::try_from(len).ok()?,
            last: offset + len == op.total,
        };
        put_read_request(into, &request)
    }

    /// Writes the part of an operation that begins at `offset`, now or again.
    pub(super) fn put_part<M: Memory>(
        &self,
        number: u32,
        offset: u64,
        len: u16,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let id = self.op_id(number);
        let op = &self.ops[number];
        let more = offset + u64::from(len) < op.total;
        let own = Gather { source: Source::Op(id), offset, more };
        match op.kind {
            TxKind::Message(envelope) => {
                put_segment(into, &envelope, offset, len, |payload| memory.gather(own, payload))
            }
            TxKind::Write { remote, data } => {
                let last = offset + u64::from(len) == op.total;
                let address = remote.address.wrapping_add(offset);
                let remote = Remote { key: remote.key, address };
                let data = data.filter(|_| last);
                put_write(into, id, remote, (data, last, offset), len, |payload| {
                    memory.gather(own, payload);
                })
            }
            TxKind::Read { .. } => self.put_request(number, offset, into),
            TxKind::Response { .. } => self.put_response(op, offset, len, into, memory),
            _ => None,
        }
    }

    /// A part of the bytes that a peer asked for. Where they come from may be gone: a region that
    /// was taken back makes an error of the rest; a message that is complete needs nothing more.
    fn put_response<M: Memory>(
        &self,
        op: &TxOp,
        offset: u64,
        len: u16,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let TxKind::Response { request, supply, offset: base } = op.kind else { return None };
        let at = base.wrapping_add(offset);
        let more = offset + u64::from(len) < op.total;
        let from = match supply {
            Supply::Region(region, start) if self.regions.is_known(region) => {
                Gather { source: Source::Region(region), offset: start + offset, more }
            }
            Supply::Message(message, start) => {
                let number = message.slot();
                if !self.ops.is_used(number) || self.op_id(number) != message {
                    return Some(0);
                }
                Gather { source: Source::Op(message), offset: start + offset, more }
            }
            Supply::Nothing(code) => {
                return put_read_response(into, request, at, Err(code), 0, |_| ());
            }
            Supply::Region(..) | Supply::Former => {
                let gone = Err(ErrorCode::Key);
                return put_read_response(into, request, at, gone, 0, |_| ());
            }
        };
        put_read_response(into, request, at, Ok(()), len, |payload| memory.gather(from, payload))
    }
}
