// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel batches: long GSO batches that leave by the kernel socket beside an `AF_XDP` socket.
//!
//! Where the kernel copies frames from and to an `AF_XDP` socket, each frame has the whole cost of
//! a packet. A batch of packets (`UDP_SEGMENT`, udp(7)) costs little more than one packet, and
//! crosses a virtual link in one piece. Therefore packets that are nearly full are queued in the
//! kernel port's batches. So are datagrams of any length behind the first few of a round, and all
//! of a round that follows one of many. At the flush, short batches move to the `AF_XDP` socket,
//! which is faster for a few packets.
//!
//! In: each packet. Out: whether it joins a batch. Caller: `xdp_half.rs`. Bounds: those of the two
//! sockets.

use ofi_xdp_core::wire::HEAD_CHECKSUM_FROM;
use ofi_xdp_core::{Destination, Transmit};

/// Minimum length of a packet in a batch, in bytes: that of packets which the kernel protects. With
/// an MTU below some 780 bytes there are no batches.
const LEN_MIN: usize = HEAD_CHECKSUM_FROM;

/// Datagrams of a round that are no batch yet: for so few the `AF_XDP` socket is faster.
const FEW: u16 = 3;

/// State of the kernel batches.
#[derive(Debug)]
pub(super) struct KernelBatch {
    /// Whether packets are datagrams of an application, of which the kernel protects any length.
    datagrams: bool,
    /// Packets since the last flush.
    round: u16,
    /// Whether the last packet joined a batch; the next one usually does, too.
    likely: bool,
    /// Destination of the last batch. All later packets for it follow the batch until the flush,
    /// however short they are. On the other path they would overtake it, and the receiver would see
    /// a gap.
    ordered_after: Option<Destination>,
}

impl KernelBatch {
    /// No batch yet.
    pub(super) const fn new(datagrams: bool) -> Self {
        Self { datagrams, round: 0, likely: false, ordered_after: None }
    }

    /// Whether the next packet should be written into the batches, because it will probably stay
    /// there.
    pub(super) const fn is_likely(&self) -> bool {
        self.likely
    }

    /// Whether a packet joins the batches.
    pub(super) fn takes(&mut self, transmit: Transmit) -> bool {
        let follows = self.datagrams && (self.likely || self.round >= FEW);
        self.likely = transmit.len >= LEN_MIN || follows;
        self.round = self.round.saturating_add(1);
        if self.likely {
            self.ordered_after = Some(transmit.to);
        }
        self.ordered_after == Some(transmit.to)
    }

    /// Ends the rule of order: every batch leaves with the flush that follows.
    pub(super) const fn end_round(&mut self) {
        if self.datagrams {
            self.likely = self.round > FEW;
        }
        (self.round, self.ordered_after) = (0, None);
    }
}
