// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses of peers: IP address and UDP port, in one form for both IP versions.

use crate::collections::index::IndexKey;
use crate::collections::secret::sip_hash;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IP address (IPv4 in its IPv4-mapped form, RFC 4291 §2.5.5.2) and a UDP port.
///
/// Two socket addresses that reach the same socket compare equal: flow label, scope and padding are
/// left out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress {
    ip: Ipv6Addr,
    port: u16,
}

impl PeerAddress {
    /// The unspecified address with port 0: no peer.
    pub const NONE: Self = Self { ip: Ipv6Addr::UNSPECIFIED, port: 0 };

    /// `ip` and UDP `port`.
    #[must_use]
    pub const fn new(ip: IpAddr, port: u16) -> Self {
        let ip = match ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Self { ip, port }
    }

    /// From an IPv4 address in wire order.
    #[must_use]
    pub const fn from_v4(octets: [u8; 4], port: u16) -> Self {
        let [a, b, c, d] = octets;
        Self { ip: Ipv4Addr::new(a, b, c, d).to_ipv6_mapped(), port }
    }

    /// From an IPv6 address in wire order.
    #[must_use]
    pub const fn from_v6(octets: [u8; 16], port: u16) -> Self {
        Self { ip: Ipv6Addr::from_octets(octets), port }
    }

    /// The IP address; an IPv4-mapped one as IPv4.
    #[must_use]
    pub const fn ip(&self) -> IpAddr {
        match self.ip.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(self.ip),
        }
    }

    /// The 16 bytes of the (IPv4-mapped) IPv6 address, in wire order.
    #[must_use]
    pub const fn octets(&self) -> [u8; 16] {
        self.ip.octets()
    }

    /// Address and port as words: different addresses have different words.
    pub(crate) fn words(&self) -> [u64; 3] {
        let [high, low]: [u64; 2] = zerocopy::transmute!(self.octets());
        [u64::from_le(high), u64::from_le(low), u64::from(self.port)]
    }

    /// Whether both are of one host: the IP address is the same.
    #[must_use]
    #[inline(always)]
    pub fn is_same_host(&self, other: &Self) -> bool {
        self.ip == other.ip
    }

    /// This host with another UDP port.
    #[must_use]
    #[inline(always)]
    pub const fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The UDP port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address as a socket address.
    #[must_use]
    pub const fn socket_addr(&self) -> SocketAddr {
        SocketAddr::new(self.ip(), self.port)
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip(), address.port())
    }
}

impl core::fmt::Debug for PeerAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}

impl core::fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.socket_addr().fmt(f)
    }
}

impl IndexKey for PeerAddress {
    fn hash(&self, secret: [u64; 2]) -> u64 {
        sip_hash(secret, &self.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddrV6;

    #[test]
    fn mapped_and_plain_ipv4_are_one_address() {
        let plain = PeerAddress::from_v4([198, 18, 0, 1], 7);
        let mapped = PeerAddress::from(SocketAddr::V6(SocketAddrV6::new(
            Ipv4Addr::new(198, 18, 0, 1).to_ipv6_mapped(),
            7,
            99,
            3,
        )));
        assert_eq!(plain, mapped);
        assert_eq!(plain.ip(), IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)));
    }

    #[test]
    fn ipv6_stays_ipv6() {
        let v6 = PeerAddress::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 1);
        assert_eq!(v6.ip(), IpAddr::V6(Ipv6Addr::LOCALHOST));
    }
}
