// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sockets that only send, each from a source port that a receiver wants (`docs/PROTOCOL.md` §13).
//!
//! The kernel sends a packet from the port that its socket is bound to. In: advice about a peer.
//! Out: the socket for its packets; none while the endpoint's own port is right. What arrives at
//! these ports is not for the endpoint: peers answer to its own port. Caller: the UDP port. Bounds:
//! [`SENDERS_MAX`] sockets, which peers share by their slots; changes as [`SourcePort`] allows. The
//! port is not told when a peer goes: a socket without packets for [`UNUSED_NANOS`] is closed when
//! another one opens.

use std::net::SocketAddr;

use ofi_xdp_core::{Destination, Instant, PathAdvice, PeerId, SourcePort};

use super::socket::KernelSocket;

/// Maximum number of sockets.
const SENDERS_MAX: usize = 64;

/// Time without packets after which a socket is closed (1 min), or up to twice of that.
const UNUSED_NANOS: u64 = 60_000_000_000;

/// The source port of some peers, and its socket.
#[derive(Debug)]
struct SendOnly {
    /// The peer that it was chosen for. Peers of other slots that have this entry share it.
    peer: PeerId,
    /// Whether a packet has left since the last search for unused sockets.
    used: bool,
    source: SourcePort,
    /// `None`: the endpoint's own port.
    socket: Option<KernelSocket>,
}

impl SendOnly {
    /// The endpoint's `own` port, for `peer`.
    const fn new(own: u16, peer: PeerId) -> Self {
        Self { peer, used: true, source: SourcePort::new(own), socket: None }
    }

    /// Whether the port was chosen for a peer that had the slot of `peer` before.
    fn is_of_former(&self, peer: PeerId) -> bool {
        self.peer.slot() == peer.slot() && self.peer != peer
    }
}

/// The source ports of all peers.
#[derive(Debug)]
pub(super) struct Senders {
    local: SocketAddr,
    /// Time of the next search for unused sockets.
    search_at: Instant,
    senders: Box<[SendOnly]>,
}

impl Senders {
    /// All peers have the port of `local`.
    pub(super) fn new(local: SocketAddr) -> Self {
        let own = |_| SendOnly::new(local.port(), PeerId::NONE);
        Self { local, search_at: Instant::ZERO, senders: (0..SENDERS_MAX).map(own).collect() }
    }

    /// The socket for packets to `peer`; `None`: the endpoint's own. A packet outside of
    /// connections always has that: its receiver answers to the port that it comes from.
    #[inline]
    pub(super) fn socket(&mut self, peer: PeerId) -> Option<&KernelSocket> {
        if peer.is_none() {
            return None;
        }
        let sender = self.senders.get_mut(entry(peer))?;
        if sender.is_of_former(peer) {
            return None;
        }
        sender.used = true;
        sender.socket.as_ref()
    }

    /// Closes the sockets that no packet has left by since the last search.
    fn close_unused(&mut self, now: Instant) {
        if now < self.search_at {
            return;
        }
        self.search_at = now.after_nanos(UNUSED_NANOS);
        for sender in &mut self.senders {
            if !sender.used {
                *sender = SendOnly::new(self.local.port(), sender.peer);
            }
            sender.used = false;
        }
    }

    /// Follows advice about the source port of packets to a peer. Returns whether it has changed. A
    /// port that cannot be had counts as one that was tried.
    pub(super) fn advise(
        &mut self,
        main: &KernelSocket,
        now: Instant,
        (to, advice): (Destination, PathAdvice),
    ) -> bool {
        self.close_unused(now);
        let (own, salt) = (self.local.port(), u32::from(self.local.port()) << 16 | to.peer.slot());
        let Some(sender) = self.senders.get_mut(entry(to.peer)) else { return false };
        if sender.is_of_former(to.peer) || sender.peer.is_none() {
            *sender = SendOnly::new(own, to.peer);
        }
        let before = sender.source.port();
        if !sender.source.advise(now, own, salt, advice) {
            return false;
        }
        (sender.used, sender.socket) = (true, None);
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

    fn port_of(senders: &mut Senders, slot: u32) -> Option<u16> {
        let socket = senders.socket(PeerId::new(slot, 0))?;
        Some(socket.socket.local_addr().unwrap().port())
    }

    /// A socket on a port that can be named.
    fn taken() -> UdpSocket {
        let start = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut ports = (start | 0xc000)..=u16::MAX;
        ports.find_map(|port| UdpSocket::bind(("127.0.0.1", port)).ok()).unwrap()
    }

    /// A port that can be named and is free.
    fn free() -> u16 {
        taken().local_addr().unwrap().port()
    }

    #[test]
    fn the_wanted_port_has_a_socket_and_time_outs_close_it() {
        let (main, mut senders, own) = senders();
        let wanted = free();
        let advice = |source, wanted| PathAdvice::Wanted { source, wanted };
        let named = WantedPort::named(wanted).unwrap();
        assert!(senders.advise(&main, Instant::ZERO, (to(3), advice(own, named))));
        assert_eq!((port_of(&mut senders, 3), port_of(&mut senders, 4)), (Some(wanted), None));
        assert_eq!(port_of(&mut senders, 3 + SENDERS_MAX as u32), Some(wanted), "a shared entry");
        assert!(senders.advise(
            &main,
            Instant::ZERO,
            (to(3), advice(wanted, WantedPort::other(4)))
        ));
        assert_ne!(port_of(&mut senders, 3), Some(wanted));
        assert!(senders.advise(&main, Instant::ZERO, (to(3), PathAdvice::TimedOut)));
        assert_eq!(port_of(&mut senders, 3), None);
    }

    #[test]
    fn a_new_peer_in_the_slot_of_another_one_has_the_own_port() {
        let (main, mut senders, own) = senders();
        let named = WantedPort::named(free()).unwrap();
        let advice = PathAdvice::Wanted { source: own, wanted: named };
        assert!(senders.advise(&main, Instant::ZERO, (to(3), advice)));
        let new = Destination { peer: PeerId::new(3, 1), ..to(3) };
        assert!(senders.socket(new.peer).is_none());
        let another = WantedPort::named(free()).unwrap();
        let advice = PathAdvice::Wanted { source: own, wanted: another };
        assert!(senders.advise(&main, Instant::ZERO, (new, advice)));
        assert!(senders.socket(new.peer).is_some());
        assert_eq!(port_of(&mut senders, 3), None);
    }

    #[test]
    fn sockets_without_packets_are_closed_when_another_one_opens() {
        let (main, mut senders, own) = senders();
        let open = |senders: &mut Senders, now, slot| {
            let wanted = WantedPort::named(free()).unwrap();
            let advice = PathAdvice::Wanted { source: own, wanted };
            assert!(senders.advise(&main, Instant::ZERO.after_nanos(now), (to(slot), advice)));
        };
        let opened = |senders: &Senders| {
            senders.senders.iter().filter(|sender| sender.socket.is_some()).count()
        };
        (0..4).for_each(|slot| open(&mut senders, 0, slot));
        open(&mut senders, UNUSED_NANOS - 1, 4);
        assert_eq!(opened(&senders), 5);
        open(&mut senders, UNUSED_NANOS, 5);
        assert_eq!(opened(&senders), 6, "all were opened since the last search");
        assert!(port_of(&mut senders, 2).is_some());
        open(&mut senders, 2 * UNUSED_NANOS, 6);
        let left = [2, 5, 6].map(|slot| port_of(&mut senders, slot).is_some());
        assert_eq!((opened(&senders), left), (3, [true; 3]));
    }

    #[test]
    fn packets_outside_of_connections_have_the_own_port() {
        let (main, mut senders, own) = senders();
        let sharing = PeerId::NONE.slot() % SENDERS_MAX as u32;
        let named = WantedPort::named(free()).unwrap();
        let advice = PathAdvice::Wanted { source: own, wanted: named };
        assert!(senders.advise(&main, Instant::ZERO, (to(sharing), advice)));
        assert!(port_of(&mut senders, sharing).is_some());
        assert!(senders.socket(PeerId::NONE).is_none());
    }

    #[test]
    fn a_port_in_use_leaves_the_own_one_and_counts() {
        let taken = taken();
        let named = WantedPort::named(taken.local_addr().unwrap().port()).unwrap();
        let (main, mut senders, own) = senders();
        let advice = PathAdvice::Wanted { source: own, wanted: named };
        for _ in 0..=named.tries_max() {
            assert!(!senders.advise(&main, Instant::ZERO, (to(0), advice)));
            assert_eq!(port_of(&mut senders, 0), None);
        }
        let named = WantedPort::named(free()).unwrap();
        let another = PathAdvice::Wanted { source: own, wanted: named };
        assert!(!senders.advise(&main, Instant::ZERO, (to(0), another)), "the pause has begun");
    }
}
