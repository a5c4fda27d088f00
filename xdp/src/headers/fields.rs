// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of the headers, and the errors of reading and writing them.
//!
//! In: addresses, a traffic class. Out: typed values for the file of each protocol. Callers: the
//! files of this folder. Bound: plain values.

use ofi_xdp_core::PeerAddress;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// IP protocol number of UDP (RFC 768).
pub(super) const PROTOCOL_UDP: u8 = 17;
/// Initial TTL and hop limit (RFC 1700's recommendation, and Linux's default).
pub(super) const HOP_LIMIT: u8 = 64;

/// A link-layer address (EUI-48).
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl core::fmt::Display for MacAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl core::fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

/// Reason why a frame is not a packet for this endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Reject {
    /// The IPv4 header's checksum is wrong (RFC 1122 §3.2.1.2).
    #[error("the IPv4 header checksum is wrong")]
    Checksum,
    /// An IPv4 fragment: it has no UDP header, or not all of the payload.
    #[error("the frame holds an IPv4 fragment")]
    Fragment,
    /// A length field contradicts another or the frame.
    #[error("a length field contradicts another or the frame")]
    Length,
    /// Neither IPv4 nor IPv6, or more than one VLAN tag.
    #[error("the frame holds neither IPv4 nor IPv6")]
    NotIp,
    /// IP, but the next header is not UDP.
    #[error("the packet is not UDP")]
    NotUdp,
    /// An IPv4 header with options.
    #[error("the IPv4 header has options")]
    Options,
    /// The frame ends inside a header.
    #[error("the frame ends inside a header")]
    Truncated,
}

/// Whether [`emit`](super::emit) computes the UDP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UdpChecksum {
    /// Compute it. Always done for IPv6, where RFC 8200 §8.1 demands it.
    Compute,
    /// Leave it 0, "not computed" (RFC 768), where IPv4 allows that.
    Omit,
}

/// The values in the headers of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Headers {
    /// Link-layer address of the sending device.
    pub(crate) source_mac: MacAddress,
    /// Link-layer address of the next hop.
    pub(crate) destination_mac: MacAddress,
    /// Own IP address and UDP port.
    pub(crate) source: PeerAddress,
    /// The peer's IP address and UDP port.
    pub(crate) destination: PeerAddress,
    /// DSCP and ECN, as they stand in the IP header.
    pub(crate) traffic_class: u8,
    /// The choice about the UDP checksum.
    pub(crate) checksum: UdpChecksum,
}

/// Reason why headers cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum EmitError {
    /// Source and destination are not of one IP version.
    #[error("source and destination are not of one IP version")]
    MixedFamilies,
    /// The frame has no room before the payload, or the payload does not lie in it or is too long
    /// for IP.
    #[error("the headers or the payload do not fit")]
    NoRoom,
}
