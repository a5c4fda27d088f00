// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of remote memory access: writes, reads, atomics, their answers and errors
//! (`docs/PROTOCOL.md` §7, §8); how they are read, and in `put`, how they are written.

mod put;

pub use put::{
    BEFORE_LEN, ERROR_LEN, READ_REQUEST_LEN, atomic_request_len, atomic_response_len,
    put_atomic_request, put_atomic_response, put_error, put_read_request, put_read_response,
    put_write, read_response_len, write_len,
};

use super::record::{FETCH, HAS_DATA, LAST, PULL, REST, RecordStart};
use crate::atomic::{AtomicOp, Datatype};
use crate::{AtomicForm, OpError, OpId, Remote};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Why an operation was refused, as it travels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum ErrorCode {
    /// No such key, or not this right.
    Key = 1,
    /// Not all of the range is in the region.
    Bounds = 2,
    /// No such combination of datatype, op and length.
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

/// The status of a response: 0, or the code.
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

/// Bytes for the receiver's memory: all of a write, or a part that says by itself where it goes.
#[derive(Clone, Copy, Debug)]
pub struct WriteRecord<'a> {
    /// The sender's operation, for error records.
    pub op: OpId,
    /// Where these bytes go.
    pub remote: Remote,
    /// Remote CQ data, with the last part.
    pub data: Option<u64>,
    /// Whether it is the last part of the operation, in the order of the bytes.
    pub last: bool,
    /// With data: bytes of the operation that other parts brought.
    pub before: u64,
    /// The bytes.
    pub payload: &'a [u8],
}

impl<'a> WriteRecord<'a> {
    pub(super) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = WriteHeader::ref_from_prefix(bytes).ok()?;
        let (data, payload, rest) = header.start.split_rest(rest)?;
        let remote = Remote { key: header.key.get(), address: header.address.get() };
        let op = OpId::from_bits(header.op.get());
        let last = header.start.has(LAST);
        // Data comes with the last part.
        let rest_of = header.start.has(REST);
        let sound = header.start.has_only(HAS_DATA | LAST | REST)
            && (last || data.is_none())
            && (data.is_some() || !rest_of);
        let (before, payload) = if rest_of {
            let (before, payload) = U64::ref_from_prefix(payload).ok()?;
            (before.get(), payload)
        } else {
            (0, payload)
        };
        before.checked_add(payload.len() as u64)?;
        sound.then_some((Self { op, remote, data, last, before, payload }, rest))
    }
}

/// Asks for bytes.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequestRecord {
    /// The sender's operation: the response repeats it.
    pub op: OpId,
    /// Where the bytes are; of a pull, the message's handle and the offset in it.
    pub remote: Remote,
    /// Whether it is a message that is pulled.
    pub pull: bool,
    /// Where the bytes belong in the operation: the response repeats it.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
    /// Whether it is the last request of its operation.
    pub last: bool,
}

impl ReadRequestRecord {
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = ReadRequestHeader::ref_from_prefix(bytes).ok()?;
        let (_, payload, rest) = header.start.split_rest(rest)?;
        let sound =
            header.start.has_only(PULL | LAST) && payload.is_empty() && header.zero.get() == 0;
        let record = Self {
            op: OpId::from_bits(header.op.get()),
            remote: Remote { key: header.key.get(), address: header.address.get() },
            pull: header.start.has(PULL),
            offset: header.offset.get(),
            len: header.len.get(),
            last: header.start.has(LAST),
        };
        sound.then_some((record, rest))
    }
}

/// Bytes that were asked for, or why there are none.
#[derive(Clone, Copy, Debug)]
pub struct ResponseRecord<'a> {
    /// The receiver's operation.
    pub op: OpId,
    /// Where in it the bytes belong; 0 for an atomic.
    pub offset: u64,
    /// Whether the request was in order.
    pub status: Result<(), ErrorCode>,
    /// The bytes; none in case of an error.
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

/// An atomic operation on the receiver's memory. That it makes sense is for the receiver to check:
/// libfabric's numbers may grow.
#[derive(Clone, Copy, Debug)]
pub struct AtomicRequestRecord<'a> {
    /// The sender's operation: response and error repeat it.
    pub op_id: OpId,
    /// Where the first element is.
    pub remote: Remote,
    /// Whether the former contents are wanted.
    pub fetch: bool,
    /// Number of the datatype.
    pub datatype: u8,
    /// Number of the op.
    pub op: u8,
    /// How many elements.
    pub count: u16,
    /// Operands and, of comparing ops, the values to compare with behind them.
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

    /// Datatype and op, if this version knows the combination and the payload has the length that
    /// it asks for: operands only, operands and comparands, or nothing where it only reads.
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
            && (1..=super::ATOMIC_LEN_MAX).contains(&len)
            && self.payload.len() == operand_len(op, len);
        sound.then_some((datatype, op, len))
    }
}

/// Bytes that an atomic request on `len` bytes carries.
#[must_use]
pub const fn operand_len(op: AtomicOp, len: usize) -> usize {
    match op {
        AtomicOp::Read => 0,
        _ if op.compares() => 2 * len,
        _ => len,
    }
}

/// An operation of the receiver was in error.
#[derive(Clone, Copy, Debug)]
pub struct ErrorRecord {
    /// Which.
    pub op: OpId,
    /// Why.
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
