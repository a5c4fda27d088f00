// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that only send, each from a source port that a receiver wants (`docs/PROTOCOL.md` §13).
//!
//! The kernel sends a packet from the port that its socket is bound to. In: advice about a peer.
//! Out: the socket for its packets; none while the endpoint's own port is right. What arrives at
//! these ports is not for the endpoint: peers answer to its own port. Caller: the UDP port. Bounds:
//! [`SENDERS_MAX`] sockets, which peers share by their slots; changes as
//! [`SourcePort`] allows.

use std::net::SocketAddr;

use ofi_xdp_core::{Destination, Instant, PathAdvice, PeerId, SourcePort};

use super::socket::KernelSocket;

/// Maximum number of sockets.
const SENDERS_MAX: usize = 64;

/// The source port of some peers, and its socket.
#[derive(Debug)]
struct SendOnly {
    source: SourcePort,
    /// `None`: the endpoint's own port.
    socket: Option<KernelSocket>,
}

/// The source ports of all peers.
#[derive(Debug)]
pub(super) struct Senders {
    local: SocketAddr,
    senders: Box<[SendOnly]>,
}

impl Senders {
    /// All peers have the port of `local`.
    pub(super) fn new(local: SocketAddr) -> Self {
        let own = || SendOnly { source: SourcePort::new(local.port()), socket: None };
        Self { local, senders: (0..SENDERS_MAX).map(|_| own()).collect() }
    }

    /// The socket for packets to `peer`; `None`: the endpoint's own. A packet outside of
    /// connections always has that: its receiver answers to the port that it comes from.
    #[inline]
    pub(super) fn socket(&self, peer: PeerId) -> Option<&KernelSocket> {
        if peer.is_none() {
            return None;
        }
        self.senders.get(entry(peer))?.socket.as_ref()
    }

    /// Follows advice about the source port of packets to a peer. Returns whether it has changed. A
    /// port that cannot be had counts as one that was tried.
    pub(super) fn advise(
        &mut self,
        main: &KernelSocket,
        now: Instant,
        (to, advice): (Destination, PathAdvice),
    ) -> bool {
        let (own, salt) = (self.local.port(), u32::from(self.local.port()) << 16 | to.peer.slot());
        let Some(sender) = self.senders.get_mut(entry(to.peer)) else { return false };
        let before = sender.source.port();
        if !sender.source.advise(now, own, salt, advice) {
            return false;
        }
        sender.socket = None;
        let port = sender.source.port();
        if port == own {
            return true;
        }
        let mut address = self.local;
        address.set_port(port);
        match main.sender(address) {
            Ok(socket) => sender.socket = Some(socket),
            Err(error) => {
                log::debug!("{}: no socket to send from port {port}: {error}", self.local);
                sender.source.refuse(own);
            }
        }
        sender.source.port() != before
    }
}

/// The entry of a peer.
const fn entry(peer: PeerId) -> usize {
    peer.slot() as usize % SENDERS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::WantedPort;
    use std::net::UdpSocket;

    /// An endpoint's socket and source ports.
    fn senders() -> (KernelSocket, Senders, u16) {
        let main = KernelSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let local = main.socket.local_addr().unwrap();
        (main, Senders::new(local), local.port())
    }

    fn to(slot: u32) -> Destination {
        let address = SocketAddr::from(([127, 0, 0, 1], 9)).into();
        Destination { peer: PeerId::new(slot, 0), address }
    }

    fn port_of(senders: &Senders, slot: u32) -> Option<u16> {
        let socket = senders.socket(PeerId::new(slot, 0))?;
        Some(socket.socket.local_addr().unwrap().port())
    }

    /// A port that is free.
    fn free() -> u16 {
        UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn the_wanted_port_has_a_socket_and_time_outs_close_it() {
        let (main, mut senders, own) = senders();
        let wanted = free();
        let advice = |source, wanted| PathAdvice::Wanted { source, wanted };
        let named = WantedPort::named(wanted).unwrap();
        assert!(senders.advise(&main, Instant::ZERO, (to(3), advice(own, named))));
        assert_eq!((port_of(&senders, 3), port_of(&senders, 4)), (Some(wanted), None));
        assert_eq!(port_of(&senders, 3 + SENDERS_MAX as u32), Some(wanted), "a shared entry");
        assert!(senders.advise(
            &main,
            Instant::ZERO,
            (to(3), advice(wanted, WantedPort::other(4)))
        ));
        assert_ne!(port_of(&senders, 3), Some(wanted));
        assert!(senders.advise(&main, Instant::ZERO, (to(3), PathAdvice::TimedOut)));
        assert_eq!(port_of(&senders, 3), None);
    }

    #[test]
    fn packets_outside_of_connections_have_the_own_port() {
        let (main, mut senders, own) = senders();
        let sharing = PeerId::NONE.slot() % SENDERS_MAX as u32;
        let named = WantedPort::named(free()).unwrap();
        let advice = PathAdvice::Wanted { source: own, wanted: named };
        assert!(senders.advise(&main, Instant::ZERO, (to(sharing), advice)));
        assert!(port_of(&senders, sharing).is_some());
        assert!(senders.socket(PeerId::NONE).is_none());
    }

    #[test]
    fn a_port_in_use_leaves_the_own_one_and_counts() {
        let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
        let named = WantedPort::named(taken.local_addr().unwrap().port()).unwrap();
        let (main, mut senders, own) = senders();
        let advice = PathAdvice::Wanted { source: own, wanted: named };
        for _ in 0..=named.tries_max() {
            assert!(!senders.advise(&main, Instant::ZERO, (to(0), advice)));
            assert_eq!(port_of(&senders, 0), None);
        }
        let named = WantedPort::named(free()).unwrap();
        let another = PathAdvice::Wanted { source: own, wanted: named };
        assert!(!senders.advise(&main, Instant::ZERO, (to(0), another)), "the pause has begun");
    }
}
