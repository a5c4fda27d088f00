// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts of operations in error on both sides (`docs/PROTOCOL.md` §8.3), modulo 256.
//!
//! In: error records sent, acknowledged and received, and the counts in headers. Out: whether
//! operations may end. All operations are O(1).

use crate::OpId;

/// The most error records to one peer that are not acknowledged; far below the 256 that their 8-bit
/// count can tell apart.
const OPEN_MAX: u8 = 64;
/// No operation has this name.
const NONE: u32 = OpId::NONE.bits();

/// Error records of both sides.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Errors {
    /// The operation of the last error record, while parts of it may arrive: one record is enough
    /// for all parts of a write. Errors are found in the order of packets, so no parts of the
    /// operations before it are missing.
    last: u32,
    /// Error records that the peer says it has issued, and those that have arrived.
    announced: u8,
    received: u8,
    /// Error records of this side, and how many of them are not acknowledged.
    issued: u8,
    open: u8,
}

impl Default for Errors {
    fn default() -> Self {
        Self::resumed(0, 0)
    }
}

impl Errors {
    /// The counts of a peer without errors under way.
    pub(crate) const fn resumed(issued: u8, received: u8) -> Self {
        Self { last: NONE, announced: received, received, issued, open: 0 }
    }

    /// Error records of this side.
    #[inline(always)]
    pub(crate) const fn issued(&self) -> u8 {
        self.issued
    }

    /// Error records that have arrived.
    pub(crate) const fn received(&self) -> u8 {
        self.received
    }

    /// Error records that the peer says it has issued.
    #[inline(always)]
    pub(crate) const fn announced(&self) -> u8 {
        self.announced
    }

    /// Error records of this side that are not acknowledged.
    pub(crate) const fn open(&self) -> u8 {
        self.open
    }

    /// Whether another error record may be issued.
    pub(crate) const fn may_issue(&self) -> bool {
        self.open < OPEN_MAX
    }

    /// Records the count in a header of the peer, unless it is older than the present one.
    #[inline(always)]
    pub(crate) fn announce(&mut self, count: u8) {
        if count.wrapping_sub(self.announced) < 1 << 7 {
            self.announced = count;
        }
    }

    /// Records the arrival of an error record. The header of its packet may be older.
    pub(crate) fn record_arrived(&mut self) {
        self.received = self.received.wrapping_add(1);
        self.announce(self.received);
    }

    /// Whether every announced error has arrived.
    #[inline(always)]
    pub(crate) const fn all_arrived(&self) -> bool {
        self.received == self.announced
    }

    /// Records an error record for `op`.
    pub(crate) fn issue(&mut self, op: OpId) {
        self.last = op.bits();
        self.open += 1;
        self.issued = self.issued.wrapping_add(1);
    }

    /// Records that an error record of this side ended.
    pub(crate) fn record_ended(&mut self) {
        self.open -= 1;
    }

    /// Records that every error record of this side ended.
    pub(crate) fn all_ended(&mut self) {
        self.open = 0;
    }

    /// Whether an operation failed, of which parts may arrive.
    #[inline]
    pub(super) const fn has_failed(&self) -> bool {
        self.last != NONE
    }

    /// The name of the operation that failed last; no operation has the name if its parts have all
    /// arrived.
    #[inline]
    pub(crate) const fn last(&self) -> u32 {
        self.last
    }

    /// Forgets the operation that failed last: all of its parts have arrived.
    pub(super) fn forget_failed(&mut self) {
        self.last = NONE;
    }
}
