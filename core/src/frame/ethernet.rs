// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ethernet II (IEEE 802.3 §3.2.6) with at most one 802.1Q tag.
//!
//! A frame comes in, its type and what follows the header go out; frames go out without a tag: a
//! VLAN is a device of its own on Linux, and adds its tag itself.

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Headers, Reject};

/// EtherType of IPv4.
pub(super) const TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub(super) const TYPE_IPV6: u16 = 0x86dd;
/// EtherType of an 802.1Q tag.
const TYPE_VLAN: u16 = 0x8100;

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

/// The header without a tag.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Ethernet {
    destination: MacAddress,
    source: MacAddress,
    ether_type: U16,
}

/// What follows the EtherType of an 802.1Q tag (IEEE 802.1Q §9.6).
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
