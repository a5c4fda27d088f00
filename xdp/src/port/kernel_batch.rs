// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel batches: long GSO batches that leave by the kernel socket beside an `AF_XDP` socket.
//!
//! Where the kernel copies frames from and to an `AF_XDP` socket, each frame has the whole cost of
//! a packet. A batch of packets (`UDP_SEGMENT`, udp(7)) costs little more than one packet, and
//! crosses a virtual link in one piece. Therefore packets that are nearly full are queued in the
//! kernel port's batches. At the flush, short batches move to the `AF_XDP` socket, which is faster
//! for a few packets.
//!
//! In: each packet. Out: whether it joins a batch. Caller: `xdp_half.rs`. Bounds: those of the two
//! sockets.

use ofi_xdp_core::wire::HEAD_CHECKSUM_FROM;
use ofi_xdp_core::{Destination, Transmit};

/// Minimum length of a packet in a batch, in bytes: that of packets which the kernel protects. With
/// an MTU below some 780 bytes there are no batches.
const LEN_MIN: usize = HEAD_CHECKSUM_FROM;

/// State of the kernel batches.
#[derive(Debug, Default)]
pub(super) struct KernelBatch {
    /// Whether the last packet joined a batch; the next one usually does, too.
    likely: bool,
    /// Destination of the last batch. All later packets for it follow the batch until the flush,
    /// however short they are. On the other path they would overtake it, and the receiver would see
    /// a gap.
    ordered_after: Option<Destination>,
}

impl KernelBatch {
    /// Whether the next packet should be written into the batches, because it will probably stay
    /// there.
    pub(super) const fn is_likely(&self) -> bool {
        self.likely
    }

    /// Whether a packet joins the batches.
    pub(super) fn takes(&mut self, transmit: Transmit) -> bool {
        self.likely = transmit.len >= LEN_MIN;
        if self.likely {
            self.ordered_after = Some(transmit.to);
        }
        self.ordered_after == Some(transmit.to)
    }

    /// Ends the rule of order: every batch leaves with the flush that follows.
    pub(super) const fn end_round(&mut self) {
        self.ordered_after = None;
    }
}
