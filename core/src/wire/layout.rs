// SPDX-License-Identifier: MIT OR Apache-2.0
//! Layout that all records share: alignment, kinds, flags, the first four bytes of the header, and
//! the padding (`docs/PROTOCOL.md` §3.5).

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The payload of a full segment is a multiple of this: whole cache lines.
pub const SEGMENT_QUANTUM: usize = 64;

/// The largest payload of a full segment in `room` bytes.
#[must_use]
pub const fn full_segment(room: usize) -> usize {
    room - room % SEGMENT_QUANTUM
}

/// Alignment of records in bytes.
pub const ALIGN: usize = 8;

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A whole message.
    Message = 0x10,
    /// A segment of a message that does not fit one packet.
    Segment = 0x11,
    /// The announcement of a message: the receiver reads it by rendezvous.
    Rts = 0x12,
    /// The end of a rendezvous: the receiver has read all that it wants.
    Fin = 0x13,
    /// Bytes for the receiver's memory.
    Write = 0x20,
    /// A request for bytes of the receiver's memory, or of a message that the receiver announced.
    ReadRequest = 0x30,
    /// The response to a read request.
    ReadResponse = 0x31,
    /// An atomic operation on the receiver's memory.
    AtomicRequest = 0x40,
    /// The response to an atomic operation: the previous value.
    AtomicResponse = 0x41,
    /// An error of one of the receiver's operations.
    Error = 0x50,
}

/// Flag: the message has a tag.
pub(super) const TAGGED: u8 = 1 << 0;
/// Flag: eight bytes of remote CQ data follow the header.
pub(super) const HAS_DATA: u8 = 1 << 1;
/// Flag of a read request: the key is the handle of a message.
pub(super) const RENDEZVOUS: u8 = 1 << 2;
/// Flag of a write or a read request: the last part of its operation.
pub(super) const LAST: u8 = 1 << 3;
/// Flag of a write with data: the first 8 bytes of the payload give the bytes in other parts.
pub(super) const REST: u8 = 1 << 4;
/// Flag of an atomic request: it has a response value.
pub(super) const FETCH: u8 = 1 << 2;

/// See [`RecordStart::len_before_payload`].
pub(super) const LEN_BEFORE_PAYLOAD_MAX: usize = 24 + size_of::<U64>();

/// The first four bytes of each record's header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RecordStart {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) len: U16,
}

impl RecordStart {
    pub(super) fn new(kind: RecordKind, flags: u8, len: u16) -> Self {
        Self { kind: kind as u8, flags, len: U16::new(len) }
    }

    /// Whether no flag except `known` is set.
    pub(super) const fn has_only(&self, known: u8) -> bool {
        self.flags & !known == 0
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Bytes of a record before its payload, in the kinds that bring long payloads: at most
    /// [`LEN_BEFORE_PAYLOAD_MAX`]. `None` in other kinds, and where a count precedes the payload
    /// ([`REST`]).
    #[inline(always)]
    pub(super) const fn len_before_payload(&self) -> Option<usize> {
        const MESSAGE: u8 = RecordKind::Message as u8;
        const SEGMENT: u8 = RecordKind::Segment as u8;
        const WRITE: u8 = RecordKind::Write as u8;
        const RESPONSE: u8 = RecordKind::ReadResponse as u8;
        let header = match self.kind {
            MESSAGE => 16,
            SEGMENT | RESPONSE => 24,
            WRITE if !self.has(REST) => 24,
            _ => return None,
        };
        Some(header + if self.has(HAS_DATA) { size_of::<U64>() } else { 0 })
    }

    /// Splits off the remote CQ data, if the flag is set.
    #[inline]
    pub(super) fn split_data<'a>(&self, bytes: &'a [u8]) -> Option<(Option<u64>, &'a [u8])> {
        if !self.has(HAS_DATA) {
            return Some((None, bytes));
        }
        let (data, rest) = U64::ref_from_prefix(bytes).ok()?;
        Some((Some(data.get()), rest))
    }

    /// Splits off the remote CQ data, if the flag is set, and the padded payload.
    #[inline(always)]
    pub(super) fn split_rest<'a>(
        &self,
        bytes: &'a [u8],
    ) -> Option<(Option<u64>, &'a [u8], &'a [u8])> {
        let (data, bytes) = self.split_data(bytes)?;
        let len = usize::from(self.len.get());
        let (padded_payload, rest) = bytes.split_at_checked(padded(len))?;
        let (payload, padding) = padded_payload.split_at_checked(len)?;
        padding.iter().all(|&byte| byte == 0).then_some((data, payload, rest))
    }
}

/// `len` rounded up to whole [`ALIGN`] units.
#[must_use]
pub const fn padded(len: usize) -> usize {
    // `next_multiple_of` takes five operations, because it handles overflow.
    (len + (ALIGN - 1)) & !(ALIGN - 1)
}

pub(super) const fn data_flag(data: Option<u64>) -> u8 {
    if data.is_some() { HAS_DATA } else { 0 }
}

pub(super) const fn data_len(data: Option<u64>) -> usize {
    if data.is_some() { size_of::<U64>() } else { 0 }
}

/// Writes a record: header, data, and `len` bytes of payload by `fill`, padded. Returns the bytes
/// taken. `None`: the record does not fit, and the contents of `into` are undefined.
#[inline]
pub(super) fn put_record(
    into: &mut [u8],
    header: &(impl IntoBytes + Immutable),
    data: Option<u64>,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let room = into.len();
    let rest = put_record_before(into, header, data, len, fill)?;
    Some(room - rest.len())
}

/// Writes a record like [`put_record`], and returns the rest of `into`.
#[inline(always)]
pub(super) fn put_record_before<'a>(
    into: &'a mut [u8],
    header: &(impl IntoBytes + Immutable),
    data: Option<u64>,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<&'a mut [u8]> {
    let header = header.as_bytes();
    let len = usize::from(len);
    let rest = put(into, header)?;
    let rest = match data {
        Some(data) => put(rest, &data.to_le_bytes())?,
        None => rest,
    };
    let (padded_payload, rest) = rest.split_at_mut_checked(padded(len))?;
    let (payload, padding) = padded_payload.split_at_mut_checked(len)?;
    if !padding.is_empty() {
        padding.fill(0);
    }
    fill(payload);
    Some(rest)
}

#[inline]
fn put<'a>(into: &'a mut [u8], bytes: &[u8]) -> Option<&'a mut [u8]> {
    let (head, rest) = into.split_at_mut_checked(bytes.len())?;
    head.copy_from_slice(bytes);
    Some(rest)
}
