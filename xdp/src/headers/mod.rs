// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet II, IPv4, IPv6 and UDP headers of a packet.
//!
//! In: a frame from an AF_XDP ring. Out of [`parse`]: the UDP payload, its source and its
//! destination. [`emit`] writes the headers of a packet directly before its payload, in the same
//! frame. Caller: the AF_XDP port; for the UDP port the kernel does this work. [`parse`] checks
//! each length once, and the code below relies on it. Bound: the headers, at most IPv6 behind one
//! 802.1Q tag, and one pass over the payload where [`emit`] computes the UDP checksum.
//!
//! [`parse`] does not verify the UDP checksum: on virtual links the sender's kernel leaves it
//! partial for offload hardware that does not exist. The packet's own CRC-32C covers the payload. A
//! datagram of an application has none: what arrives by an AF_XDP socket is checked by the link
//! alone.

mod checksum;
mod ethernet;
mod fields;
mod ipv4;
mod ipv6;
mod template;
mod udp;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::ops::Range;

use zerocopy::{Immutable, IntoBytes};

use ethernet::Ethernet;
use ipv4::Ipv4;
use ipv6::Ipv6;
use ofi_xdp_core::PeerAddress;
use udp::Udp;

pub use fields::MacAddress;
pub(crate) use fields::{EmitError, Headers, Reject, UdpChecksum};
pub(crate) use template::Template;

/// Bytes of the header before an IP packet, without a tag.
pub(crate) const ETHERNET_LEN: usize = size_of::<Ethernet>();
/// Bytes of the headers before an IPv4 packet: Ethernet 14, IPv4 20, UDP 8.
pub(crate) const HEADERS_V4: usize = size_of::<Ethernet>() + size_of::<Ipv4>() + size_of::<Udp>();
/// Bytes of the headers before an IPv6 packet: Ethernet 14, IPv6 40, UDP 8.
pub(crate) const HEADERS_V6: usize = size_of::<Ethernet>() + size_of::<Ipv6>() + size_of::<Udp>();

/// The two ECN bits of the traffic class (RFC 3168 §5); both set is Congestion Experienced.
const ECN_MASK: u8 = 0b11;

/// One received packet inside its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parsed<'a> {
    /// The sender's IP address and UDP port.
    pub(crate) source: PeerAddress,
    /// The IP address and UDP port that the packet was sent to.
    pub(crate) destination: PeerAddress,
    /// Whether a router marked the packet Congestion Experienced.
    pub(crate) congestion_experienced: bool,
    /// The UDP payload, without padding of the frame.
    pub(crate) payload: &'a [u8],
}

/// Parses the packet in `frame`.
///
/// # Errors
/// [`Reject`] for all frames but a whole UDP packet without IP options and extension headers.
#[inline]
pub(crate) fn parse(frame: &[u8]) -> Result<Parsed<'_>, Reject> {
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

/// Writes the headers directly before the packet at `payload` in `frame`, and returns the range of
/// the whole frame.
///
/// # Errors
/// [`EmitError`]; `frame` may then hold incomplete headers before `payload`.
#[inline]
pub(crate) fn emit(
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

/// The bytes before the last `length` bytes of `bytes`, and those last bytes.
fn split_end(bytes: &mut [u8], length: usize) -> Result<(&mut [u8], &mut [u8]), EmitError> {
    let at = bytes.len().checked_sub(length).ok_or(EmitError::NoRoom)?;
    bytes.split_at_mut_checked(at).ok_or(EmitError::NoRoom)
}
