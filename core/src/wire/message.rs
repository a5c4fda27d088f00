// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of messages: whole, in segments, or announced (`docs/PROTOCOL.md` §6.2, §6.5).

use super::layout::{
    HAS_DATA, RecordKind, RecordStart, TAGGED, data_flag, data_len, padded, put_record,
    put_record_before,
};
use crate::api::matching::Envelope;
use crate::collections::serial::Msn;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

impl Envelope {
    const fn flags(&self) -> u8 {
        (if self.tag.is_some() { TAGGED } else { 0 }) | data_flag(self.data)
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct MessageHeader {
    start: RecordStart,
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

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RtsHeader {
    message: MessageHeader,
    handle: U64,
    total: U64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FinHeader {
    start: RecordStart,
    status: U32,
    handle: U64,
    bytes: U64,
}

static_assertions::const_assert_eq!(size_of::<MessageHeader>(), 16);
static_assertions::const_assert_eq!(size_of::<SegmentHeader>(), 24);
static_assertions::const_assert_eq!(size_of::<RtsHeader>(), 32);
static_assertions::const_assert_eq!(size_of::<FinHeader>(), 24);

impl MessageHeader {
    fn new(kind: RecordKind, envelope: &Envelope, len: u16) -> Self {
        Self {
            start: RecordStart::new(kind, envelope.flags(), len),
            msn: U32::new(envelope.msn.0),
            tag: U64::new(envelope.tag.unwrap_or(0)),
        }
    }

    #[inline]
    fn envelope(&self, data: Option<u64>, total: u64) -> Option<Envelope> {
        let tagged = self.start.has(TAGGED);
        // One encoding for one meaning: an untagged message has tag 0.
        if !self.start.has_only(TAGGED | HAS_DATA) || (!tagged && self.tag.get() != 0) {
            return None;
        }
        let tag = tagged.then(|| self.tag.get());
        Some(Envelope { msn: Msn(self.msn.get()), tag, data, total })
    }
}

/// A whole message.
#[derive(Clone, Copy, Debug)]
pub struct MessageRecord<'a> {
    /// The envelope, for matching.
    pub envelope: Envelope,
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> MessageRecord<'a> {
    #[inline(always)]
    pub(super) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = MessageHeader::ref_from_prefix(bytes).ok()?;
        let (data, payload, rest) = header.start.split_rest(rest)?;
        let envelope = header.envelope(data, payload.len() as u64)?;
        Some((Self { envelope, payload }, rest))
    }

    /// Splits a record that [`Self::split`] has accepted before: flags and padding are not checked.
    #[inline(always)]
    pub(super) fn split_again(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = MessageHeader::ref_from_prefix(bytes).ok()?;
        let (data, rest) = header.start.split_data(rest)?;
        let len = usize::from(header.start.len.get());
        let (padded_payload, rest) = rest.split_at_checked(padded(len))?;
        let payload = padded_payload.get(..len)?;
        let tag = header.start.has(TAGGED).then(|| header.tag.get());
        let envelope = Envelope { msn: Msn(header.msn.get()), tag, data, total: len as u64 };
        Some((Self { envelope, payload }, rest))
    }
}

/// A segment of a message.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRecord<'a> {
    /// The envelope, for matching.
    pub envelope: Envelope,
    /// Offset of the payload in the message.
    pub offset: u64,
    /// The payload; `offset + payload.len()` does not exceed the envelope's total.
    pub payload: &'a [u8],
}

impl<'a> SegmentRecord<'a> {
    pub(super) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (header, rest) = SegmentHeader::ref_from_prefix(bytes).ok()?;
        let (data, payload, rest) = header.message.start.split_rest(rest)?;
        let (offset, total) = (u64::from(header.offset.get()), u64::from(header.total.get()));
        if payload.is_empty() || offset + payload.len() as u64 > total {
            return None;
        }
        let envelope = header.message.envelope(data, total)?;
        Some((Self { envelope, offset, payload }, rest))
    }
}

/// The announcement of a message.
#[derive(Clone, Copy, Debug)]
pub struct RtsRecord {
    /// The envelope, for matching.
    pub envelope: Envelope,
    /// The sender's handle of the message, for the rendezvous.
    pub handle: u64,
}

impl RtsRecord {
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = RtsHeader::ref_from_prefix(bytes).ok()?;
        let (data, payload, rest) = header.message.start.split_rest(rest)?;
        let envelope = header.message.envelope(data, header.total.get())?;
        let sound = payload.is_empty();
        sound.then_some((Self { envelope, handle: header.handle.get() }, rest))
    }
}

/// The end of a rendezvous.
#[derive(Clone, Copy, Debug)]
pub struct FinRecord {
    /// The handle of the message, from its announcement.
    pub handle: u64,
}

impl FinRecord {
    pub(super) fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = FinHeader::ref_from_prefix(bytes).ok()?;
        let (_, payload, rest) = header.start.split_rest(rest)?;
        let sound = payload.is_empty() && header.start.has_only(0) && header.status.get() == 0;
        sound.then_some((Self { handle: header.handle.get() }, rest))
    }
}

/// Bytes of a whole message in a packet.
#[must_use]
pub const fn message_len(payload: usize, has_data: bool) -> usize {
    size_of::<MessageHeader>() + if has_data { size_of::<U64>() } else { 0 } + padded(payload)
}

/// Bytes of a segment in a packet, without its payload.
#[must_use]
pub const fn segment_overhead(has_data: bool) -> usize {
    size_of::<SegmentHeader>() + if has_data { size_of::<U64>() } else { 0 }
}

/// Bytes of an announcement in a packet.
#[must_use]
pub const fn rts_len(data: Option<u64>) -> usize {
    size_of::<RtsHeader>() + data_len(data)
}

/// Bytes of the end of a rendezvous in a packet.
pub const FIN_LEN: usize = size_of::<FinHeader>();

/// Writes a whole message at the beginning of `into`, its payload by `fill`. Returns the bytes
/// taken. `None`: the message does not fit, and the contents of `into` are undefined.
#[inline]
pub fn put_message(
    into: &mut [u8],
    envelope: &Envelope,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let room = into.len();
    let rest = put_message_before(into, envelope, fill)?;
    Some(room - rest.len())
}

/// Writes a message like [`put_message`], and returns the rest of `into`.
#[inline(always)]
pub(crate) fn put_message_before<'a>(
    into: &'a mut [u8],
    envelope: &Envelope,
    fill: impl FnOnce(&mut [u8]),
) -> Option<&'a mut [u8]> {
    let len = u16::try_from(envelope.total).ok()?;
    let header = MessageHeader::new(RecordKind::Message, envelope, len);
    put_record_before(into, &header, envelope.data, len, fill)
}

/// Writes a segment of `len` bytes at `offset` of its message, like [`put_message`].
pub fn put_segment(
    into: &mut [u8],
    envelope: &Envelope,
    offset: u64,
    len: u16,
    fill: impl FnOnce(&mut [u8]),
) -> Option<usize> {
    let header = SegmentHeader {
        message: MessageHeader::new(RecordKind::Segment, envelope, len),
        offset: U32::new(u32::try_from(offset).ok()?),
        total: U32::new(u32::try_from(envelope.total).ok()?),
    };
    put_record(into, &header, envelope.data, len, fill)
}

/// Writes the announcement of a message under `handle`, like [`put_message`].
pub fn put_rts(into: &mut [u8], envelope: &Envelope, handle: u64) -> Option<usize> {
    let header = RtsHeader {
        message: MessageHeader::new(RecordKind::Rts, envelope, 0),
        handle: U64::new(handle),
        total: U64::new(envelope.total),
    };
    put_record(into, &header, envelope.data, 0, |_| ())
}

/// Writes the end of a rendezvous: `bytes` bytes of the message `handle` were read, and no more are
/// wanted.
pub fn put_fin(into: &mut [u8], handle: u64, bytes: u64) -> Option<usize> {
    let header = FinHeader {
        start: RecordStart::new(RecordKind::Fin, 0, 0),
        status: U32::new(0),
        handle: U64::new(handle),
        bytes: U64::new(bytes),
    };
    put_record(into, &header, None, 0, |_| ())
}
