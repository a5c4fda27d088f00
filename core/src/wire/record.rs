// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: what data packets carry (`docs/PROTOCOL.md` §3.5).
//!
//! A record is a header whose first four bytes are kind, flags and payload length, and the payload,
//! padded with zeros to a multiple of 8 bytes. Small ones share a packet; a segment of a long
//! message is alone in its packet, so that its payload begins at byte 56 and all full segments have
//! one length. Messages and records of other kinds do not share a packet: only messages can be
//! superseded (`docs/PROTOCOL.md` §6.4).

use super::message::{FinRecord, MessageRecord, RtsRecord, SegmentRecord};
use super::remote::{
    AtomicRequestRecord, ErrorRecord, ReadRequestRecord, ResponseRecord, WriteRecord,
};
use crate::stats::DropReason;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Records begin at multiples of this many bytes.
pub const ALIGN: usize = 8;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A whole message.
    Message = 0x10,
    /// A part of a message that does not fit one packet.
    Segment = 0x11,
    /// Announces a message that the receiver is to pull.
    Rts = 0x12,
    /// The receiver has pulled what it wants of a message.
    Fin = 0x13,
    /// Bytes for the receiver's memory.
    Write = 0x20,
    /// Asks for bytes of the receiver's memory, or of a message that it announced.
    ReadRequest = 0x30,
    /// Answers a read request.
    ReadResponse = 0x31,
    /// An atomic operation on the receiver's memory.
    AtomicRequest = 0x40,
    /// What an atomic operation found.
    AtomicResponse = 0x41,
    /// An operation of the receiver was in error.
    Error = 0x50,
}

/// A message has a tag.
pub(super) const TAGGED: u8 = 1 << 0;
/// Eight bytes of remote CQ data follow the header.
pub(super) const HAS_DATA: u8 = 1 << 1;
/// Of a read request: the key is the handle of a message.
pub(super) const PULL: u8 = 1 << 2;
/// Of a write or a read request: the last part of its operation.
pub(super) const LAST: u8 = 1 << 3;
/// Of a write with data: the first 8 bytes of the payload say how much of it came in other parts.
pub(super) const REST: u8 = 1 << 4;
/// Of an atomic request: the former contents are wanted.
pub(super) const FETCH: u8 = 1 << 2;

/// One record of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// See [`RecordKind::Message`].
    Message(MessageRecord<'a>),
    /// See [`RecordKind::Segment`].
    Segment(SegmentRecord<'a>),
    /// See [`RecordKind::Rts`].
    Rts(RtsRecord),
    /// See [`RecordKind::Fin`].
    Fin(FinRecord),
    /// See [`RecordKind::Write`].
    Write(WriteRecord<'a>),
    /// See [`RecordKind::ReadRequest`].
    ReadRequest(ReadRequestRecord),
    /// See [`RecordKind::ReadResponse`] and [`RecordKind::AtomicResponse`].
    Response(ResponseRecord<'a>),
    /// See [`RecordKind::AtomicRequest`].
    AtomicRequest(AtomicRequestRecord<'a>),
    /// See [`RecordKind::Error`].
    Error(ErrorRecord),
}

impl Record<'_> {
    /// Whether it is of a message, which its receiver may discard and see again in a later attempt.
    #[must_use]
    pub const fn is_message(&self) -> bool {
        matches!(self, Self::Message(_) | Self::Segment(_) | Self::Rts(_))
    }
}

/// The records of one packet, in order, and what they ask of their receiver all together.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    /// Whether they are of messages; else none of them is.
    pub messages: bool,
    /// Requests that need a response.
    pub requests: u16,
    /// Writes that bring remote CQ data.
    pub events: u16,
    /// Writes that are the last part of their operation.
    pub endings: u16,
}

impl<'a> Records<'a> {
    /// Walks all records once; iterating over the result cannot fail.
    ///
    /// # Errors
    /// [`DropReason::Malformed`]: a header or payload is cut off, a kind, flag or code is unknown,
    /// padding is not zero, a segment reaches beyond its message or is not alone, messages share
    /// the packet with something else, more writes bring data than may.
    #[inline]
    pub(super) fn check(body: &'a [u8]) -> Result<Self, DropReason> {
        let mut records = Self { rest: body, messages: false, requests: 0, events: 0, endings: 0 };
        let mut rest = body;
        let (mut count, mut messages, mut alone) = (0u16, 0u16, true);
        // bound: every record has at least 16 bytes
        while let Some(kind) = rest.first() {
            count += 1;
            if *kind == RecordKind::Message as u8 {
                // Nearly all are, or writes, and of these nothing else is wanted here.
                let (_, behind) = MessageRecord::split(rest).ok_or(DropReason::Malformed)?;
                messages += 1;
                rest = behind;
                continue;
            }
            if *kind == RecordKind::Write as u8 {
                let (write, behind) = WriteRecord::split(rest).ok_or(DropReason::Malformed)?;
                records.events += u16::from(write.data.is_some());
                records.endings += u16::from(write.last);
                rest = behind;
                continue;
            }
            let (record, behind) = split_record(rest).ok_or(DropReason::Malformed)?;
            match record {
                Record::Rts(_) | Record::Message(_) => messages += 1,
                Record::Segment(_) => {
                    messages += 1;
                    alone &= count == 1 && behind.is_empty();
                }
                Record::ReadRequest(_) => records.requests += 1,
                Record::AtomicRequest(atomic) => records.requests += u16::from(atomic.fetch),
                Record::Write(_) | Record::Response(_) | Record::Fin(_) | Record::Error(_) => {}
            }
            rest = behind;
        }
        records.messages = messages > 0;
        let unmixed = messages == 0 || messages == count;
        let few = usize::from(records.events) <= super::WRITES_WITH_DATA_MAX;
        if alone && unmixed && few { Ok(records) } else { Err(DropReason::Malformed) }
    }
}

impl<'a> Records<'a> {
    /// Takes whole messages off the front, as long as the next record is one and `takes` says yes.
    #[inline(always)]
    pub(crate) fn take_messages(&mut self, mut takes: impl FnMut(&MessageRecord<'a>) -> bool) {
        let mut rest = self.rest;
        // bound: every record has at least 16 bytes
        while rest.first() == Some(&(RecordKind::Message as u8))
            && let Some((message, behind)) = MessageRecord::split_again(rest)
            && takes(&message)
        {
            rest = behind;
        }
        self.rest = rest;
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = split_record(self.rest)?;
        self.rest = rest;
        Some(record)
    }
}

/// The first record of `bytes` and what follows it; `None` if there is none or it is unsound.
fn split_record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    const MESSAGE: u8 = RecordKind::Message as u8;
    const SEGMENT: u8 = RecordKind::Segment as u8;
    const RTS: u8 = RecordKind::Rts as u8;
    const FIN: u8 = RecordKind::Fin as u8;
    const WRITE: u8 = RecordKind::Write as u8;
    const READ_REQUEST: u8 = RecordKind::ReadRequest as u8;
    const READ_RESPONSE: u8 = RecordKind::ReadResponse as u8;
    const ATOMIC_REQUEST: u8 = RecordKind::AtomicRequest as u8;
    const ATOMIC_RESPONSE: u8 = RecordKind::AtomicResponse as u8;
    const ERROR: u8 = RecordKind::Error as u8;
    match *bytes.first()? {
        MESSAGE => MessageRecord::split(bytes).map(|(r, rest)| (Record::Message(r), rest)),
        SEGMENT => SegmentRecord::split(bytes).map(|(r, rest)| (Record::Segment(r), rest)),
        RTS => RtsRecord::split(bytes).map(|(r, rest)| (Record::Rts(r), rest)),
        FIN => FinRecord::split(bytes).map(|(r, rest)| (Record::Fin(r), rest)),
        WRITE => WriteRecord::split(bytes).map(|(r, rest)| (Record::Write(r), rest)),
        READ_REQUEST => {
            ReadRequestRecord::split(bytes).map(|(r, rest)| (Record::ReadRequest(r), rest))
        }
        READ_RESPONSE => {
            ResponseRecord::split_read(bytes).map(|(r, rest)| (Record::Response(r), rest))
        }
        ATOMIC_REQUEST => {
            AtomicRequestRecord::split(bytes).map(|(r, rest)| (Record::AtomicRequest(r), rest))
        }
        ATOMIC_RESPONSE => {
            ResponseRecord::split_atomic(bytes).map(|(r, rest)| (Record::Response(r), rest))
        }
        ERROR => ErrorRecord::split(bytes).map(|(r, rest)| (Record::Error(r), rest)),
        _ => None,
    }
}

/// The beginning of every record's header.
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

    /// Whether no flag but `known` is set.
    pub(super) const fn has_only(&self, known: u8) -> bool {
        self.flags & !known == 0
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The remote CQ data, if there is any, and what follows it.
    #[inline]
    pub(super) fn split_data<'a>(&self, bytes: &'a [u8]) -> Option<(Option<u64>, &'a [u8])> {
        if !self.has(HAS_DATA) {
            return Some((None, bytes));
        }
        let (data, rest) = U64::ref_from_prefix(bytes).ok()?;
        Some((Some(data.get()), rest))
    }

    /// The remote CQ data, if there is any, and the payload behind it; and what follows them.
    #[inline]
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
    // Not `next_multiple_of`, which takes five operations to overflow rightly.
    (len + (ALIGN - 1)) & !(ALIGN - 1)
}

pub(super) const fn data_flag(data: Option<u64>) -> u8 {
    if data.is_some() { HAS_DATA } else { 0 }
}

pub(super) const fn data_len(data: Option<u64>) -> usize {
    if data.is_some() { size_of::<U64>() } else { 0 }
}

/// Writes a record: header, data, and `len` bytes of payload by `fill`, padded. Returns the bytes
/// taken, or `None` (and nothing is of use in `into`) if it does not fit.
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

/// As [`put_record`], but returns what is left of `into`.
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
