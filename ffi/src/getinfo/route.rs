// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's route to a destination, for `fi_getinfo`.
//!
//! In: the address of a peer. Out: the address from which the kernel would send there, and the MTU
//! of the path as far as the kernel knows it. Caller: `fi_getinfo`, and requests for connections.
//! Bound: one socket for the time of the call; nothing is sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use ofi_xdp_datapath::path_mtu;

/// The route to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RouteTowards {
    /// The address from which the kernel would send.
    pub(crate) source: IpAddr,
    /// The path MTU in bytes, if the kernel knows it: see [`path_mtu`].
    pub(crate) mtu: Option<u32>,
}

impl RouteTowards {
    /// The route to `destination`; `None` if the kernel has none.
    pub(crate) fn find(destination: SocketAddr) -> Option<Self> {
        let any: IpAddr = match destination {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        // Connecting a datagram socket looks up the route and sends nothing. Port 0 cannot be used.
        let port = if destination.port() == 0 { 9 } else { destination.port() };
        socket.connect((destination.ip(), port)).ok()?;
        let source = socket.local_addr().ok()?.ip();
        Some(Self { source, mtu: path_mtu(&socket) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_this_machine_is_loopback() {
        for (destination, source) in [
            ("127.0.0.1:9", IpAddr::V4(Ipv4Addr::LOCALHOST)),
            ("127.0.0.1:0", IpAddr::V4(Ipv4Addr::LOCALHOST)),
            ("[::1]:9", IpAddr::V6(Ipv6Addr::LOCALHOST)),
        ] {
            let route = RouteTowards::find(destination.parse().unwrap()).unwrap();
            assert_eq!(route.source, source);
            assert!(route.mtu.is_some_and(|mtu| mtu >= 1280), "{route:?}");
        }
    }
}
