// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of remote memory access: writes, reads, atomics, their responses and errors
//! (`docs/PROTOCOL.md` §7, §8). This file reads them, `put` writes them.

mod put;

pub use put::{
    BEFORE_LEN, ERROR_LEN, READ_REQUEST_LEN, atomic_request_len, atomic_response_len,
    put_atomic_request, put_atomic_response, put_error, put_read_request, put_read_response,
    put_write, read_response_len, write_len,
};

use super::layout::{FETCH, HAS_DATA, LAST, RENDEZVOUS, REST, RecordStart, padded};
use crate::api::atomic::{AtomicOp, Datatype};
use crate::api::limits::ATOMIC_LEN_MAX;
use crate::{AtomicForm, OpError, OpId, Remote};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The reason for refusing an operation, on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum ErrorCode {
    /// The key is unknown, or its access rights do not permit the operation.
    Key = 1,
    /// The range is not inside the region.
    Bounds = 2,
    /// The combination of datatype, op and length does not exist.
    Unsupported = 3,
}

impl ErrorCode {
    fn from_number(number: u32) -> Option<Self> {
        [Self::Key, Self::Bounds, Self::Unsupported].into_iter().find(|&c| c as u32 == number)
    }
}

impl From<ErrorCode> for OpError {
    fn from(code: ErrorCode) -> Self {
        match code {
            ErrorCode::Key => Self::Key,
            ErrorCode::Bounds => Self::Bounds,
            ErrorCode::Unsupported => Self::Unsupported,
        }
    }
}

impl From<OpError> for ErrorCode {
    fn from(error: OpError) -> Self {
        match error {
            OpError::Bounds => Self::Bounds,
            OpError::Unsupported => Self::Unsupported,
            _ => Self::Key,
        }
    }
}

/// The status of a response: 0, or the error code.
fn status(number: u32) -> Option<Result<(), ErrorCode>> {
    if number == 0 { Some(Ok(())) } else { ErrorCode::from_number(number).map(Err) }
}

const fn status_number(status: Result<(), ErrorCode>) -> u32 {
    match status {
        Ok(()) => 0,
        Err(code) => code as u32,
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct WriteHeader {
    start: RecordStart,
    op: U32,
    key: U64,
    address: U64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ReadRequestHeader {
    start: RecordStart,
    op: U32,
    key: U64,
    address: U64,
    offset: U64,
    len: U32,
    zero: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ReadResponseHeader {
    start: RecordStart,
    op: U32,
    offset: U64,
    status: U32,
    zero: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AtomicRequestHeader {
    start: RecordStart,
    op_id: U32,
    key: U64,
    address: U64,
    datatype: u8,
    op: u8,
    count: U16,
    zero: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AtomicResponseHeader {
    start: RecordStart,
    op: U32,
    status: U32,
    zero: U32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct ErrorHeader {
    start: RecordStart,
    op: U32,
    info: U64,
    kind: U16,
    code: U16,
    sequence: u8,
    zero: [u8; 3],
}

static_assertions::const_assert_eq!(size_of::<WriteHeader>(), 24);
static_assertions::const_assert_eq!(size_of::<ReadRequestHeader>(), 40);
static_assertions::const_assert_eq!(size_of::<ReadResponseHeader>(), 24);
static_assertions::const_assert_eq!(size_of::<AtomicRequestHeader>(), 32);
static_assertions::const_assert_eq!(size_of::<AtomicResponseHeader>(), 16);
static_assertions::const_assert_eq!(size_of::<ErrorHeader>(), 24);

/// Bytes for the receiver's memory: a whole write, or a part with its own address.
#[derive(Clone, Copy, Debug)]
pub struct WriteRecord<'a> {
    /// The sender's operation, for error records.
    pub op: OpId,
    /// The destination of these bytes.
    pub remote: Remote,
    /// Remote CQ data, in the last part.
    pub data: Option<u64>,
    /// Whether this is the last part of the operation, in the order of the bytes.
    pub last: bool,
    /// Together with data: bytes of the operation in its other parts.
    pub before: u64,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> WriteRecord<'a> {
    pub(super) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = WriteHeader::ref_from_prefix(bytes).ok()?;
        let (data, payload, rest) = header.start.split_rest(rest)?;
        let record = Self::of(header, data, payload)?;
        // Data comes with the last part.
        let sound = header.start.has_only(HAS_DATA | LAST | REST)
            && (record.last || data.is_none())
            && (data.is_some() || !header.start.has(REST));
        record.before.checked_add(record.payload.len() as u64)?;
        sound.then_some((record, rest))
    }

    /// Splits a record that [`Self::split`] has accepted before: flags and padding are not checked.
    #[inline]
    pub(super) fn split_again(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = WriteHeader::ref_from_prefix(bytes).ok()?;
        let (data, rest) = header.start.split_data(rest)?;
        let len = usize::from(header.start.len.get());
        let (padded_payload, rest) = rest.split_at_checked(padded(len))?;
        let record = Self::of(header, data, padded_payload.get(..len)?)?;
        Some((record, rest))
    }

    #[inline(always)]
    fn of(header: &WriteHeader, data: Option<u64>, payload: &'a [u8]) -> Option<Self> {
        let remote = Remote { key: header.key.get(), address: header.address.get() };
        let op = OpId::from_bits(header.op.get());
        let last = header.start.has(LAST);
        let (before, payload) = if header.start.has(REST) {
            let (before, payload) = U64::ref_from_prefix(payload).ok()?;
            (before.get(), payload)
        } else {
            (0, payload)
        };
        Some(Self { op, remote, data, last, before, payload })
    }
}

/// A request for bytes.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequestRecord {
    /// The sender's operation: the response repeats it.
    pub op: OpId,
    /// The address of the bytes; in a rendezvous, the message's handle and the offset in it.
    pub remote: Remote,
    /// Whether the bytes belong to a message, in a rendezvous.
    pub rendezvous: bool,
    /// Offset of the bytes in the operation: the response repeats it.
    pub offset: u64,
    /// The number of bytes.
    pub len: u32,
    /// Whether this is the last request of its operation.
    pub last: bool,
}

impl ReadRequestRecord {
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = ReadRequestHeader::ref_from_prefix(bytes).ok()?;
        let (_, payload, rest) = header.start.split_rest(rest)?;
        let sound = header.start.has_only(RENDEZVOUS | LAST)
            && payload.is_empty()
            && header.zero.get() == 0;
        let record = Self {
            op: OpId::from_bits(header.op.get()),
            remote: Remote { key: header.key.get(), address: header.address.get() },
            rendezvous: header.start.has(RENDEZVOUS),
            offset: header.offset.get(),
            len: header.len.get(),
            last: header.start.has(LAST),
        };
        sound.then_some((record, rest))
    }
}

/// Requested bytes, or the reason for their absence.
#[derive(Clone, Copy, Debug)]
pub struct ResponseRecord<'a> {
    /// The receiver's operation.
    pub op: OpId,
    /// Offset of the bytes in the operation; 0 for an atomic.
    pub offset: u64,
    /// Success, or the error.
    pub status: Result<(), ErrorCode>,
    /// The payload; empty in case of an error.
    pub payload: &'a [u8],
}

impl<'a> ResponseRecord<'a> {
    pub(super) fn split_read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = ReadResponseHeader::ref_from_prefix(bytes).ok()?;
        let sound = header.start.has_only(0) && header.zero.get() == 0;
        let (_, payload, rest) = header.start.split_rest(rest)?;
        let status = status(header.status.get())?;
        let (op, offset) = (OpId::from_bits(header.op.get()), header.offset.get());
        (sound && (status.is_ok() || payload.is_empty()))
            .then_some((Self { op, offset, status, payload }, rest))
    }

    pub(super) fn split_atomic(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = AtomicResponseHeader::ref_from_prefix(bytes).ok()?;
        let sound = header.start.has_only(0) && header.zero.get() == 0;
        let (_, payload, rest) = header.start.split_rest(rest)?;
        let status = status(header.status.get())?;
        let op = OpId::from_bits(header.op.get());
        (sound && (status.is_ok() || payload.is_empty()))
            .then_some((Self { op, offset: 0, status, payload }, rest))
    }
}

/// An atomic operation on the receiver's memory. The receiver checks its numbers, because
/// libfabric's may grow.
#[derive(Clone, Copy, Debug)]
pub struct AtomicRequestRecord<'a> {
    /// The sender's operation: response and error repeat it.
    pub op_id: OpId,
    /// The address of the first element.
    pub remote: Remote,
    /// Whether the operation has a response value.
    pub fetch: bool,
    /// Number of the datatype.
    pub datatype: u8,
    /// Number of the op.
    pub op: u8,
    /// The number of elements.
    pub count: u16,
    /// Operands and, for comparing ops, the values to compare with behind them.
    pub payload: &'a [u8],
}

impl<'a> AtomicRequestRecord<'a> {
    pub(super) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = AtomicRequestHeader::ref_from_prefix(bytes).ok()?;
        let (_, payload, rest) = header.start.split_rest(rest)?;
        let sound = header.start.has_only(FETCH) && header.zero.get() == 0;
        let record = Self {
            op_id: OpId::from_bits(header.op_id.get()),
            remote: Remote { key: header.key.get(), address: header.address.get() },
            fetch: header.start.has(FETCH),
            datatype: header.datatype,
            op: header.op,
            count: header.count.get(),
            payload,
        };
        sound.then_some((record, rest))
    }

    /// Datatype and op, if this version knows the combination and the payload has its length. The
    /// payload is operands, operands and comparands, or nothing for an op that only reads.
    #[must_use]
    pub fn checked(&self) -> Option<(Datatype, AtomicOp, usize)> {
        let datatype = Datatype::from_number(self.datatype)?;
        let op = AtomicOp::from_number(self.op)?;
        let form = match (op.compares(), self.fetch) {
            (true, _) => AtomicForm::Compare,
            (false, true) => AtomicForm::Fetch,
            (false, false) => AtomicForm::Base,
        };
        let len = datatype.size() * usize::from(self.count);
        let sound = op.is_valid(form, datatype)
            && (self.fetch || form != AtomicForm::Compare)
            && (1..=ATOMIC_LEN_MAX).contains(&len)
            && self.payload.len() == operand_len(op, len);
        sound.then_some((datatype, op, len))
    }
}

/// Payload bytes of an atomic request on `len` bytes.
#[must_use]
pub const fn operand_len(op: AtomicOp, len: usize) -> usize {
    match op {
        AtomicOp::Read => 0,
        _ if op.compares() => 2 * len,
        _ => len,
    }
}

/// An error of one of the receiver's operations.
#[derive(Clone, Copy, Debug)]
pub struct ErrorRecord {
    /// The operation.
    pub op: OpId,
    /// The reason.
    pub code: ErrorCode,
}

impl ErrorRecord {
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = ErrorHeader::ref_from_prefix(bytes).ok()?;
        let (_, payload, rest) = header.start.split_rest(rest)?;
        let sound = header.start.has_only(0) && payload.is_empty() && header.zero == [0; 3];
        let code = ErrorCode::from_number(u32::from(header.code.get()))?;
        sound.then_some((Self { op: OpId::from_bits(header.op.get()), code }, rest))
    }
}
