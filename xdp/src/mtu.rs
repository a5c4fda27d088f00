// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arithmetic between an MTU and the longest packet of the engine, and the MTU of a path.
//!
//! In: an MTU, or bytes of UDP payload, and the address family; or a connected socket. Out: the
//! other of the two; or the MTU. Callers: both halves of the port, the route table, `fi_getinfo`.
//! Bound: constant work, two calls of the kernel for a socket.

use std::net::{IpAddr, UdpSocket};

use crate::config::PAYLOAD_MAX;

/// Bytes of IPv4 and UDP headers.
const HEADERS_V4: usize = 28;
/// Bytes of IPv6 and UDP headers.
const HEADERS_V6: usize = 48;

/// Bytes of UDP payload that fit in an IP packet of `mtu` bytes, at most [`PAYLOAD_MAX`].
#[must_use]
pub fn payload_max(mtu: u32, ip: IpAddr) -> usize {
    (mtu as usize).saturating_sub(headers(ip)).min(PAYLOAD_MAX)
}

/// The MTU of the path of a connected socket in bytes, headers of IP included (`IP_MTU`, ip(7);
/// `IPV6_MTU`, ipv6(7)): that of the interface, of the route, or of a hop that has reported a
/// smaller one. `None` if the kernel does not tell.
#[must_use]
pub fn path_mtu(socket: &UdpSocket) -> Option<u32> {
    let mtu = if socket.local_addr().ok()?.is_ipv4() {
        rustix::net::sockopt::ip_mtu(socket)
    } else {
        rustix::net::sockopt::ipv6_mtu(socket)
    };
    mtu.ok()
}

/// The smallest MTU that leaves `payload` bytes.
pub(crate) fn mtu_for(payload: usize, ip: IpAddr) -> u32 {
    u32::try_from(payload + headers(ip)).unwrap_or(u32::MAX)
}

const fn headers(ip: IpAddr) -> usize {
    if ip.is_ipv4() { HEADERS_V4 } else { HEADERS_V6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_the_mtu() {
        let v4 = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(payload_max(1500, v4), 1472);
        assert_eq!(payload_max(1500, "::1".parse().unwrap()), 1452);
        assert_eq!(payload_max(9000, v4), 8972);
        assert_eq!(payload_max(65_536, v4), PAYLOAD_MAX);
        assert_eq!(payload_max(20, v4), 0);
        assert_eq!(mtu_for(1472, v4), 1500);
    }
}
