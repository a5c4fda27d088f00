// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records: what data packets carry (`docs/PROTOCOL.md` §3.5, §6.2).
//!
//! A record is a header whose first four bytes are kind, flags and payload length, and the payload,
//! padded with zeros to a multiple of 8 bytes. Whole messages share a packet; a segment of a longer
//! message is alone in its packet, so that its payload begins at byte 56 and all full segments have
//! one length.

use crate::serial::Msn;
use crate::stats::DropReason;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Records begin at multiples of this many bytes.
pub const ALIGN: usize = 8;

/// What a record is. Numbers not listed here are reserved in `docs/PROTOCOL.md` §3.5.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum RecordKind {
    /// A whole message.
    Message = 0x10,
    /// A part of a message that does not fit one packet.
    Segment = 0x11,
}

const TAGGED: u8 = 1 << 0;
const HAS_DATA: u8 = 1 << 1;
const FLAGS_KNOWN: u8 = TAGGED | HAS_DATA;

/// What every record of a message says of it; enough to match it with a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Envelope {
    /// The message's place in the order of messages.
    pub msn: Msn,
    /// The tag, if it is a tagged message.
    pub tag: Option<u64>,
    /// Remote CQ data.
    pub data: Option<u64>,
    /// Length of the whole message in bytes.
    pub total: u32,
}

impl Envelope {
    const fn flags(&self) -> u8 {
        (if self.tag.is_some() { TAGGED } else { 0 })
            | (if self.data.is_some() { HAS_DATA } else { 0 })
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MessageHeader {
    kind: u8,
    flags: u8,
    len: U16,
    msn: U32,
    tag: U64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct SegmentHeader {
    message: MessageHeader,
    offset: U32,
    total: U32,
}

static_assertions::const_assert_eq!(size_of::<MessageHeader>(), 16);
static_assertions::const_assert_eq!(size_of::<SegmentHeader>(), 24);

/// A whole message.
#[derive(Clone, Copy, Debug)]
pub struct MessageRecord<'a> {
    /// What to match it by.
    pub envelope: Envelope,
    /// All of its bytes.
    pub payload: &'a [u8],
}

/// A part of a message.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRecord<'a> {
    /// What to match the message by.
    pub envelope: Envelope,
    /// Where in the message the payload begins.
    pub offset: u32,
    /// The bytes; `offset + payload.len()` does not exceed the envelope's total.
    pub payload: &'a [u8],
}

/// One record of a packet.
#[derive(Clone, Copy, Debug)]
pub enum Record<'a> {
    /// See [`RecordKind::Message`].
    Message(MessageRecord<'a>),
    /// See [`RecordKind::Segment`].
    Segment(SegmentRecord<'a>),
}

/// The records of one packet, in order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Walks all records once; iterating over the result cannot fail.
    ///
    /// # Errors
    /// [`DropReason::Malformed`]: a header or payload is cut off, a kind or flag is unknown,
    /// padding is not zero, a segment reaches beyond its message, or is not alone.
    pub(super) fn check(body: &'a [u8]) -> Result<Self, DropReason> {
        let records = Self { rest: body };
        let mut rest = body;
        let (mut count, mut segments) = (0usize, 0usize);
        // bound: every record has at least 8 bytes
        while !rest.is_empty() {
            let (record, behind) = split_record(rest).ok_or(DropReason::Malformed)?;
            count = count.saturating_add(1);
            segments = segments.saturating_add(usize::from(matches!(record, Record::Segment(_))));
            rest = behind;
        }
        if segments > 0 && count > 1 { Err(DropReason::Malformed) } else { Ok(records) }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = split_record(self.rest)?;
        self.rest = rest;
        Some(record)
    }
}

/// The first record of `bytes` and what follows it; `None` if there is none or it is unsound.
fn split_record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    match *bytes.first()? {
        kind if kind == RecordKind::Message as u8 => {
            let (header, rest) = MessageHeader::ref_from_prefix(bytes).ok()?;
            let (data, rest) = split_data(header.flags, rest)?;
            let (payload, rest) = split_payload(header.len.get(), rest)?;
            let envelope = header.envelope(data, u32::from(header.len.get()))?;
            Some((Record::Message(MessageRecord { envelope, payload }), rest))
        }
        kind if kind == RecordKind::Segment as u8 => {
            let (header, rest) = SegmentHeader::ref_from_prefix(bytes).ok()?;
            let (data, rest) = split_data(header.message.flags, rest)?;
            let len = header.message.len.get();
            let (payload, rest) = split_payload(len, rest)?;
            let (offset, total) = (header.offset.get(), header.total.get());
            if len == 0 || offset.checked_add(u32::from(len))? > total {
                return None;
            }
            let envelope = header.message.envelope(data, total)?;
            Some((Record::Segment(SegmentRecord { envelope, offset, payload }), rest))
        }
        _ => None,
    }
}

impl MessageHeader {
    fn new(kind: RecordKind, envelope: &Envelope, len: u16) -> Self {
        Self {
            kind: kind as u8,
            flags: envelope.flags(),
            len: U16::new(len),
            msn: U32::new(envelope.msn.0),
            tag: U64::new(envelope.tag.unwrap_or(0)),
        }
    }

    fn envelope(&self, data: Option<u64>, total: u32) -> Option<Envelope> {
        let tagged = self.flags & TAGGED != 0;
        // One encoding for one meaning: an untagged message has tag 0.
        if self.flags & !FLAGS_KNOWN != 0 || (!tagged && self.tag.get() != 0) {
            return None;
        }
        let tag = tagged.then(|| self.tag.get());
        Some(Envelope { msn: Msn(self.msn.get()), tag, data, total })
    }
}

fn split_data(flags: u8, bytes: &[u8]) -> Option<(Option<u64>, &[u8])> {
    if flags & HAS_DATA == 0 {
        return Some((None, bytes));
    }
    let (data, rest) = U64::ref_from_prefix(bytes).ok()?;
    Some((Some(data.get()), rest))
}

fn split_payload(len: u16, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(len);
    let (padded_payload, rest) = bytes.split_at_checked(padded(len))?;
    let (payload, padding) = padded_payload.split_at_checked(len)?;
    padding.iter().all(|&byte| byte == 0).then_some((payload, rest))
}

/// `len` rounded up to whole [`ALIGN`] units.
#[must_use]
pub const fn padded(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// Bytes that a whole message takes up in a packet.
#[must_use]
pub const fn message_len(payload: usize, has_data: bool) -> usize {
    size_of::<MessageHeader>() + if has_data { size_of::<U64>() } else { 0 } + padded(payload)
}

/// Bytes that a segment takes up besides its payload.
#[must_use]
pub const fn segment_overhead(has_data: bool) -> usize {
    size_of::<SegmentHeader>() + if has_data { size_of::<U64>() } else { 0 }
}

/// Writes a whole message at the beginning of `into`, its payload by `fill`. Returns the bytes
/// taken, or `None` (and nothing is of use in `into`) if it does not fit.
pub fn put_message(
    into: &mut [u8],
    envelope: &Envelope,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let len = u16::try_from(envelope.total).ok()?;
    let header = MessageHeader::new(RecordKind::Message, envelope, len);
    let rest = put(into, header.as_bytes())?;
    put_payload(rest, envelope.data, len, fill)?;
    Some(message_len(usize::from(len), envelope.data.is_some()))
}

/// Writes a segment of `len` bytes at `offset` of its message, as [`put_message`] does a message.
pub fn put_segment(
    into: &mut [u8],
    envelope: &Envelope,
    offset: u32,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let header = SegmentHeader {
        message: MessageHeader::new(RecordKind::Segment, envelope, len),
        offset: U32::new(offset),
        total: U32::new(envelope.total),
    };
    let rest = put(into, header.as_bytes())?;
    put_payload(rest, envelope.data, len, fill)?;
    segment_overhead(envelope.data.is_some()).checked_add(padded(usize::from(len)))
}

fn put<'a>(into: &'a mut [u8], bytes: &[u8]) -> Option<&'a mut [u8]> {
    let (head, rest) = into.split_at_mut_checked(bytes.len())?;
    head.copy_from_slice(bytes);
    Some(rest)
}

fn put_payload(
    into: &mut [u8],
    data: Option<u64>,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<()> {
    let rest = match data {
        Some(data) => put(into, &data.to_le_bytes())?,
        None => into,
    };
    let len = usize::from(len);
    let (payload, padding) = rest.get_mut(..padded(len))?.split_at_mut_checked(len)?;
    padding.fill(0);
    fill(payload);
    Some(())
}
