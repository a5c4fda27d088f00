// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a port.
//!
//! The port's halves add to them on the data path, plain additions; anybody may copy them out.

/// What a port has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Packets received from the `AF_XDP` socket.
    pub xsk_received: u64,
    /// Packets given to the `AF_XDP` socket.
    pub xsk_transmitted: u64,
    /// Frames from the `AF_XDP` socket that were no packet for this endpoint.
    pub xsk_rejected: u64,
    /// System calls that woke the kernel's transmit side.
    pub xsk_kicks: u64,
    /// How often the `AF_XDP` half was lost.
    pub xsk_losses: u64,
    /// Packets received from the kernel socket.
    pub udp_received: u64,
    /// Packets given to the kernel socket.
    pub udp_transmitted: u64,
    /// Packets that the kernel socket refused: lost on the way.
    pub udp_lost: u64,
    /// System calls that sent packets through the kernel socket.
    pub udp_sends: u64,
}

/// What the kernel counted at an `AF_XDP` socket (`XDP_STATISTICS`), and whether it copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelStats {
    /// The kernel's own word on zero-copy (`XDP_OPTIONS`); `None` before Linux 5.3.
    pub zerocopy: Option<bool>,
    /// Packets dropped because the rx ring was full: nobody took them in time.
    pub rx_ring_full: u64,
    /// Times that no frame was in the fill ring to receive into.
    pub fill_ring_empty: u64,
    /// Packets dropped for other reasons, one longer than a frame among them.
    pub rx_dropped: u64,
    /// Frames of the fill ring that the kernel refused: a fault of ours.
    pub rx_invalid: u64,
    /// Frames of the tx ring that the kernel refused: a fault of ours.
    pub tx_invalid: u64,
}

impl KernelStats {
    /// Packets that arrived and were not received.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.rx_ring_full + self.fill_ring_empty + self.rx_dropped
    }
}
