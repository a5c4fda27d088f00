// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoding of operations into records, whole or in parts, for the first time or again
//! (`docs/PROTOCOL.md` §3.5).
//!
//! In: an operation under way. Out: its record in a packet, the payload by [`Memory::gather`].
//! Called when a packet is composed and when it is sent again; changes nothing. Bound: the record.

use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::peer::operation::{ResponseData, TxKind, TxOp};
use crate::peer::slots::OpSlot;
use crate::wire::{
    AtomicRequestRecord, ERROR_LEN, Envelope, ErrorCode, FIN_LEN, READ_LEN_MAX, READ_REQUEST_LEN,
    ReadRequestRecord, atomic_request_len, atomic_response_len, message_len, operand_len,
    put_atomic_request, put_atomic_response, put_error, put_fin, put_message_before,
    put_read_request, put_read_response, put_rts, put_segment, put_write, read_response_len,
    rts_len, write_len,
};
use crate::{AtomicForm, Gather, Memory, OpId, PeerId, Remote, Source};

/// Writes a whole message; returns the bytes behind it, or `None` if it does not fit.
#[inline(always)]
pub(super) fn encode_message<'a, M: Memory>(
    id: OpId,
    envelope: &Envelope,
    into: &'a mut [u8],
    memory: &mut M,
) -> Option<&'a mut [u8]> {
    let own = Gather { source: Source::Op(id), offset: 0, more: false };
    put_message_before(into, envelope, |payload| memory.gather(own, payload))
}

impl Sender<'_> {
    /// Bytes that an operation takes up in a packet as a whole; `None`: it is sent in parts. Once a
    /// part was sent the rest goes in parts, also when the path has become longer since then.
    #[inline]
    pub(super) fn whole_len(&self, slot: OpSlot) -> Option<usize> {
        let op = &self.ops[slot];
        let may_have_parts = match op.kind {
            TxKind::Message(_) | TxKind::Write { .. } => true,
            TxKind::Response { ref data, .. } => !matches!(data, ResponseData::PreviousValue),
            _ => false,
        };
        if may_have_parts && op.sent > 0 { None } else { self.len_as_a_whole(slot) }
    }

    /// Bytes that an operation takes up, or took up, in a packet as a whole; `None`: it is longer
    /// than any packet.
    #[inline]
    pub(super) fn len_as_a_whole(&self, slot: OpSlot) -> Option<usize> {
        let op = &self.ops[slot];
        let total = usize::try_from(op.total).ok().filter(|&total| total <= usize::from(u16::MAX));
        match &op.kind {
            TxKind::Message(envelope) => Some(message_len(total?, envelope.data.is_some())),
            TxKind::Rendezvous(envelope) => Some(rts_len(envelope.data)),
            TxKind::Write { data, .. } => Some(write_len(total?, *data)),
            TxKind::Read { .. } => {
                (op.total <= u64::from(READ_LEN_MAX)).then_some(READ_REQUEST_LEN)
            }
            TxKind::Atomic { op: what, .. } => Some(atomic_request_len(operand_len(*what, total?))),
            TxKind::Response { data: ResponseData::PreviousValue, .. } => {
                Some(atomic_response_len(total?))
            }
            TxKind::Response { .. } => Some(read_response_len(total?)),
            TxKind::Error { .. } => Some(ERROR_LEN),
            TxKind::RendezvousRead { .. } => Some(READ_REQUEST_LEN),
            TxKind::Fin { .. } => Some(FIN_LEN),
        }
    }

    /// Writes all of an operation, now or again; `None` if it does not fit.
    #[inline(always)]
    pub(super) fn encode_whole<M: Memory>(
        &self,
        target: &RmaTarget<'_>,
        slot: OpSlot,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let id = self.op_id(slot);
        let op = &self.ops[slot];
        let own = Gather { source: Source::Op(id), offset: 0, more: false };
        let total = u16::try_from(op.total);
        match op.kind {
            TxKind::Message(ref envelope) => {
                let room = into.len();
                Some(room - encode_message(id, envelope, into, memory)?.len())
            }
            TxKind::Rendezvous(envelope) => put_rts(into, &envelope, u64::from(id.bits())),
            TxKind::Write { remote, data } => {
                let len = total.ok()?;
                put_write(into, id, remote, (data, true, 0), len, |payload| {
                    memory.gather(own, payload);
                })
            }
            TxKind::Read { .. } => self.encode_read_request(slot, 0, into),
            TxKind::Atomic { .. } => self.encode_atomic(slot, into, memory),
            TxKind::Response { request, data: ResponseData::PreviousValue, .. } => {
                let previous = Gather { source: Source::PreviousValue(id), offset: 0, more: false };
                let len = total.ok()?;
                put_atomic_response(into, request, len, |payload| memory.gather(previous, payload))
            }
            TxKind::Response { .. } => self.put_response(target, op, 0, total.ok()?, into, memory),
            TxKind::Error { request, code } => put_error(into, request, code, 0),
            TxKind::RendezvousRead { handle, offset, .. } => {
                let remote = Remote { key: handle, address: offset };
                let len = u32::try_from(op.total).ok()?;
                let (rendezvous, offset, last) = (true, 0, true);
                put_read_request(
                    into,
                    &ReadRequestRecord { op: id, remote, rendezvous, offset, len, last },
                )
            }
            TxKind::Fin { handle } => put_fin(into, handle, op.total),
        }
    }

    fn encode_atomic<M: Memory>(
        &self,
        slot: OpSlot,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let id = self.op_id(slot);
        let TxKind::Atomic { remote, form, datatype, op, count, .. } = self.ops[slot].kind else {
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
    fn encode_read_request(&self, slot: OpSlot, offset: u64, into: &mut [u8]) -> Option<usize> {
        let op = &self.ops[slot];
        let TxKind::Read { remote, .. } = op.kind else { return None };
        let len = op.total.checked_sub(offset)?.min(u64::from(READ_LEN_MAX));
        let request = ReadRequestRecord {
            op: self.op_id(slot),
            remote: Remote { key: remote.key, address: remote.address.wrapping_add(offset) },
            rendezvous: false,
            offset,
            len: u32::try_from(len).ok()?,
            last: offset + len == op.total,
        };
        put_read_request(into, &request)
    }

    /// Writes the part of an operation that begins at `offset`, now or again.
    pub(super) fn encode_segment<M: Memory>(
        &self,
        target: &RmaTarget<'_>,
        slot: OpSlot,
        offset: u64,
        len: u16,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let id = self.op_id(slot);
        let op = &self.ops[slot];
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
            TxKind::Read { .. } => self.encode_read_request(slot, offset, into),
            TxKind::Response { .. } => self.put_response(target, op, offset, len, into, memory),
            _ => None,
        }
    }

    /// Writes a part of the bytes of a response. Their source may be gone: a region that was taken
    /// back makes an error of the rest; a message that is complete needs nothing more.
    fn put_response<M: Memory>(
        &self,
        target: &RmaTarget<'_>,
        op: &TxOp,
        offset: u64,
        len: u16,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let TxKind::Response { request, data, offset: base } = op.kind else { return None };
        let at = base.wrapping_add(offset);
        let more = offset + u64::from(len) < op.total;
        let status = match (self.response_source(target, (data, op.peer), offset, more), data) {
            (Some(from), _) => {
                return put_read_response(into, request, at, Ok(()), len, |payload| {
                    memory.gather(from, payload);
                });
            }
            (None, ResponseData::Message(..)) => return Some(0),
            (None, ResponseData::Error(code)) => code,
            (None, ResponseData::Region(..) | ResponseData::PreviousValue) => ErrorCode::Key,
        };
        put_read_response(into, request, at, Err(status), 0, |_| ())
    }

    /// Where the bytes of a response to a read are, from `offset` on; `None` if they are gone.
    #[inline]
    fn response_source(
        &self,
        target: &RmaTarget<'_>,
        (data, peer): (ResponseData, PeerId),
        offset: u64,
        more: bool,
    ) -> Option<Gather> {
        match data {
            ResponseData::Region(region, start, _) if target.is_registered(region) => {
                Some(Gather { source: Source::Region(region), offset: start + offset, more })
            }
            ResponseData::Message(message, start) => {
                let op = &self.ops[self.find(message)?];
                // It keeps its slot until its completion is polled, but the application may have
                // learned of its end from a counter, and own the bytes again. Then another
                // operation may have the slot, and its identifier after 2^12 others.
                let is_read = matches!(op.kind, TxKind::Rendezvous(_)) && op.peer == peer;
                if op.done || !is_read {
                    return None;
                }
                Some(Gather { source: Source::Op(message), offset: start + offset, more })
            }
            _ => None,
        }
    }

    /// Where the bytes of a part are that is not the last one; `None` for operations without bytes.
    pub(super) fn part_source(
        &self,
        target: &RmaTarget<'_>,
        slot: OpSlot,
        offset: u64,
    ) -> Option<Gather> {
        match self.ops[slot].kind {
            TxKind::Message(_) | TxKind::Write { .. } => {
                Some(Gather { source: Source::Op(self.op_id(slot)), offset, more: true })
            }
            TxKind::Response { data, .. } => {
                let peer = self.ops[slot].peer;
                self.response_source(target, (data, peer), offset, true)
            }
            _ => None,
        }
    }
}
