// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a port.
//!
//! In: additions by the port's halves on the data path. Out: copies for statistics. Callers: the
//! ports, the provider. Bound: plain additions.

use std::ops::AddAssign;

/// Counters of a port since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortStats {
    /// Packets received from the `AF_XDP` socket.
    pub xsk_received: u64,
    /// Packets given to the `AF_XDP` socket.
    pub xsk_transmitted: u64,
    /// Frames from the `AF_XDP` socket that are not packets for this endpoint.
    pub xsk_rejected: u64,
    /// System calls that woke the kernel's transmit side.
    pub xsk_kicks: u64,
    /// Losses of the `AF_XDP` half.
    pub xsk_losses: u64,
    /// Packets received from the kernel socket.
    pub udp_received: u64,
    /// Of these, packets that came by another queue than that of the `AF_XDP` socket.
    pub other_queue: u64,
    /// Packets given to the kernel socket.
    pub udp_transmitted: u64,
    /// Packets that the kernel socket refused.
    pub udp_lost: u64,
    /// System calls that sent packets through the kernel socket.
    pub udp_sends: u64,
}

/// The kernel's counters of an `AF_XDP` socket (`XDP_STATISTICS`), and whether it copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KernelStats {
    /// Whether the kernel reports zero-copy (`XDP_OPTIONS`); `None` before Linux 5.3.
    pub zerocopy: Option<bool>,
    /// Packets dropped because the rx ring was full.
    pub rx_ring_full: u64,
    /// Packets dropped because the fill ring had no frame.
    pub fill_ring_empty: u64,
    /// Packets dropped for other reasons, for example longer than a frame.
    pub rx_dropped: u64,
    /// Frames of the fill ring that the kernel refused: a bug of this crate.
    pub rx_invalid: u64,
    /// Frames of the tx ring that the kernel refused: a bug of this crate.
    pub tx_invalid: u64,
}

impl AddAssign for KernelStats {
    /// Adds the counters of another socket of the port.
    fn add_assign(&mut self, other: Self) {
        self.rx_ring_full += other.rx_ring_full;
        self.fill_ring_empty += other.fill_ring_empty;
        self.rx_dropped += other.rx_dropped;
        self.rx_invalid += other.rx_invalid;
        self.tx_invalid += other.tx_invalid;
    }
}

impl KernelStats {
    /// Packets that arrived and were not received.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.rx_ring_full + self.fill_ring_empty + self.rx_dropped
    }
}
