// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a transmitted packet: 16 bytes.
//!
//! In: the operations in a packet, its time and its flags. Out: enough to write the packet again,
//! and to credit its operations. Called by the sender; `in_flight.rs` stores the records.
//! Bound: [`TxPacket::begins_at`] is exact within a window of 256 GiB.

use crate::OpId;
use crate::collections::time::Tick;
use crate::wire::SEGMENT_QUANTUM;

bitflags::bitflags! {
    /// State of a transmitted packet.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub(crate) struct TxFlags: u8 {
        /// It carries a part of one operation: `offset` and `len` say which. Otherwise `len` whole
        /// operations from `op` on.
        const PART = 1 << 0;
        /// Selectively acknowledged.
        const ACKED = 1 << 1;
        /// Taken for lost, waiting to be sent again.
        const LOST = 1 << 2;
        /// Sent more than once.
        const RETRANSMITTED = 1 << 3;
        /// It must not be processed before all packets that were sent before it.
        const BARRIER = 1 << 4;
        /// It brings remote CQ data. The event is delivered when everything before it has arrived;
        /// until then its operations cannot end.
        const EVENT = 1 << 5;
    }
}

/// One transmitted packet: enough to write it again, and to credit its operations when it is
/// acknowledged.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct TxPacket {
    /// The first operation in it.
    pub(crate) op: OpId,
    /// Offset of a part in its operation, in units of [`SEGMENT_QUANTUM`] bytes, modulo 2^32:
    /// [`Self::begins_at`] knows the rest.
    pub(crate) offset: u32,
    /// When it was last sent.
    pub(crate) sent_at: Tick,
    /// Bytes of a part, or number of whole operations.
    pub(crate) len: u16,
    pub(crate) flags: TxFlags,
    /// The receiver-not-ready epoch in which it was first sent.
    pub(crate) rnr_epoch: u8,
}

static_assertions::const_assert_eq!(size_of::<TxPacket>(), 16);

/// Parts begin at multiples of this many bytes.
const QUANTUM: u64 = SEGMENT_QUANTUM as u64;

impl TxPacket {
    /// The time that loss detection counts from. Packets of one tick are in order of their numbers
    /// when they are sent first. Of those that were sent again any may have gone last, so they
    /// count from the end of the tick.
    #[inline]
    pub(crate) const fn counts_from(&self) -> Tick {
        self.sent_at.plus(self.flags.contains(TxFlags::RETRANSMITTED) as u32)
    }

    /// The offset of a part as a record keeps it.
    #[inline]
    pub(crate) const fn quantized_offset(offset: u64) -> u32 {
        (offset / QUANTUM) as u32
    }

    /// The offset of the part in its operation, of which packets have taken `sent` bytes: the
    /// largest offset up to `sent` with these low bits. Two such offsets are 256 GiB apart, much
    /// more than a window.
    pub(crate) const fn begins_at(&self, sent: u64) -> u64 {
        let end = sent.div_ceil(QUANTUM);
        let behind = (end as u32).wrapping_sub(self.offset);
        end.saturating_sub(behind as u64) * QUANTUM
    }
}

impl Default for TxPacket {
    fn default() -> Self {
        Self {
            op: OpId::NONE,
            offset: 0,
            sent_at: Tick::default(),
            len: 0,
            flags: TxFlags::empty(),
            rnr_epoch: 0,
        }
    }
}
