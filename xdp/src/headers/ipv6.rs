// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv6 (RFC 8200) without extension headers.
//!
//! In: the bytes after the Ethernet header. Out: the header and its payload; in the other direction
//! the header of one UDP packet. Caller: [`super`]. Bound: 40 bytes of header.

use std::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::InternetChecksum;
use super::fields::{HOP_LIMIT, PROTOCOL_UDP, Reject};

/// Version 6, shifted to its position before traffic class and flow label.
const VERSION: u32 = 6 << VERSION_SHIFT;
const VERSION_SHIFT: u32 = 28;
const TRAFFIC_CLASS_SHIFT: u32 = 20;

/// The header.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv6 {
    version_class_flow: U32,
    payload_length: U16,
    next_header: u8,
    hop_limit: u8,
    pub(super) source: [u8; 16],
    pub(super) destination: [u8; 16],
}

/// The header at the start of `bytes`, and the payload that its payload length covers.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<(&Ipv6, &[u8]), Reject> {
    let (header, rest) = Ipv6::ref_from_prefix(bytes).map_err(|_| Reject::Truncated)?;
    if header.version_class_flow.get() >> VERSION_SHIFT != VERSION >> VERSION_SHIFT {
        return Err(Reject::NotIp);
    }
    if header.next_header != PROTOCOL_UDP {
        return Err(Reject::NotUdp);
    }
    let length = usize::from(header.payload_length.get());
    let covered = rest.get(..length).ok_or(Reject::Length)?;
    Ok((header, covered))
}

impl Ipv6 {
    /// The header of a packet of `udp_length` bytes, the UDP header included, with flow label 0.
    #[inline]
    pub(super) fn udp(
        source: Ipv6Addr,
        destination: Ipv6Addr,
        traffic_class: u8,
        udp_length: u16,
    ) -> Self {
        let class = u32::from(traffic_class) << TRAFFIC_CLASS_SHIFT;
        Self {
            version_class_flow: U32::new(VERSION | class),
            payload_length: U16::new(udp_length),
            next_header: PROTOCOL_UDP,
            hop_limit: HOP_LIMIT,
            source: source.octets(),
            destination: destination.octets(),
        }
    }

    /// DSCP and ECN.
    #[inline]
    pub(super) fn traffic_class(&self) -> u8 {
        let [_, _, _, class] = (self.version_class_flow.get() >> TRAFFIC_CLASS_SHIFT).to_be_bytes();
        class
    }

    /// The sum over the pseudo header of the UDP checksum (RFC 8200 §8.1).
    #[inline]
    pub(super) fn pseudo_header(&self, udp_length: u16) -> InternetChecksum {
        let [high, low] = udp_length.to_be_bytes();
        InternetChecksum::default().add(&self.source).add(&self.destination).add(&[
            0,
            0,
            high,
            low,
            0,
            0,
            0,
            PROTOCOL_UDP,
        ])
    }
}
