// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writers of the records of remote memory access, and the lengths of these records.
//!
//! In: an operation, and the free bytes of a packet. Out: the bytes taken, or `None` where they do
//! not suffice. Caller: the engine's packetizer. Bound: one record a call.

use super::{
    AtomicRequestHeader, AtomicRequestRecord, AtomicResponseHeader, ErrorCode, ErrorHeader,
    ReadRequestHeader, ReadRequestRecord, ReadResponseHeader, WriteHeader, status_number,
};
use crate::wire::layout::{
    FETCH, LAST, RENDEZVOUS, REST, RecordKind, RecordStart, data_flag, data_len, padded, put_record,
};
use crate::{OpId, Remote};
use zerocopy::little_endian::{U16, U32, U64};

/// Bytes of a write of `payload` bytes in a packet.
#[must_use]
pub const fn write_len(payload: usize, data: Option<u64>) -> usize {
    size_of::<WriteHeader>() + data_len(data) + padded(payload)
}

/// Bytes that the last part of a write with data has in addition.
pub const BEFORE_LEN: usize = size_of::<u64>();

/// Bytes of a read request in a packet.
pub const READ_REQUEST_LEN: usize = size_of::<ReadRequestHeader>();

/// Bytes of a response to a read of `payload` bytes in a packet.
#[must_use]
pub const fn read_response_len(payload: usize) -> usize {
    size_of::<ReadResponseHeader>() + padded(payload)
}

/// Bytes of an atomic request with `payload` bytes of operands in a packet.
#[must_use]
pub const fn atomic_request_len(payload: usize) -> usize {
    size_of::<AtomicRequestHeader>() + padded(payload)
}

/// Bytes of a response to an atomic on `payload` bytes in a packet.
#[must_use]
pub const fn atomic_response_len(payload: usize) -> usize {
    size_of::<AtomicResponseHeader>() + padded(payload)
}

/// Bytes of an error record in a packet.
pub const ERROR_LEN: usize = size_of::<ErrorHeader>();

/// Writes a write of `len` bytes, like [`put_message`](crate::wire::put_message).
pub fn put_write(
    into: &mut [u8],
    op: OpId,
    remote: Remote,
    (data, last, before): (Option<u64>, bool, u64),
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let rest_of = data.is_some() && before > 0;
    let flags = data_flag(data) | if last { LAST } else { 0 } | if rest_of { REST } else { 0 };
    let len = if rest_of { len.checked_add(BEFORE_LEN as u16)? } else { len };
    let header = WriteHeader {
        start: RecordStart::new(RecordKind::Write, flags, len),
        op: U32::new(op.bits()),
        key: U64::new(remote.key),
        address: U64::new(remote.address),
    };
    put_record(into, &header, data, len, |payload| match payload.split_at_mut_checked(BEFORE_LEN) {
        Some((first, payload)) if rest_of => {
            first.copy_from_slice(&before.to_le_bytes());
            fill(payload);
        }
        _ => fill(payload),
    })
}

/// Writes a read request, like [`put_message`](crate::wire::put_message).
pub fn put_read_request(into: &mut [u8], request: &ReadRequestRecord) -> Option<usize> {
    let flags =
        if request.rendezvous { RENDEZVOUS } else { 0 } | if request.last { LAST } else { 0 };
    let header = ReadRequestHeader {
        start: RecordStart::new(RecordKind::ReadRequest, flags, 0),
        op: U32::new(request.op.bits()),
        key: U64::new(request.remote.key),
        address: U64::new(request.remote.address),
        offset: U64::new(request.offset),
        len: U32::new(request.len),
        zero: U32::new(0),
    };
    put_record(into, &header, None, 0, |_| ())
}

/// Writes `len` bytes of a response to a read, like [`put_message`](crate::wire::put_message).
pub fn put_read_response(
    into: &mut [u8],
    op: OpId,
    offset: u64,
    status: Result<(), ErrorCode>,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let header = ReadResponseHeader {
        start: RecordStart::new(RecordKind::ReadResponse, 0, len),
        op: U32::new(op.bits()),
        offset: U64::new(offset),
        status: U32::new(status_number(status)),
        zero: U32::new(0),
    };
    put_record(into, &header, None, len, fill)
}

/// Writes an atomic request with a payload of `len` bytes by `fill`, like
/// [`put_message`](crate::wire::put_message). `request.payload` is not read.
pub fn put_atomic_request(
    into: &mut [u8],
    request: &AtomicRequestRecord<'_>,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let flags = if request.fetch { FETCH } else { 0 };
    let header = AtomicRequestHeader {
        start: RecordStart::new(RecordKind::AtomicRequest, flags, len),
        op_id: U32::new(request.op_id.bits()),
        key: U64::new(request.remote.key),
        address: U64::new(request.remote.address),
        datatype: request.datatype,
        op: request.op,
        count: U16::new(request.count),
        zero: U32::new(0),
    };
    put_record(into, &header, None, len, fill)
}

/// Writes the previous value of an atomic, `len` bytes, like
/// [`put_message`](crate::wire::put_message).
pub fn put_atomic_response(
    into: &mut [u8],
    op: OpId,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let header = AtomicResponseHeader {
        start: RecordStart::new(RecordKind::AtomicResponse, 0, len),
        op: U32::new(op.bits()),
        status: U32::new(0),
        zero: U32::new(0),
    };
    put_record(into, &header, None, len, fill)
}

/// Writes an error record, the `sequence`-th of its connection, like
/// [`put_message`](crate::wire::put_message).
pub fn put_error(into: &mut [u8], op: OpId, code: ErrorCode, sequence: u8) -> Option<usize> {
    let header = ErrorHeader {
        start: RecordStart::new(RecordKind::Error, 0, 0),
        op: U32::new(op.bits()),
        info: U64::new(0),
        kind: U16::new(RecordKind::Write as u16),
        code: U16::new(code as u16),
        sequence,
        zero: [0; 3],
    };
    put_record(into, &header, None, 0, |_| ())
}
