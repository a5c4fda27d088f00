// SPDX-License-Identifier: MIT OR Apache-2.0
//! The standard headers around a packet: Ethernet II, IPv4 or IPv6, UDP.
//!
//! In comes a frame as an AF_XDP ring delivers it, out goes the packet (UDP payload) and where it
//! came from and went to: [`parse`]. The other way, a packet that already lies in a frame gets its
//! headers written directly before it: [`emit`]. The AF_XDP port calls both, nobody else; the
//! kernel does the same job for the UDP port. Every length is checked here once, and nothing below
//! looks at one again. Bounds: both touch at most [`HEADERS_MAX`] bytes, and [`emit`] the payload
//! once when it needs a checksum.
//!
//! The UDP checksum is not verified on receive: on virtual links the sender's kernel leaves it
//! partial for hardware that does not exist, and the packet's own CRC32C covers the payload.

mod checksum;
mod ethernet;
mod ipv4;
mod ipv6;
mod udp;

#[cfg(test)]
mod tests;

use core::net::IpAddr;
use core::ops::Range;

use zerocopy::{Immutable, IntoBytes};

use crate::PeerAddress;
use ethernet::{Ethernet, Vlan};
use ipv4::Ipv4;
use ipv6::Ipv6;
use udp::Udp;

pub use ethernet::MacAddress;

/// Bytes of the header before an IP packet, without a tag.
pub const ETHERNET_LEN: usize = size_of::<Ethernet>();
/// Bytes of the headers before an IPv4 packet: Ethernet 14, IPv4 20, UDP 8.
pub const HEADERS_V4: usize = size_of::<Ethernet>() + size_of::<Ipv4>() + size_of::<Udp>();
/// Bytes of the headers before an IPv6 packet: Ethernet 14, IPv6 40, UDP 8.
pub const HEADERS_V6: usize = size_of::<Ethernet>() + size_of::<Ipv6>() + size_of::<Udp>();
/// The most bytes of headers that [`parse`] accepts: IPv6 behind one 802.1Q tag.
pub const HEADERS_MAX: usize = HEADERS_V6 + size_of::<Vlan>();

/// IP protocol number of UDP (RFC 768).
const PROTOCOL_UDP: u8 = 17;
/// Initial TTL and hop limit (RFC 1700's recommendation, and Linux's default).
const HOP_LIMIT: u8 = 64;
/// The two ECN bits of the traffic class (RFC 3168 §5); both set is Congestion Experienced.
const ECN_MASK: u8 = 0b11;

/// Why a frame is not a packet for us.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Reject {
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

/// One received packet inside its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed<'a> {
    /// The sender's IP address and UDP port.
    pub source: PeerAddress,
    /// The IP address and UDP port that the packet was sent to.
    pub destination: PeerAddress,
    /// Whether a router marked the packet Congestion Experienced.
    pub congestion_experienced: bool,
    /// The UDP payload, without whatever padding follows it in the frame.
    pub payload: &'a [u8],
}

/// Finds the packet in `frame`.
///
/// # Errors
/// [`Reject`] for whatever is not one whole UDP packet without IP options or extension headers.
#[inline]
pub fn parse(frame: &[u8]) -> Result<Parsed<'_>, Reject> {
    let (ether_type, rest) = ethernet::parse(frame)?;
    match ether_type {
        ethernet::TYPE_IPV4 => {
            let (header, rest) = ipv4::parse(rest)?;
            let (ports, payload) = udp::parse(rest)?;
            Ok(Parsed {
                source: PeerAddress::from_v4(header.source, ports.source.get()),
                destination: PeerAddress::from_v4(header.destination, ports.destination.get()),
                congestion_experienced: header.traffic_class & ECN_MASK == ECN_MASK,
                payload,
            })
        }
        ethernet::TYPE_IPV6 => {
            let (header, rest) = ipv6::parse(rest)?;
            let (ports, payload) = udp::parse(rest)?;
            Ok(Parsed {
                source: PeerAddress::from_v6(header.source, ports.source.get()),
                destination: PeerAddress::from_v6(header.destination, ports.destination.get()),
                congestion_experienced: header.traffic_class() & ECN_MASK == ECN_MASK,
                payload,
            })
        }
        _ => Err(Reject::NotIp),
    }
}

/// Whether [`emit`] computes the UDP checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpChecksum {
    /// Compute it. Always done for IPv6, where RFC 8200 §8.1 demands it.
    Compute,
    /// Leave it 0, "not computed" (RFC 768), where IPv4 allows that.
    Omit,
}

/// What the headers of one packet say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Link-layer address of the sending device.
    pub source_mac: MacAddress,
    /// Link-layer address of the next hop.
    pub destination_mac: MacAddress,
    /// Own IP address and UDP port.
    pub source: PeerAddress,
    /// The peer's IP address and UDP port.
    pub destination: PeerAddress,
    /// DSCP and ECN, as they stand in the IP header.
    pub traffic_class: u8,
    /// What to do about the UDP checksum.
    pub checksum: UdpChecksum,
}

/// Why headers cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmitError {
    /// Source and destination are not of one IP version.
    #[error("source and destination are not of one IP version")]
    MixedFamilies,
    /// The frame has no room before the payload, or the payload does not lie in it, or is too long
    /// for IP.
    #[error("the headers or the payload do not fit")]
    NoRoom,
}

/// Writes the headers directly before the packet that lies at `payload` in `frame`, and returns
/// where the whole frame then lies.
///
/// # Errors
/// [`EmitError`] when that cannot be; `frame` may then hold half-written headers before `payload`.
#[inline]
pub fn emit(
    headers: &Headers,
    frame: &mut [u8],
    payload: Range<usize>,
) -> Result<Range<usize>, EmitError> {
    let end = payload.end;
    let (before, rest) = frame.split_at_mut_checked(payload.start).ok_or(EmitError::NoRoom)?;
    let length = end.checked_sub(payload.start).ok_or(EmitError::NoRoom)?;
    let body = rest.get(..length).ok_or(EmitError::NoRoom)?;
    let written = match (headers.source.ip(), headers.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let udp_length = udp::length(length)?;
            let ip = Ipv4::udp(source, destination, headers.traffic_class, udp_length)?;
            let udp = Udp::new(headers, headers.checksum, udp_length, body, || {
                ip.pseudo_header(udp_length)
            });
            write_before(before, &ethernet::header(headers, ethernet::TYPE_IPV4), &ip, &udp)?;
            HEADERS_V4
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let udp_length = udp::length(length)?;
            let ip = Ipv6::udp(source, destination, headers.traffic_class, udp_length);
            let udp = Udp::new(headers, UdpChecksum::Compute, udp_length, body, || {
                ip.pseudo_header(udp_length)
            });
            write_before(before, &ethernet::header(headers, ethernet::TYPE_IPV6), &ip, &udp)?;
            HEADERS_V6
        }
        _ => return Err(EmitError::MixedFamilies),
    };
    Ok(payload.start.saturating_sub(written)..end)
}

/// Writes the three headers, one after the other, so that they end where `before` ends.
fn write_before<I: IntoBytes + Immutable>(
    before: &mut [u8],
    ethernet: &Ethernet,
    ip: &I,
    udp: &Udp,
) -> Result<(), EmitError> {
    let (before, at) = split_end(before, size_of::<Udp>())?;
    udp.write_to(at).map_err(|_| EmitError::NoRoom)?;
    let (before, at) = split_end(before, size_of::<I>())?;
    ip.write_to(at).map_err(|_| EmitError::NoRoom)?;
    let (_, at) = split_end(before, size_of::<Ethernet>())?;
    ethernet.write_to(at).map_err(|_| EmitError::NoRoom)
}

/// The last `length` bytes of `bytes`, and what is before them.
fn split_end(bytes: &mut [u8], length: usize) -> Result<(&mut [u8], &mut [u8]), EmitError> {
    let at = bytes.len().checked_sub(length).ok_or(EmitError::NoRoom)?;
    bytes.split_at_mut_checked(at).ok_or(EmitError::NoRoom)
}
