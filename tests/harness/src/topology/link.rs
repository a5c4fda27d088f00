// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link between two hosts: its interface, and the address of each host on it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One of the two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The host of servers, by convention.
    A,
    /// The host of clients, by convention.
    B,
}

/// A veth pair: the same interface name on both hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The interface's name.
    pub interface: String,
    pub(super) number: u8,
}

impl Link {
    /// The IPv4 address of a host on this link.
    #[must_use]
    pub fn v4(&self, side: Side) -> IpAddr {
        self.v4_of(host_number(side))
    }

    /// The IPv4 address of the host with this number.
    pub(super) fn v4_of(&self, host: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(198, 18, self.number, host))
    }

    /// The IPv6 address of a host on this link.
    #[must_use]
    pub fn v6(&self, side: Side) -> IpAddr {
        self.v6_of(host_number(side))
    }

    /// The IPv6 address of the host with this number.
    pub(super) fn v6_of(&self, host: u8) -> IpAddr {
        IpAddr::V6(Ipv6Addr::new(0xfd00, 0x198, 0x18, self.number.into(), 0, 0, 0, host.into()))
    }
}

fn host_number(side: Side) -> u8 {
    match side {
        Side::A => 1,
        Side::B => 2,
    }
}
