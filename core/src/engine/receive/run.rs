// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of parts that arrive: packets behind one another with parts of one long operation, all of
//! one length.
//!
//! The first packet of a run is predicted in full (`predicted_part.rs`). The next one differs from
//! it in the packet number and the offset of its part alone. It therefore meets the same
//! conditions, as long as no other packet came between them. One comparison tells so. A packet that
//! differs in anything else is processed as any other, and ends the run.
//!
//! In: bytes from anywhere. Out: the place of their part. Callers: `ingest.rs` and
//! `predicted_part.rs`. Bound: a run ends before the part that completes its message, its response
//! or its region.

use crate::peer::slots::{AssemblySlot, ConnSlot};
use crate::wire::{Header, PART_HEAD_LEN, PartHead};
use crate::{Datagram, OpId, PeerAddress, RegionId};
use zerocopy::FromBytes;

/// Where the bytes of a part go: an offset in a message, a region or a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum PartPlace {
    Assembly(AssemblySlot, u64),
    Region(RegionId, u64),
    Request(OpId, u64),
}

impl PartPlace {
    /// Moves on by `len` bytes.
    #[inline(always)]
    pub(super) const fn advance(&mut self, len: u64) {
        let (Self::Assembly(_, at) | Self::Region(_, at) | Self::Request(_, at)) = self;
        *at = at.wrapping_add(len);
    }
}

/// The next packet of a run.
#[derive(Debug)]
pub(crate) struct IncomingRun {
    conn: ConnSlot,
    from: PeerAddress,
    head: PartHead,
    /// Bytes of a part.
    len: usize,
    place: PartPlace,
    /// Packets that may still come.
    left: u64,
}

impl IncomingRun {
    /// The run behind `datagram`, which brought a part for `place`. Behind that part, the parts of
    /// `room` bytes meet the same conditions.
    pub(super) fn behind(
        conn: ConnSlot,
        datagram: &Datagram<'_>,
        (place, room): (PartPlace, u64),
    ) -> Option<Self> {
        let head = PartHead::of(datagram.bytes)?;
        let len = datagram.bytes.len() - PART_HEAD_LEN;
        let left = 1 + room.checked_div(len as u64)?;
        let mut run = Self { conn, from: datagram.from, head, len, place, left };
        run.advance();
        Some(run)
    }

    /// Connection, place, header and bytes of the next part, if `datagram` is the next packet. Its
    /// checksum is not verified.
    #[inline]
    pub(super) fn next<'a>(
        &self,
        datagram: &Datagram<'a>,
    ) -> Option<(ConnSlot, PartPlace, &'a Header, &'a [u8])> {
        let (head, payload) = PartHead::ref_from_prefix(datagram.bytes).ok()?;
        let is_next = self.left > 0
            && payload.len() == self.len
            && self.head.is_of(head)
            && self.from == datagram.from;
        is_next.then_some((self.conn, self.place, head.header(), payload))
    }

    /// Moves on behind the next packet.
    #[inline]
    pub(super) fn advance(&mut self) {
        let len = self.len as u64;
        self.head.advance(len);
        self.place.advance(len);
        self.left -= 1;
    }
}
