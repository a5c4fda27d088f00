// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keys and values of the program's maps: the Rust side of `bpf/wire.h`.
//!
//! In: addresses, slots. Out: values with the layout of the C structures; `bpf/tests/layout.rs`
//! compares the two. Callers: `maps.rs`, `claim.rs`. Bound: [`SLOTS`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Maximum number of AF_XDP sockets that share one interface (`SOCKETS_MAX` of `wire.h`).
pub const SLOTS: u32 = 64;

/// Further sockets of an endpoint are on queues below this number (`QUEUES_MAX` of `wire.h`).
pub const QUEUES: u32 = 64;

macro_rules! verdicts {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// The program's decision about a frame: `enum verdict` of `wire.h`, in its order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u32)]
        pub enum Verdict {
            $($(#[$doc])* $name,)*
        }

        impl Verdict {
            /// All verdicts, in the order of `wire.h`.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name in `wire.h`, in lower case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

verdicts! {
    /// Went to an AF_XDP socket.
    Redirected = "redirected",
    /// Neither IPv4 nor IPv6 (ARP, two VLAN tags …).
    PassNotIp = "pass_not_ip",
    /// IPv4 with options, or IPv6 with extension headers.
    PassOptions = "pass_options",
    /// A fragment.
    PassFragment = "pass_fragment",
    /// Not UDP.
    PassNotUdp = "pass_not_udp",
    /// Ends inside a header, or is shorter than any packet of ours.
    PassTruncated = "pass_truncated",
    /// The UDP port is not claimed.
    PassPort = "pass_port",
    /// The UDP port is claimed for another address.
    PassAddress = "pass_address",
    /// Longer than the socket takes: several packets in one piece.
    PassOversize = "pass_oversize",
    /// Another version of the packet format, or not our format.
    PassVersion = "pass_version",
    /// Arrived on another queue than the socket's.
    PassQueue = "pass_queue",
    /// The port's socket is gone.
    PassNoSocket = "pass_no_socket",
    /// A VLAN tag with an id.
    PassVlan = "pass_vlan",
    /// Addressed to a group, or to another interface.
    PassLink = "pass_link",
    /// From an address that no other host may use as a source.
    PassSource = "pass_source",
    /// The UDP checksum, which the kernel verifies, protects its payload.
    PassChecksum = "pass_checksum",
}

/// Number of frames with each [`Verdict`] since the program was loaded, over all CPUs.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct Counters([u64; Verdict::ALL.len()]);

impl Counters {
    /// Number of frames with `verdict`.
    #[must_use]
    pub const fn count(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }

    /// The counts in the order of [`Verdict::ALL`].
    pub(crate) const fn as_mut_slice(&mut self) -> &mut [u64] {
        &mut self.0
    }

    /// The counts as bytes, for another process of this machine: 64-bit numbers in its byte order.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        IntoBytes::as_bytes(self)
    }

    /// The counts as writable bytes, in the form of [`Self::as_bytes`].
    #[must_use]
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        IntoBytes::as_mut_bytes(self)
    }
}

/// The address of an endpoint, and the properties that it has on the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointAddress {
    /// IP address and UDP port.
    pub address: SocketAddr,
    /// The directed broadcast address of the IPv4 network, if it has one.
    pub broadcast: Option<Ipv4Addr>,
    /// The link-layer address of the interface.
    pub mac: [u8; 6],
    /// Whether its packets are datagrams of an application: any bytes, also none. Otherwise they
    /// have the header of the engine.
    pub any_payload: bool,
}

/// One entry of map `ports`: `struct port_entry` of `wire.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct PortEntry {
    pub(crate) queue: u32,
    pub(crate) slot: u32,
    pub(crate) longest: u32,
    pub(crate) broadcast: [u8; 4],
    pub(crate) address: [u8; 16],
    pub(crate) mac: [u8; 6],
    pub(crate) any_payload: u16,
    further: [u8; QUEUES as usize],
}

impl PortEntry {
    /// The entry of `endpoint`. Its socket takes IP packets of at most `longest` bytes.
    pub(crate) fn new(queue: u32, slot: u32, endpoint: EndpointAddress, longest: u32) -> Self {
        let EndpointAddress { address, broadcast, mac, any_payload } = endpoint;
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let broadcast = broadcast.unwrap_or(Ipv4Addr::UNSPECIFIED).octets();
        let (address, any_payload) = (ip.octets(), any_payload.into());
        let further = [0; QUEUES as usize];
        Self { queue, slot, longest, broadcast, address, mac, any_payload, further }
    }

    /// The entry with a further socket in `slot` on `queue`; `None` for a queue beyond [`QUEUES`].
    pub(crate) fn with(mut self, queue: u32, slot: u32) -> Option<Self> {
        *self.further.get_mut(queue as usize)? = u8::try_from(slot + 1).ok()?;
        Some(self)
    }

    /// Whether a socket of the endpoint is in `slot`.
    pub(crate) fn has(&self, slot: u32) -> bool {
        self.slot == slot || self.further.iter().any(|&further| u32::from(further) == slot + 1)
    }

    /// The endpoint's IP address.
    pub(crate) fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_its_address() {
        for address in ["198.18.0.1:7", "[fd00::1]:7"] {
            let address: SocketAddr = address.parse().unwrap();
            let endpoint =
                EndpointAddress { address, broadcast: None, mac: [0; 6], any_payload: false };
            assert_eq!(PortEntry::new(0, 1, endpoint, 1500).ip(), address.ip());
        }
    }

    #[test]
    fn verdicts_count_from_zero() {
        for (index, verdict) in Verdict::ALL.iter().enumerate() {
            assert_eq!(*verdict as usize, index);
        }
    }
}
