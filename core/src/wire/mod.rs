// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire format, version 1 (`docs/PROTOCOL.md` §3): what a packet looks like inside its UDP
//! datagram.
//!
//! Every packet is a 32-byte [`Header`] and, by [`PacketKind`], a body: a handshake, an
//! acknowledgment, or a train of *records*, each of them a small header and payload padded to 8
//! bytes. All numbers are little-endian, all fields naturally aligned.
//!
//! In: bytes of any kind. Out: typed references, or a [`DropReason`]. [`Packet::parse`] checks
//! everything that can be checked without knowing the peer, once; what it returns needs no further
//! length check. Writing goes the other way through the same structures. Called by `engine` only.
//! Bounds: one pass over the packet for its checksum, one for its records.

mod body;
mod header;
mod message;
mod record;
mod remote;

pub(crate) use body::sacked;
pub use body::{Ack, Handshake, ResetBody, SACK_WORDS_MAX};
pub use header::{Flags, Header, PacketKind, Pressure};
pub(crate) use message::put_message_before;
pub use message::{
    Envelope, FIN_LEN, FinRecord, MessageRecord, RtsRecord, SegmentRecord, message_len, put_fin,
    put_message, put_rts, put_segment, rts_len, segment_overhead,
};
pub use record::{ALIGN, Record, RecordKind, Records, padded};
pub use remote::{
    AtomicRequestRecord, BEFORE_LEN, ERROR_LEN, ErrorCode, ErrorRecord, READ_REQUEST_LEN,
    ReadRequestRecord, ResponseRecord, WriteRecord, atomic_request_len, atomic_response_len,
    operand_len, put_atomic_request, put_atomic_response, put_error, put_read_request,
    put_read_response, put_write, read_response_len, write_len,
};

use crate::stats::DropReason;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The version that this crate speaks, as it stands in the upper half of byte 0.
pub const VERSION: u8 = 1;
/// Bytes of the header that every packet begins with.
pub const HEADER_LEN: usize = size_of::<Header>();
/// Bytes at the end of a packet that are left free for an authentication tag (`docs/PROTOCOL.md`
/// §10).
pub const TAG_RESERVE: usize = 8;
/// The smallest packet buffer that an engine works with: any handshake, and a segment of 64 bytes.
pub const PACKET_LEN_MIN: usize = 256;
/// The longest message, write or read: 2^63 − 1 bytes, so that no sum of an offset and a length
/// wraps.
pub const MESSAGE_LEN_MAX: u64 = i64::MAX as u64;
/// The most bytes that one atomic operation changes: what a response context holds.
pub const ATOMIC_LEN_MAX: usize = 512;
/// The most writes with remote CQ data in one packet: so many completions a receiver must have room
/// for at once.
pub const WRITES_WITH_DATA_MAX: usize = 8;
/// The most bytes that one read request asks for.
pub const READ_LEN_MAX: u32 = 4 << 20;
/// The most bytes of a message that one request pulls: small enough that many senders share a
/// receiver's link fairly.
pub const PULL_LEN_MAX: u32 = 64 << 10;
/// How far a message may be ahead of the oldest one that its receiver has not accepted: half the
/// range of the 16 bits in which the header reports it.
pub const MESSAGES_AHEAD_MAX: u32 = 1 << 15;
/// Payload of a full segment is a multiple of this: whole cache lines.
pub const SEGMENT_QUANTUM: usize = 64;

/// The largest payload of a full segment where there are `room` bytes for it.
#[must_use]
pub const fn full_segment(room: usize) -> usize {
    room - room % SEGMENT_QUANTUM
}

/// Continues a CRC-32C over some bytes from its value for those before them
/// (`crc32c::crc32c_append`'s form).
pub type Checksum = fn(u32, &[u8]) -> u32;

/// A packet whose structure is sound.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The common header.
    pub header: &'a Header,
    /// What follows it.
    pub body: Body<'a>,
}

/// What a packet carries, by its kind.
#[derive(Debug)]
pub enum Body<'a> {
    /// [`PacketKind::Hello`], [`PacketKind::HelloAck`] or [`PacketKind::Retry`].
    Handshake(&'a Handshake),
    /// [`PacketKind::Ack`].
    Ack(&'a Ack, heapless::Vec<u64, SACK_WORDS_MAX>),
    /// [`PacketKind::Data`]: records, whose structure was checked to the last.
    Data(Records<'a>),
    /// [`PacketKind::Reset`].
    Reset(&'a ResetBody),
    /// [`PacketKind::Ping`]: the header says it all.
    Ping,
    /// [`PacketKind::Close`]: likewise.
    Close,
}

impl<'a> Packet<'a> {
    /// Checks version, kind, lengths, checksum and the structure of every record.
    ///
    /// # Errors
    /// The first [`DropReason`] that applies.
    #[inline]
    pub fn parse(bytes: &'a [u8], checksum: Checksum) -> Result<Self, DropReason> {
        let (header, body) = Header::ref_from_prefix(bytes).map_err(|_| DropReason::Truncated)?;
        if header.version() != VERSION {
            return Err(DropReason::Version);
        }
        if header.authentication() != 0 {
            return Err(DropReason::Authentication);
        }
        let kind = header.kind().ok_or(DropReason::Kind)?;
        if !header.is_sound(bytes, checksum) {
            return Err(DropReason::Checksum);
        }
        let body = match kind {
            PacketKind::Hello | PacketKind::HelloAck | PacketKind::Retry => {
                Body::Handshake(exact(body)?)
            }
            PacketKind::Ack => Ack::parse(body)?,
            PacketKind::Data => Body::Data(Records::check(body)?),
            PacketKind::Reset => Body::Reset(exact(body)?),
            PacketKind::Ping if body.is_empty() => Body::Ping,
            PacketKind::Close if body.is_empty() => Body::Close,
            PacketKind::Ping | PacketKind::Close => return Err(DropReason::Malformed),
        };
        Ok(Self { header, body })
    }
}

/// Header and message of a packet that carries one whole message and says nothing out of the
/// ordinary; `None` for every other, which [`Packet::parse`] is for. The checksum is not looked at.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> Option<(&Header, MessageRecord<'_>)> {
    let (header, body) = Header::ref_from_prefix(bytes).ok()?;
    if !header.is_plain(PacketKind::Data) || *body.first()? != RecordKind::Message as u8 {
        return None;
    }
    let (message, rest) = MessageRecord::split(body)?;
    rest.is_empty().then_some((header, message))
}

/// Header and body of an acknowledgment that says nothing out of the ordinary: everything has
/// arrived in order. `None` for every other. The checksum is not looked at.
#[inline]
pub(crate) fn plain_ack(bytes: &[u8]) -> Option<(&Header, &Ack)> {
    let (header, body) = Header::ref_from_prefix(bytes).ok()?;
    let ack = Ack::ref_from_bytes(body).ok()?;
    (header.is_plain(PacketKind::Ack) && ack.sack_words == 0).then_some((header, ack))
}

/// A body that has exactly the length of `T`.
fn exact<T>(bytes: &[u8]) -> Result<&T, DropReason>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_bytes(bytes).map_err(|_| DropReason::Malformed)
}

/// Where the checksum stands in the header: its last four bytes.
const CHECKSUM_AT: usize = HEADER_LEN - 4;

/// CRC-32C of a packet with its checksum field taken as zero (`docs/PROTOCOL.md` §3.3). Zero itself
/// is sent as all ones: zero on the wire says that there is none, which version 1 does not accept.
#[inline]
fn compute_checksum(packet: &[u8], checksum: Checksum) -> u32 {
    let Some((header, rest)) = packet.split_first_chunk::<HEADER_LEN>() else { return 0 };
    let mut header = *header;
    if let Some(field) = header.last_chunk_mut::<4>() {
        *field = [0; 4];
    }
    nonzero(checksum(checksum(0, &header), rest))
}

const fn nonzero(crc: u32) -> u32 {
    if crc == 0 { u32::MAX } else { crc }
}

/// Writes the checksum of the finished `packet` into its header.
#[inline]
pub fn seal(packet: &mut [u8], checksum: Checksum) {
    let Some(field) = packet.get_mut(CHECKSUM_AT..HEADER_LEN) else { return };
    field.fill(0);
    let crc = nonzero(checksum(0, packet));
    if let Some(field) = packet.get_mut(CHECKSUM_AT..HEADER_LEN) {
        field.copy_from_slice(&crc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
