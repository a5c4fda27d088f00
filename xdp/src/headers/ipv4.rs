// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 (RFC 791) without options and fragments.
//!
//! In: the bytes after the Ethernet header. Out: the header and its payload; in the other direction
//! the header of one UDP packet. Caller: [`super`]. Bound: 20 bytes of header.

use std::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::checksum::InternetChecksum;
use super::fields::{EmitError, HOP_LIMIT, PROTOCOL_UDP, Reject};

/// Version 4 in the high nibble.
const VERSION: u8 = 0x40;
/// Version 4 and a header of five 32-bit words: no options.
const VERSION_LENGTH: u8 = VERSION | 5;
/// Don't Fragment.
const FLAG_DF: u16 = 0x4000;
/// More Fragments, and the 13 bits of the fragment offset: any of them set makes a fragment.
const FRAGMENT_MASK: u16 = 0x3fff;

/// The header.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ipv4 {
    version_length: u8,
    pub(super) traffic_class: u8,
    total_length: U16,
    identification: U16,
    flags_offset: U16,
    ttl: u8,
    protocol: u8,
    checksum: [u8; 2],
    pub(super) source: [u8; 4],
    pub(super) destination: [u8; 4],
}

/// The header at the start of `bytes`, and the payload that its total length covers.
#[inline]
pub(super) fn parse(bytes: &[u8]) -> Result<(&Ipv4, &[u8]), Reject> {
    let (header, rest) = Ipv4::ref_from_prefix(bytes).map_err(|_| Reject::Truncated)?;
    if header.version_length != VERSION_LENGTH {
        let is_v4 = header.version_length & 0xf0 == VERSION;
        return Err(if is_v4 { Reject::Options } else { Reject::NotIp });
    }
    if header.flags_offset.get() & FRAGMENT_MASK != 0 {
        return Err(Reject::Fragment);
    }
    if header.protocol != PROTOCOL_UDP {
        return Err(Reject::NotUdp);
    }
    // The sum over a header that includes its own checksum is zero.
    if InternetChecksum::default().add(header.as_bytes()).finish() != [0, 0] {
        return Err(Reject::Checksum);
    }
    let covered = usize::from(header.total_length.get())
        .checked_sub(size_of::<Ipv4>())
        .and_then(|length| rest.get(..length))
        .ok_or(Reject::Length)?;
    Ok((header, covered))
}

impl Ipv4 {
    /// The header of a packet of `udp_length` bytes, the UDP header included. It forbids fragments,
    /// so the identification may have any value (RFC 6864 §4.1).
    #[inline]
    pub(super) fn udp(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        traffic_class: u8,
        udp_length: u16,
    ) -> Result<Self, EmitError> {
        let mut header = Self::without_length(source, destination, traffic_class);
        let sum = InternetChecksum::default().add(header.as_bytes());
        header.set_length(udp_length, sum)?;
        Ok(header)
    }

    /// [`Self::udp`] with a total length of 0 and without a checksum.
    #[inline]
    pub(super) const fn without_length(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        traffic_class: u8,
    ) -> Self {
        Self {
            version_length: VERSION_LENGTH,
            traffic_class,
            total_length: U16::ZERO,
            identification: U16::ZERO,
            flags_offset: U16::new(FLAG_DF),
            ttl: HOP_LIMIT,
            protocol: PROTOCOL_UDP,
            checksum: [0; 2],
            source: source.octets(),
            destination: destination.octets(),
        }
    }

    /// Sets the total length, and the checksum; `sum` is that of the header without both.
    #[inline]
    pub(super) fn set_length(
        &mut self,
        udp_length: u16,
        sum: InternetChecksum,
    ) -> Result<(), EmitError> {
        const HEADER: u16 = 20;
        self.total_length = U16::new(udp_length.checked_add(HEADER).ok_or(EmitError::NoRoom)?);
        self.checksum = sum.add(self.total_length.as_bytes()).finish();
        Ok(())
    }

    /// The sum over the pseudo header of the UDP checksum (RFC 768).
    #[inline]
    pub(super) fn pseudo_header(&self, udp_length: u16) -> InternetChecksum {
        let [high, low] = udp_length.to_be_bytes();
        InternetChecksum::default().add(&self.source).add(&self.destination).add(&[
            0,
            PROTOCOL_UDP,
            high,
            low,
        ])
    }
}
