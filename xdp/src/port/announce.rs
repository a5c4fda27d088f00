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
    /// Number of the first peers that no datagram has left to since the address changed.
    missing: usize,
}

impl Announcement {
    /// The neighbours that `routes` has sent to. If memory is refused, or without `announces`,
    /// there are none.
    pub(super) fn new(routes: &Routes, announces: bool) -> Self {
        let hosts = if announces { routes.hosts().ok() } else { None };
        Self { known: routes.mac(), peers: hosts.unwrap_or_default(), missing: 0 }
    }

    /// Whether a datagram could not leave.
    pub(super) const fn is_missing(&self) -> bool {
        self.missing > 0
    }

    /// Makes the neighbours learn `mac`, the address of an interface that is up and has a carrier,
    /// if they do not know it. The next call repeats what cannot leave now.
    pub(super) fn announce(&mut self, mac: MacAddress, udp_socket: BorrowedFd<'_>) {
        if mac != self.known {
            self.known = mac;
            self.missing = self.peers.len();
        }
        let mut failed = 0;
        for at in 0..self.missing {
            let Some(peer) = self.peers.get(at) else { break };
            if let Err(error) = sendto(udp_socket, &[], SendFlags::DONTWAIT, peer) {
                log::debug!("{peer}: it learns the new link-layer address later: {error}");
                self.peers.swap(failed, at);
                failed += 1;
            }
        }
        self.missing = failed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;
    use std::time::Duration;

    /// The kernel has no route to the second peer: `EINVAL`, as from a loopback address.
    #[test]
    fn a_peer_that_no_datagram_could_leave_to_is_notified_at_the_next_attempt() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (ours, [first, second]) = (socket(), [socket(), socket()]);
        let unreachable: SocketAddr = "198.18.0.9:9".parse().unwrap();
        let peers = vec![first.local_addr().unwrap(), unreachable];
        let known = MacAddress([2, 0, 0, 0, 0, 1]);
        let mut announcement = Announcement { known, peers, missing: 0 };
        let count = |peer: &UdpSocket| {
            peer.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            std::iter::from_fn(|| peer.recv(&mut []).ok()).count()
        };
        announcement.announce(known, ours.as_fd());
        assert_eq!(count(&first), 0, "it knows the address");
        let changed = MacAddress([2, 0, 0, 0, 0, 2]);
        for expected in [1, 0] {
            announcement.announce(changed, ours.as_fd());
            assert_eq!((count(&first), announcement.missing), (expected, 1));
        }
        announcement.peers[0] = second.local_addr().unwrap();
        for expected in [1, 0] {
            announcement.announce(changed, ours.as_fd());
            assert_eq!((count(&first), count(&second)), (0, expected));
        }
    }
}
