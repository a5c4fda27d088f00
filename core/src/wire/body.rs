// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bodies of packets without records: handshake, acknowledgment, probe, piece.

use super::header::HEADER_LEN;
use super::layout::SEGMENT_QUANTUM;
use crate::api::limits::PIECED_LEN_MAX;
use crate::api::source_port::WantedPort;
use crate::api::stats::DropReason;
use crate::collections::serial::Psn;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Body of `Hello`, `HelloAck` and `Retry` (`docs/PROTOCOL.md` §5.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Handshake {
    /// The sender's incarnation as the receiver sees it: random, never 0, new for each endpoint
    /// that is opened, and another one for each receiver.
    pub src_incarnation: U64,
    /// In `Retry`: the incarnation in the `Hello` that it answers; else 0.
    pub dst_incarnation: U64,
    /// The sender's identifier of this connection, for the receiver to put into `dst_cid`.
    pub src_cid: U32,
    /// The number of the sender's first data packet.
    pub psn_base: U32,
    /// Largest packet that the sender can receive, in bytes.
    pub receive_max: U16,
    /// Packets that the port of the sender holds between two of its polls.
    pub port_packets: U16,
    /// The port of the address that the sender is known by, if the handshake comes from another
    /// one; else 0. All contexts of a scalable endpoint are known by one address.
    pub name_port: U16,
    /// The epoch: the number of this connection between these two incarnations.
    pub epoch: U16,
    /// In `Retry`: the cookie that the next `Hello` must repeat. In `Hello`: the repeated cookie,
    /// or 0. In `HelloAck`: the number of the peer's first data packet, as the sender understands
    /// it.
    pub cookie: U64,
}

static_assertions::const_assert_eq!(size_of::<Handshake>(), 40);

/// Body of `ProbeAck`, and the beginning of that of `Probe`, which zeros follow
/// (`docs/PROTOCOL.md` §11.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ProbeBody {
    /// The number of the round that the probe belongs to.
    pub round: U16,
    /// The length of the probe, its header included, in bytes.
    pub size: U16,
    /// 0.
    pub reserved: U32,
}

static_assertions::const_assert_eq!(size_of::<ProbeBody>(), 8);

impl ProbeBody {
    /// The beginning of a probe's body, if the probe has the length that it states.
    pub(super) fn of_probe(body: &[u8]) -> Result<&Self, DropReason> {
        let (probe, _) = Self::ref_from_prefix(body).map_err(|_| DropReason::Malformed)?;
        let len = HEADER_LEN + body.len();
        if usize::from(probe.size.get()) == len { Ok(probe) } else { Err(DropReason::Malformed) }
    }
}

/// The beginning of a piece's body; the bytes follow (`docs/PROTOCOL.md` §11.3).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct PieceBody {
    /// Where the bytes begin in the body of the whole packet.
    pub offset: U16,
    /// The length of that body.
    pub total: U16,
    /// 0.
    pub reserved: U32,
}

static_assertions::const_assert_eq!(size_of::<PieceBody>(), 8);

impl PieceBody {
    /// Splits a body, and checks that the bytes are a part of the whole, in whole units.
    pub(super) fn parse(body: &[u8]) -> Result<(&Self, &[u8]), DropReason> {
        let (piece, bytes) = Self::ref_from_prefix(body).map_err(|_| DropReason::Malformed)?;
        let (offset, total) = (usize::from(piece.offset.get()), usize::from(piece.total.get()));
        let end = offset + bytes.len();
        let in_units =
            offset % SEGMENT_QUANTUM == 0 && (bytes.len() % SEGMENT_QUANTUM == 0 || end == total);
        let is_part = !bytes.is_empty() && bytes.len() < total && end <= total;
        let fits = HEADER_LEN + total <= PIECED_LEN_MAX;
        if in_units && is_part && fits { Ok((piece, bytes)) } else { Err(DropReason::Malformed) }
    }
}

/// Body of `PortRequest` (`docs/PROTOCOL.md` §13.1).
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct PortRequestBody {
    /// The source port of the packet that caused the request.
    pub source: U16,
    wanted: U16,
    /// 0.
    pub reserved: U32,
}

static_assertions::const_assert_eq!(size_of::<PortRequestBody>(), 8);

impl PortRequestBody {
    /// A request about packets from port `source`.
    #[must_use]
    pub fn new(source: u16, wanted: WantedPort) -> Self {
        Self { source: source.into(), wanted: wanted.bits().into(), reserved: 0.into() }
    }

    /// The source port that is wanted.
    #[must_use]
    pub fn wanted(&self) -> WantedPort {
        WantedPort::from_bits(self.wanted.get())
    }
}

/// The most words of selective acknowledgment in a packet.
pub const SACK_WORDS_MAX: usize = 16;

/// Fixed part of an acknowledgment's body (`docs/PROTOCOL.md` §4.3); `sack_words` words follow.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ack {
    /// The `sent_at` of the newest packet received.
    pub echo: U32,
    /// The time since that packet was processed, in units of 64 ns.
    pub hold: U32,
    /// How long that packet may have waited before it was processed, in units of 64 ns: the time
    /// since the receiver had last polled for packets.
    pub wait: U32,
    /// Packets received with a congestion mark, modulo 2^16.
    pub congestion_marks: U16,
    /// The number of the first word that follows, in the whole bitmap.
    pub sack_offset: U16,
    /// Words of bitmap that follow.
    pub sack_words: u8,
    /// Responder credit: the requests (reads, fetching atomics, rendezvous reads) that the peer may
    /// have outstanding; at least 1.
    pub responder_credit: u8,
    /// 0.
    pub reserved: U16,
    /// Packets received from the peer, modulo 2^32.
    pub received: U32,
}

static_assertions::const_assert_eq!(size_of::<Ack>(), 24);

impl Ack {
    /// Splits a body, and checks that exactly the announced words follow.
    pub(super) fn parse(
        body: &[u8],
    ) -> Result<(&Self, heapless::Vec<u64, SACK_WORDS_MAX>), DropReason> {
        let (ack, words) = Self::ref_from_prefix(body).map_err(|_| DropReason::Malformed)?;
        let words = <[U64]>::ref_from_bytes(words).map_err(|_| DropReason::Malformed)?;
        if words.len() != usize::from(ack.sack_words) || words.len() > SACK_WORDS_MAX {
            return Err(DropReason::Malformed);
        }
        let words = words.iter().map(|word| word.get()).collect();
        Ok((ack, words))
    }
}

/// The bitmap of a selective acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sack<'a> {
    /// The packet of the first bit.
    first: Psn,
    words: &'a [u64],
}

impl<'a> Sack<'a> {
    /// No packet.
    pub(crate) const NONE: Sack<'static> = Sack { first: Psn(0), words: &[] };

    /// The bitmap in `ack`, which acknowledges everything before `ack_psn`. Bit `i` of word `w`
    /// stands for `ack_psn + 1 + 64 · (sack_offset + w) + i`.
    pub(crate) fn new(ack_psn: Psn, ack: &Ack, words: &'a [u64]) -> Self {
        Self { first: ack_psn.plus(1 + 64 * u32::from(ack.sack_offset.get())), words }
    }

    /// Whether it has no word.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The highest packet that it names.
    pub(crate) fn highest(&self) -> Option<Psn> {
        let at = self.words.iter().rposition(|&word| word != 0)?;
        let bits = self.words.get(at)?.ilog2();
        Some(self.first.plus(64 * at as u32 + bits))
    }

    /// The words, each with the packet of its first bit.
    pub(crate) fn words(&self) -> impl Iterator<Item = (Psn, u64)> + use<'a> {
        let first = self.first;
        (0u32..).step_by(64).map(move |from| first.plus(from)).zip(self.words.iter().copied())
    }
}
