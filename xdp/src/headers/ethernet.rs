// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet II (IEEE 802.3 §3.2.6) with at most one 802.1Q tag.
//!
//! In: a frame. Out: its type and the rest behind the header. Written frames have no tag: a VLAN is
//! a device of its own on Linux, which adds the tag. Caller: [`super`]. Bound: one tag.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::fields::{Headers, MacAddress, Reject};

/// EtherType of IPv4.
pub(super) const TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub(super) const TYPE_IPV6: u16 = 0x86dd;
/// EtherType of an 802.1Q tag.
const TYPE_VLAN: u16 = 0x8100;

/// The header without a tag.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ethernet {
    destination: MacAddress,
    source: MacAddress,
    ether_type: U16,
}

/// The bytes after the EtherType of an 802.1Q tag (IEEE 802.1Q §9.6).
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Vlan {
    control: U16,
    ether_type: U16,
}

/// The type of `frame`'s payload, and the payload.
#[inline]
pub(super) fn parse(frame: &[u8]) -> Result<(u16, &[u8]), Reject> {
    let (header, rest) = Ethernet::ref_from_prefix(frame).map_err(|_| Reject::Truncated)?;
    match header.ether_type.get() {
        TYPE_VLAN => {
            let (tag, rest) = Vlan::ref_from_prefix(rest).map_err(|_| Reject::Truncated)?;
            Ok((tag.ether_type.get(), rest))
        }
        ether_type => Ok((ether_type, rest)),
    }
}

/// The header of a frame that carries `ether_type`.
#[inline]
pub(super) fn header(headers: &Headers, ether_type: u16) -> Ethernet {
    Ethernet {
        destination: headers.destination_mac,
        source: headers.source_mac,
        ether_type: U16::new(ether_type),
    }
}
