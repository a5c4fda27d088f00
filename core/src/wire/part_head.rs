// SPDX-License-Identifier: MIT OR Apache-2.0
//! The first bytes of a packet of a run: the common header, and the header of its one record.
//!
//! The packets of a run carry parts of one operation, of the same length, one behind the other.
//! Their heads differ in the packet number and the offset of the part alone. In: the head of one
//! packet. Out: the head of the next one, to be sent or to be compared with. Callers: `send/run.rs`
//! and `receive/run.rs`. All operations are O(1).

use super::header::Header;
use super::layout::{HAS_DATA, RecordKind, RecordStart, padded};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute};

/// Bytes of a head.
pub(crate) const PART_HEAD_LEN: usize = size_of::<PartHead>();

/// Header and record header. The records of a part have a layout in common. In the last two fields
/// a write has key and address, a segment its tag, and its offset and total, a response its offset
/// and status.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct PartHead {
    header: Header,
    start: RecordStart,
    name: U32,
    first: U64,
    second: U64,
}

static_assertions::const_assert_eq!(PART_HEAD_LEN, 56);

/// Words of 64 bits in a head.
const WORDS: usize = PART_HEAD_LEN / size_of::<u64>();
/// The bits of a head that are compared: all but those of the checksum, which ends the header.
const COMPARED: [u64; WORDS] = {
    let ends_header = u64::from_ne_bytes([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    [u64::MAX, u64::MAX, u64::MAX, ends_header, u64::MAX, u64::MAX, u64::MAX]
};

impl PartHead {
    /// The head of `packet`, a sound packet with a single record of a part. `None` if the record
    /// has other fields or padding beside the bytes of the part.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let (head, payload) = Self::read_from_prefix(packet).ok()?;
        let len = usize::from(head.start.len.get());
        let alone = !head.start.has(HAS_DATA) && len == padded(len) && len == payload.len();
        alone.then_some(head)
    }

    /// The header.
    #[inline(always)]
    pub(crate) const fn header(&self) -> &Header {
        &self.header
    }

    /// The head of the next packet, the part of which begins `len` bytes further on.
    #[inline(always)]
    pub(crate) fn advance(&mut self, len: u64) {
        self.header.advance_psn();
        // The total of a segment stands above its offset, which stays below the total.
        let is_response = self.start.kind == RecordKind::ReadResponse as u8;
        let offset = if is_response { &mut self.first } else { &mut self.second };
        *offset = U64::new(offset.get().wrapping_add(len));
    }

    /// Whether this is the head of `packet`, but for the checksum.
    #[inline(always)]
    pub(crate) fn is_of(&self, packet: &Self) -> bool {
        let [expected, found]: [[u64; WORDS]; 2] = [transmute!(*self), transmute!(*packet)];
        let words = expected.into_iter().zip(found).zip(COMPARED);
        words.fold(0, |differences, ((a, b), mask)| differences | (a ^ b) & mask) == 0
    }
}
