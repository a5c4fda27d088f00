// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bodies of packets without records: handshake, acknowledgment, reset.

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
    /// The sender's incarnation: random, never 0, new for each endpoint that is opened.
    pub src_incarnation: U64,
    /// The receiver's incarnation, as far as the sender knows it; 0: unknown.
    pub dst_incarnation: U64,
    /// The sender's identifier of this connection, for the receiver to put into `dst_cid`.
    pub src_cid: U32,
    /// The number of the sender's first data packet.
    pub psn_base: U32,
    /// Largest packet that the sender can receive, in bytes.
    pub receive_max: U16,
    /// The number of packets that the sender can have in flight.
    pub window: U16,
    /// Features: none are defined, and unknown ones are ignored.
    pub features: U16,
    /// The epoch: the number of this connection between these two incarnations.
    pub epoch: U16,
    /// In `Retry`: the cookie that the next `Hello` must repeat. In `Hello`: the repeated cookie,
    /// or 0. In `HelloAck`: the number of the peer's first data packet, as the sender understands
    /// it.
    pub cookie: U64,
}

static_assertions::const_assert_eq!(size_of::<Handshake>(), 40);

/// Body of `Reset` (`docs/PROTOCOL.md` §5.4). The header repeats token and number of the packet
/// that was not understood.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct ResetBody {
    /// The sender's incarnation.
    pub src_incarnation: U64,
}

/// The most words of selective acknowledgment in a packet. This implementation sends 4 at most.
pub const SACK_WORDS_MAX: usize = 16;

/// Fixed part of an acknowledgment's body (`docs/PROTOCOL.md` §4.3); `sack_words` words follow.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Ack {
    /// The `sent_at` of the newest packet received.
    pub echo: U32,
    /// The time since that packet arrived, in units of 64 ns.
    pub hold: U32,
    /// Packets received with a congestion mark, modulo 2^16.
    pub congestion_marks: U16,
    /// Words of bitmap that follow.
    pub sack_words: u8,
    /// Responder credit: the requests (reads, fetching atomics, rendezvous reads) that the peer may
    /// have outstanding; at least 1.
    pub responder_credit: u8,
    /// Packets received from the peer, modulo 2^32.
    pub received: U32,
}

static_assertions::const_assert_eq!(size_of::<Ack>(), 16);

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

/// The packet numbers of a bitmap behind `ack_psn`, in order (bit `i` is `ack_psn + 1 + i`).
pub(crate) fn sacked(ack_psn: Psn, words: &[u64]) -> impl Iterator<Item = Psn> + '_ {
    words.iter().zip((1u32..).step_by(64)).flat_map(move |(&word, first)| {
        let mut rest = word;
        core::iter::from_fn(move || {
            let bit = rest.trailing_zeros();
            rest &= rest.wrapping_sub(1);
            (bit < 64).then(|| ack_psn.plus(first).plus(bit))
        })
    })
}
