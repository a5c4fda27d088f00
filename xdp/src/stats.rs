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
    /// Packets received from the kernel socket.
    pub udp_received: u64,
    /// Packets given to the kernel socket.
    pub udp_transmitted: u64,
    /// Packets that the kernel socket refused: lost on the way.
    pub udp_lost: u64,
    /// System calls that sent packets through the kernel socket.
    pub udp_sends: u64,
}
