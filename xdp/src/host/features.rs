// SPDX-License-Identifier: MIT OR Apache-2.0
//! XDP features of a driver, and the GRO setting of an interface, by generic netlink.
//!
//! In: the index of an interface. Out: [`XdpFeatures`] from the family `netdev`
//! (Documentation/netlink/specs/netdev.yaml; Linux 6.3 and newer); [`joins_packets`] and
//! [`filters_by_rules`] from the family `ethtool` (Documentation/networking/ethtool-netlink.rst).
//! Callers: `interfaces.rs`, `port/open.rs`, `port/other_queue.rs`, off the data path. The kernel
//! answers in the calling thread, before the send returns; no privilege is needed. Bounds: two
//! requests, and [`ANSWER_BYTES`] for an answer. An answer that does not parse counts as unknown.

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

/// Maximum length of an answer: four times the names of all features of an interface.
const ANSWER_BYTES: usize = 32 * 1024;
/// Headers of netlink (`struct nlmsghdr`), generic netlink (`struct genlmsghdr`), attribute.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// Messages below this type are netlink's own (`NLMSG_MIN_TYPE`): errors.
const FIRST_TYPE: u16 = 0x10;
/// The control family, which maps names to numbers: its number, `CTRL_CMD_GETFAMILY`,
/// `CTRL_ATTR_FAMILY_ID`, `CTRL_ATTR_FAMILY_NAME`.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX`, `NETDEV_A_DEV_XDP_FEATURES`.
const DEVICE_GET: u8 = 1;
const INTERFACE_INDEX: u16 = 1;
const FEATURES: u16 = 3;
/// `ETHTOOL_MSG_FEATURES_GET`, `ETHTOOL_A_FEATURES_HEADER` with the flag of nested attributes
/// (`NLA_F_NESTED`), `ETHTOOL_A_HEADER_DEV_INDEX`, `ETHTOOL_A_FEATURES_ACTIVE`.
const FEATURES_GET: u8 = 11;
const FEATURES_HEADER: u16 = 1;
const NESTED: u16 = 1 << 15;
const HEADER_INDEX: u16 = 1;
const FEATURES_ACTIVE: u16 = 4;
/// The names of generic receive offload and of n-tuple filters (net/ethtool/common.c,
/// `netdev_features_strings`), as they end an attribute.
const GRO: &[u8] = b"rx-gro\0";
const N_TUPLE: &[u8] = b"rx-ntuple-filter\0";
/// `NETDEV_XDP_ACT_BASIC`, `NETDEV_XDP_ACT_XSK_ZEROCOPY`.
const BASIC: u64 = 1;
const ZEROCOPY: u64 = 1 << 3;

/// Features that a driver announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XdpFeatures {
    /// The driver runs XDP programs itself: native mode.
    pub native: bool,
    /// Devices may read and write a UMEM. The driver may still refuse it for some device.
    pub zerocopy: bool,
}

impl XdpFeatures {
    fn from_bits(bits: u64) -> Self {
        Self { native: bits & BASIC != 0, zerocopy: bits & ZEROCOPY != 0 }
    }
}

/// A socket of one generic netlink family.
pub(crate) struct GenericNetlink {
    socket: Socket,
    family: u16,
    sequence: u32,
}

impl GenericNetlink {
    /// A socket in the calling thread's network namespace; `None` if the kernel does not have the
    /// family.
    pub(crate) fn open() -> Option<Self> {
        Self::of_family(b"netdev\0")
    }

    fn of_family(name: &[u8]) -> Option<Self> {
        let mut netdev = Self { socket: connect().ok()?, family: CONTROL, sequence: 0 };
        let answer = netdev.ask(GET_FAMILY, FAMILY_NAME, name)?;
        let id = attribute(&answer, FAMILY_ID)?;
        netdev.family = u16::from_ne_bytes(id.try_into().ok()?);
        Some(netdev)
    }

    /// Features of the driver of interface `index`; `None` if unknown.
    pub(crate) fn features(&mut self, index: u32) -> Option<XdpFeatures> {
        let answer = self.ask(DEVICE_GET, INTERFACE_INDEX, &index.to_ne_bytes())?;
        let bits = attribute(&answer, FEATURES)?;
        Some(XdpFeatures::from_bits(u64::from_ne_bytes(bits.try_into().ok()?)))
    }

    /// The attributes of the answer to a command with one attribute.
    fn ask(&mut self, command: u8, kind: u16, value: &[u8]) -> Option<Vec<u8>> {
        self.sequence += 1;
        let request = request(self.family, self.sequence, command, kind, value)?;
        self.socket.send(&request, 0).ok()?;
        let mut answer = Vec::with_capacity(ANSWER_BYTES);
        self.socket.recv(&mut answer, 0).ok()?;
        let kind = u16::from_ne_bytes(answer.get(4..6)?.try_into().ok()?);
        let attributes = answer.get(HEADER + GENERIC_HEADER..)?;
        (kind >= FIRST_TYPE).then(|| attributes.to_vec())
    }
}

/// Whether the kernel joins packets of interface `index` on arrival (GRO); `true` if that is
/// unknown.
pub(crate) fn joins_packets(index: u32) -> bool {
    is_active(index, GRO).unwrap_or(true)
}

/// Whether interface `index` has n-tuple filters on; `false` if that is unknown.
pub(crate) fn filters_by_rules(index: u32) -> bool {
    is_active(index, N_TUPLE).unwrap_or(false)
}

/// Whether interface `index` has the feature with this name on; `None` if that is unknown.
fn is_active(index: u32, feature: &[u8]) -> Option<bool> {
    let mut netdev = GenericNetlink::of_family(b"ethtool\0")?;
    let mut header = Vec::with_capacity(8);
    header.extend(8_u16.to_ne_bytes());
    header.extend(HEADER_INDEX.to_ne_bytes());
    header.extend(index.to_ne_bytes());
    let answer = netdev.ask(FEATURES_GET, FEATURES_HEADER | NESTED, &header)?;
    // The answer lists the active features by name.
    let active = attribute(&answer, FEATURES_ACTIVE)?;
    Some(active.windows(feature.len()).any(|name| name == feature))
}

fn connect() -> io::Result<Socket> {
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    Ok(socket)
}

/// A message with one attribute.
fn request(family: u16, sequence: u32, command: u8, kind: u16, value: &[u8]) -> Option<Vec<u8>> {
    let attribute = u16::try_from(ATTRIBUTE_HEADER + value.len()).ok()?;
    let padded = usize::from(attribute).next_multiple_of(4);
    let length = u32::try_from(HEADER + GENERIC_HEADER + padded).ok()?;
    let mut bytes = Vec::with_capacity(length as usize);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    // The port of the kernel. Its sender port is the one that the kernel assigned.
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length as usize, 0);
    Some(bytes)
}

/// The value of the first attribute of kind `wanted`.
fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    // bound: each round takes four bytes at least.
    loop {
        let length = usize::from(u16::from_ne_bytes(attributes.get(0..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(attributes.get(2..4)?.try_into().ok()?);
        let value = attributes.get(ATTRIBUTE_HEADER..length)?;
        if kind & !NESTED == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_layout_of_the_kernel() {
        let bytes = request(0x10, 7, GET_FAMILY, FAMILY_NAME, b"netdev\0").unwrap();
        assert_eq!(bytes.len(), 32, "padded to four bytes");
        assert_eq!(bytes[..4], 32_u32.to_ne_bytes());
        assert_eq!(bytes[20..22], 11_u16.to_ne_bytes(), "the length is without the padding");
        assert_eq!(&bytes[24..30], b"netdev");
    }

    #[test]
    fn attributes_are_found_and_half_ones_are_not() {
        let mut bytes = Vec::new();
        for (length, kind, value) in [(5_u16, 1_u16, [9, 0, 0, 0]), (8, 3, [1, 2, 3, 4])] {
            bytes.extend(length.to_ne_bytes());
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
        }
        assert_eq!(attribute(&bytes, 1), Some(&[9][..]));
        assert_eq!(attribute(&bytes, 3), Some(&[1, 2, 3, 4][..]));
        assert_eq!(attribute(&bytes, 2), None);
        assert_eq!(attribute(&bytes[..15], 3), None);
        assert_eq!(attribute(&[0; 8], 1), None, "a length of nothing ends the search");
    }

    #[test]
    fn an_unknown_setting_counts_as_joins_and_no_filters() {
        let none = u32::MAX;
        assert!(joins_packets(none) && !filters_by_rules(none), "there is no such interface");
    }

    #[test]
    fn the_loopback_interface_has_no_zero_copy() {
        let Some(mut netdev) = GenericNetlink::open() else {
            println!("SKIPPED: this kernel has no netdev family");
            return;
        };
        let features = netdev.features(1).unwrap();
        assert!(!features.zerocopy, "{features:?}");
        assert_eq!(netdev.features(u32::MAX), None);
    }
}
