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
use ofi_xdp_core::{PeerId, Transmit};

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
    /// The peers of the batches of this round, a bit for each remainder of their slots. All later
    /// packets to them follow their batch until the flush, however short they are. On the other
    /// path they would overtake it, and the receiver would see a gap. Another peer with the same
    /// bit loses no more than a copy of its packets.
    ordered_after: u64,
}

/// The bit of a peer.
const fn bit(peer: PeerId) -> u64 {
    1 << (peer.slot() % u64::BITS)
}

impl KernelBatch {
    /// No batch yet.
    pub(super) const fn new(datagrams: bool) -> Self {
        Self { datagrams, round: 0, likely: false, ordered_after: 0 }
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
        let peer = bit(transmit.to.peer);
        if self.likely {
            self.ordered_after |= peer;
        }
        self.ordered_after & peer != 0
    }

    /// Ends the rule of order: every batch leaves with the flush that follows.
    pub(super) const fn end_round(&mut self) {
        if self.datagrams {
            self.likely = self.round > FEW;
        }
        (self.round, self.ordered_after) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::{Destination, PeerAddress};

    #[test]
    fn short_packets_follow_the_batches_of_all_peers_until_the_flush() {
        let mut batch = KernelBatch::new(false);
        let mut takes = |slot, len| {
            let address = PeerAddress::from_v4([198, 18, 0, 1], 7);
            let to = Destination { peer: PeerId::new(slot, 1), address };
            batch.takes(Transmit { len, to, receive_max: 1472 })
        };
        assert!(!takes(1, 64));
        assert!(takes(1, LEN_MIN) && takes(2, LEN_MIN));
        assert_eq!([1, 2, 3, 1].map(|slot| takes(slot, 64)), [true, true, false, true]);
        batch.end_round();
        let to = Destination { peer: PeerId::new(1, 1), address: PeerAddress::NONE };
        assert!(!batch.takes(Transmit { len: 64, to, receive_max: 1472 }));
    }
}
