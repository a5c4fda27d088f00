// SPDX-License-Identifier: MIT OR Apache-2.0
//! Announcement of a changed link-layer address to the neighbours of a port.
//!
//! In: the route table of a lost `AF_XDP` half, then the interface's present address. Out: an empty
//! datagram to each host that the port has sent to. The kernel forgets its neighbours when the
//! address changes (`neigh_changeaddr`, net/core/neighbour.c), so it has to resolve them for the
//! datagrams. Its requests carry the new address (RFC 826; RFC 4861 §7.2.3). Otherwise a neighbour
//! that only receives acknowledgments from this host would send to the former address for up to a
//! minute. Caller: the recovery thread (`hybrid/failover.rs`). Bound: one datagram for each peer of
//! the route table.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use rustix::net::{SendFlags, sendto};

use crate::headers::MacAddress;
use crate::host::route::table::Routes;

/// The link-layer address that the neighbours know, and a peer on each host.
#[derive(Debug)]
pub(super) struct Announcement {
    known: MacAddress,
    peers: Vec<SocketAddr>,
}

impl Announcement {
    /// The neighbours that `routes` has sent to. If memory is refused, or without `announces`,
    /// there are none.
    pub(super) fn new(routes: &Routes, announces: bool) -> Self {
        let hosts = if announces { routes.hosts().ok() } else { None };
        Self { known: routes.mac(), peers: hosts.unwrap_or_default() }
    }

    /// Makes the neighbours learn `mac`, if they do not know it.
    pub(super) fn announce(&mut self, mac: MacAddress, udp_socket: BorrowedFd<'_>) {
        if mac == self.known {
            return;
        }
        self.known = mac;
        for peer in &self.peers {
            if let Err(error) = sendto(udp_socket, &[], SendFlags::DONTWAIT, peer) {
                log::debug!("{peer}: it learns the new link-layer address later: {error}");
            }
        }
    }
}
