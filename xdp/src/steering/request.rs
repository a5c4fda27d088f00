// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of steering as bytes: `struct ethtool_rxnfc` of linux/ethtool.h.
//!
//! In: typed values. Out: bytes for `ioctl.rs`. Callers: [`super`], `ioctl.rs`. A test compiles the
//! kernel's header and compares the layout. Bound: [`RULES_MAX`].

use std::io;
use std::net::{IpAddr, SocketAddr};

use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout};

/// Maximum number of rules of a device. Odd, so that a request has no padding.
pub(super) const RULES_MAX: usize = 4097;
/// Bit in the answer to [`Command::Count`]: the driver chooses locations (`RX_CLS_LOC_SPECIAL`).
pub(super) const SPECIAL_LOCATIONS: u64 = 0x8000_0000;
/// The other bits of that answer, and of the answer to [`Command::All`]: the size of the table.
pub(super) const TABLE_SIZE: u64 = 0x7fff_ffff;
/// `RX_CLS_LOC_ANY`.
pub(super) const ANY_LOCATION: u32 = 0xffff_ffff;

/// `ETHTOOL_GRXCLSRLCNT` and the four commands after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Count = 0x2e,
    Get = 0x2f,
    All = 0x30,
    Delete = 0x31,
    Insert = 0x32,
}

/// `UDP_V4_FLOW`, `UDP_V6_FLOW`.
const UDP_V4: u32 = 2;
const UDP_V6: u32 = 6;
/// Offsets of destination address and port in `struct ethtool_tcpip4_spec` and
/// `ethtool_tcpip6_spec`.
const V4_ADDRESS: usize = 4;
const V4_PORT: usize = 10;
const V6_ADDRESS: usize = 16;
const V6_PORT: usize = 34;

/// `struct ethtool_rx_flow_spec`: match, queue and location of a rule.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct FlowSpec {
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
    pub(super) fn new(local: SocketAddr, queue: u32) -> Self {
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

    pub(super) const fn set_location(&mut self, location: u32) {
        self.location = location;
    }

    pub(super) const fn location(&self) -> u32 {
        self.location
    }

    pub(super) const fn queue(&self) -> u64 {
        self.queue
    }

    /// Whether both rules match the same packets and name the same queue.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        // Drivers answer with their stored form, which lacks bits of the mask.
        let of = |rule: &Self| (rule.flow_type, rule.values, rule.queue);
        of(self) == of(other)
    }
}

/// `struct ethtool_rxnfc`, with room for the locations of rules.
#[derive(Clone, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RuleRequest {
    command: u32,
    flow_type: u32,
    pub(super) data: u64,
    pub(super) rule: FlowSpec,
    count: u32,
    locations: [u32; RULES_MAX],
}

impl RuleRequest {
    /// A request without a rule.
    pub(super) fn new(command: Command) -> Self {
        let mut request = Self::new_zeroed();
        request.command = command as u32;
        request
    }

    /// A request about `rule`, or about the rule in its location.
    pub(super) fn about_rule(command: Command, rule: FlowSpec) -> Self {
        Self { rule, ..Self::new(command) }
    }

    /// Number of rules; in [`Command::All`], the number that there is room for.
    pub(super) const fn count(&self) -> u32 {
        self.count
    }

    pub(super) const fn set_count(&mut self, count: u32) {
        self.count = count;
    }

    #[cfg(test)]
    pub(super) fn set_locations(&mut self, locations: impl Iterator<Item = u32>) {
        for (to, from) in self.locations.iter_mut().zip(locations) {
            *to = from;
        }
    }

    /// The locations of the rules.
    pub(super) fn locations(&self) -> &[u32] {
        self.locations.get(..self.count as usize).unwrap_or(&self.locations)
    }
}

/// A table of rules that takes requests: a network device, or the stand-in of a test.
pub(super) trait Device {
    /// Executes `request`, and writes the answer into it.
    fn call(&self, request: &mut RuleRequest) -> io::Result<()>;
}
