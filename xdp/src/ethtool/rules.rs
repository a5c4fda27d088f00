// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about rules and about the fields that a card hashes, as bytes: `struct ethtool_rxnfc`
//! of linux/ethtool.h.
//!
//! In: typed values. Out: bytes for `ioctl.rs`. Callers: `steering`, `host/card_hash.rs`,
//! `ioctl.rs`. A test compiles the kernel's header and compares the layout. Bound: [`RULES_MAX`].

use std::net::{IpAddr, SocketAddr};

use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout};

/// Maximum number of rules of a device. Odd, so that a request has no padding.
pub(crate) const RULES_MAX: usize = 4097;
/// Bit in the answer to [`Command::Count`]: the driver chooses locations (`RX_CLS_LOC_SPECIAL`).
pub(crate) const SPECIAL_LOCATIONS: u64 = 0x8000_0000;
/// The other bits of that answer, and of the answer to [`Command::All`]: the size of the table.
pub(crate) const TABLE_SIZE: u64 = 0x7fff_ffff;
/// `RX_CLS_LOC_ANY`.
pub(crate) const ANY_LOCATION: u32 = 0xffff_ffff;

/// `ETHTOOL_GRXFH`; `ETHTOOL_GRXRINGS`; `ETHTOOL_GRXCLSRLCNT` and the four commands after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    HashFields = 0x29,
    /// The number of receive queues, in the answer's `data`.
    Queues = 0x2d,
    Count = 0x2e,
    Get = 0x2f,
    All = 0x30,
    Delete = 0x31,
    Insert = 0x32,
}

/// `UDP_V4_FLOW`, `UDP_V6_FLOW`.
const UDP_V4: u32 = 2;
const UDP_V6: u32 = 6;
/// In the answer to [`Command::HashFields`]: both addresses (`RXH_IP_SRC`, `RXH_IP_DST`).
pub(crate) const HASH_ADDRESSES: u64 = 0x30;
/// In the answer to [`Command::HashFields`]: both ports (`RXH_L4_B_0_1`, `RXH_L4_B_2_3`).
pub(crate) const HASH_PORTS: u64 = 0xc0;
/// Offsets of destination address and port in `struct ethtool_tcpip4_spec` and
/// `ethtool_tcpip6_spec`.
const V4_ADDRESS: usize = 4;
const V4_PORT: usize = 10;
const V6_ADDRESS: usize = 16;
const V6_PORT: usize = 34;

/// `struct ethtool_rx_flow_spec`: match, queue and location of a rule.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct FlowSpec {
    flow_type: u32,
    /// Values to match, in network byte order.
    values: [u8; 52],
    more_values: [u8; 20],
    /// The bits of the values that must match.
    mask: [u8; 52],
    more_mask: [u8; 20],
    _padding: u32,
    queue: u64,
    location: u32,
    _end: u32,
}

impl FlowSpec {
    /// A rule for UDP packets to `local`, with `queue` as their queue.
    pub(crate) fn new(local: SocketAddr, queue: u32) -> Self {
        let mut rule = Self::new_zeroed();
        rule.queue = queue.into();
        let port = local.port().to_be_bytes();
        match local.ip().to_canonical() {
            IpAddr::V4(ip) => {
                rule.flow_type = UDP_V4;
                rule.matches(V4_ADDRESS, &ip.octets());
                rule.matches(V4_PORT, &port);
            }
            IpAddr::V6(ip) => {
                rule.flow_type = UDP_V6;
                rule.matches(V6_ADDRESS, &ip.octets());
                rule.matches(V6_PORT, &port);
            }
        }
        rule
    }

    fn matches(&mut self, at: usize, bytes: &[u8]) {
        let locations = self.values.iter_mut().zip(&mut self.mask).skip(at);
        for ((value, mask), byte) in locations.zip(bytes) {
            (*value, *mask) = (*byte, 0xff);
        }
    }

    pub(crate) const fn set_location(&mut self, location: u32) {
        self.location = location;
    }

    pub(crate) const fn location(&self) -> u32 {
        self.location
    }

    pub(crate) const fn queue(&self) -> u64 {
        self.queue
    }

    /// Whether both rules match the same packets and name the same queue.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        // Drivers answer with their stored form, which lacks bits of the mask.
        let of = |rule: &Self| (rule.flow_type, rule.values, rule.queue);
        of(self) == of(other)
    }
}

/// `struct ethtool_rxnfc`, with room for the locations of rules.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RuleRequest {
    command: u32,
    flow_type: u32,
    pub(crate) data: u64,
    pub(crate) rule: FlowSpec,
    count: u32,
    locations: [u32; RULES_MAX],
}

impl RuleRequest {
    /// A request without a rule.
    pub(crate) fn new(command: Command) -> Self {
        let mut request = Self::new_zeroed();
        request.command = command as u32;
        request
    }

    /// A request for the fields of UDP packets that the card hashes; the answer is in `data`.
    pub(crate) fn hash_fields(ipv4: bool) -> Self {
        let flow_type = if ipv4 { UDP_V4 } else { UDP_V6 };
        Self { flow_type, ..Self::new(Command::HashFields) }
    }

    /// A request about `rule`, or about the rule in its location.
    pub(crate) fn about_rule(command: Command, rule: FlowSpec) -> Self {
        Self { rule, ..Self::new(command) }
    }

    /// Number of rules; in [`Command::All`], the number that there is room for.
    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) const fn set_count(&mut self, count: u32) {
        self.count = count;
    }

    #[cfg(test)]
    pub(crate) fn set_locations(&mut self, locations: impl Iterator<Item = u32>) {
        for (to, from) in self.locations.iter_mut().zip(locations) {
            *to = from;
        }
    }

    /// The locations of the rules.
    pub(crate) fn locations(&self) -> &[u32] {
        self.locations.get(..self.count as usize).unwrap_or(&self.locations)
    }
}
