// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet: header and body, both checked.

use super::body::{Ack, Handshake, PieceBody, PortRequestBody, ProbeBody, SACK_WORDS_MAX};
use super::header::{Header, PacketKind, VERSION};
use super::integrity::verify;
use super::layout::RecordKind;
use super::message::{MessageRecord, SegmentRecord};
use super::record::Records;
use super::remote::{ResponseRecord, WriteRecord};
use crate::api::config::ChecksumFn;
use crate::api::port::ChecksumCoverage;
use crate::api::stats::DropReason;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// A packet with a sound structure.
#[derive(Debug)]
pub struct Packet<'a> {
    /// The common header.
    pub header: &'a Header,
    /// The body.
    pub body: Body<'a>,
}

/// The body of a packet, by its kind.
#[derive(Debug)]
pub enum Body<'a> {
    /// [`PacketKind::Hello`], [`PacketKind::HelloAck`] or [`PacketKind::Retry`].
    Handshake(&'a Handshake),
    /// [`PacketKind::Ack`].
    Ack(&'a Ack, heapless::Vec<u64, SACK_WORDS_MAX>),
    /// [`PacketKind::Data`]: records, each with a sound structure.
    Data(Records<'a>),
    /// [`PacketKind::Reset`]: no body.
    Reset,
    /// [`PacketKind::Ping`]: no body.
    Ping,
    /// [`PacketKind::Close`]: no body.
    Close,
    /// [`PacketKind::Probe`].
    Probe(&'a ProbeBody),
    /// [`PacketKind::ProbeAck`].
    ProbeAck(&'a ProbeBody),
    /// [`PacketKind::Piece`]: a part of the body of a data packet.
    Piece(&'a PieceBody, &'a [u8]),
    /// [`PacketKind::PortRequest`].
    PortRequest(&'a PortRequestBody),
}

impl<'a> Packet<'a> {
    /// Checks version, kind, lengths, checksum and the structure of every record of a packet that
    /// came by a path with this coverage.
    ///
    /// # Errors
    /// The first [`DropReason`] that applies.
    #[inline]
    pub fn parse(
        bytes: &'a [u8],
        coverage: ChecksumCoverage,
        checksum: ChecksumFn,
    ) -> Result<Self, DropReason> {
        let (header, body) = Header::ref_from_prefix(bytes).map_err(|_| DropReason::Truncated)?;
        if header.version() != VERSION {
            return Err(DropReason::Version);
        }
        if header.authentication() != 0 {
            return Err(DropReason::Authentication);
        }
        let kind = header.kind().ok_or(DropReason::Kind)?;
        verify(header, bytes, coverage, checksum)?;
        let body = match kind {
            PacketKind::Hello | PacketKind::HelloAck | PacketKind::Retry => {
                Body::Handshake(exact(body)?)
            }
            PacketKind::Ack => {
                let (ack, words) = Ack::parse(body)?;
                Body::Ack(ack, words)
            }
            PacketKind::Data => Body::Data(Records::check(body)?),
            PacketKind::Reset if body.is_empty() => Body::Reset,
            PacketKind::Probe => Body::Probe(ProbeBody::of_probe(body)?),
            PacketKind::ProbeAck => Body::ProbeAck(exact(body)?),
            PacketKind::PortRequest => Body::PortRequest(exact(body)?),
            PacketKind::Piece => {
                let (piece, bytes) = PieceBody::parse(body)?;
                Body::Piece(piece, bytes)
            }
            PacketKind::Ping if body.is_empty() => Body::Ping,
            PacketKind::Close if body.is_empty() => Body::Close,
            PacketKind::Reset | PacketKind::Ping | PacketKind::Close => {
                return Err(DropReason::Malformed);
            }
        };
        Ok(Self { header, body })
    }
}

/// Header and message of a packet with one whole message and without any special condition. `None`
/// for all other packets, which need [`Packet::parse`]. The checksum is not verified.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> Option<(&Header, MessageRecord<'_>)> {
    let (header, body) = Header::ref_from_prefix(bytes).ok()?;
    if !header.is_plain(PacketKind::Data) || *body.first()? != RecordKind::Message as u8 {
        return None;
    }
    let (message, rest) = MessageRecord::split(body)?;
    rest.is_empty().then_some((header, message))
}

/// A record of an operation that takes many packets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    /// See [`RecordKind::Segment`].
    Segment(SegmentRecord<'a>),
    /// See [`RecordKind::Write`].
    Write(WriteRecord<'a>),
    /// See [`RecordKind::ReadResponse`].
    Response(ResponseRecord<'a>),
}

impl<'a> Part<'a> {
    /// The bytes.
    #[inline(always)]
    pub(crate) const fn payload(&self) -> &'a [u8] {
        match self {
            Self::Segment(segment) => segment.payload,
            Self::Write(write) => write.payload,
            Self::Response(response) => response.payload,
        }
    }
}

/// Header and record of a packet with one [`Part`] and without any special condition. `None` for
/// all other packets. The checksum is not verified.
#[inline]
pub(crate) fn plain_part(bytes: &[u8]) -> Option<(&Header, Part<'_>)> {
    const SEGMENT: u8 = RecordKind::Segment as u8;
    const WRITE: u8 = RecordKind::Write as u8;
    const RESPONSE: u8 = RecordKind::ReadResponse as u8;
    let (header, body) = Header::ref_from_prefix(bytes).ok()?;
    if !header.is_plain(PacketKind::Data) {
        return None;
    }
    let (part, rest) = match *body.first()? {
        SEGMENT => SegmentRecord::split(body).map(|(r, rest)| (Part::Segment(r), rest))?,
        WRITE => WriteRecord::split(body).map(|(r, rest)| (Part::Write(r), rest))?,
        RESPONSE => ResponseRecord::split_read(body).map(|(r, rest)| (Part::Response(r), rest))?,
        _ => return None,
    };
    rest.is_empty().then_some((header, part))
}

/// Header and body of an acknowledgment without any special condition: all packets have arrived in
/// order. `None` for all others. The checksum is not verified.
#[inline]
pub(crate) fn plain_ack(bytes: &[u8]) -> Option<(&Header, &Ack)> {
    let (header, body) = Header::ref_from_prefix(bytes).ok()?;
    let ack = Ack::ref_from_bytes(body).ok()?;
    (header.is_plain(PacketKind::Ack) && ack.sack_words == 0).then_some((header, ack))
}

/// A body of exactly the length of `T`.
fn exact<T>(bytes: &[u8]) -> Result<&T, DropReason>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_bytes(bytes).map_err(|_| DropReason::Malformed)
}
