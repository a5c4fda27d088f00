// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hosts, and the addresses of their programs.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use ofi_xdp_libfabric::Name;

/// Number of hosts.
pub(crate) const HOSTS: u8 = 4;
/// The processes of this host use kernel sockets only.
pub(crate) const UDP_HOST: usize = 3;
/// UDP port of residents, and the first one of visitors. Half of these start at the address of the
/// visitor before, the others use [`VISITOR_PORTS`] in turn: an address is used again at once, or
/// after the residents have forgotten it.
pub(crate) const RESIDENT_PORT: u16 = 7100;
pub(crate) const VISITOR_PORT: u16 = 7200;
pub(crate) const VISITOR_PORTS: u16 = 16;
/// UDP port at which a door listens.
pub(crate) const DOOR_PORT: u16 = 7300;

/// The address of a host.
pub(crate) fn address(host: u8) -> Ipv4Addr {
    ofi_xdp_harness::cluster::address(host)
}

/// The libfabric name of a port of `host`.
pub(crate) fn name(host: u8, port: u16) -> Name {
    Name::from(SocketAddr::V4(SocketAddrV4::new(address(host), port)))
}
