// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which way a peer is: through our interface to a known link-layer address, or through the kernel.
//!
//! A [`Destination`] comes in for each packet and the [`Hop`] to send it to goes out, or `None`:
//! the kernel knows better (another interface, our own address), or has yet to learn the neighbour,
//! which a packet through its socket makes it do. The answer for a known peer is one indexed load.
//! `port.rs` calls. Bounds: one entry for each peer slot, at most as many hops, both allocated when
//! the port opens; [`EVENTS_MAX`] announcements a call of [`Routes::refresh`].
//!
//! A peer is looked up in the kernel's tables once. From then on announcements keep its hop right:
//! a neighbour's change concerns one hop, a change of a route, of a rule or of any link makes every
//! peer ask again, once a call, and one of the interface has the kernel asked for its present
//! state. Where announcements are lost, so is everything that they may have been about.

mod kernel;

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::NeighbourMessage;
use ofi_xdp_core::frame::MacAddress;
use ofi_xdp_core::{Destination, PeerAddress};

use crate::device::InterfaceFacts;
use crate::netlink::{Heard, Monitor, Netlink};
use crate::udp;
pub(crate) use kernel::ask;
use kernel::{Neighbour, announced, ask_neighbour, neighbour};

/// Most announcements that one call of [`Routes::refresh`] takes.
const EVENTS_MAX: usize = 64;

/// The next host on the way to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// Its link-layer address.
    pub(crate) mac: MacAddress,
    /// Whether it is a gateway: the packet leaves the link.
    pub(crate) gateway: bool,
}

/// What is known of the way to one peer.
#[derive(Clone, Copy, Debug)]
struct PeerRoute {
    address: PeerAddress,
    /// The table's generation when this was asked for.
    generation: u32,
    /// Index of the neighbour, or [`KERNEL`].
    neighbour: u32,
    gateway: bool,
}

/// In place of a neighbour's index: the kernel knows better.
const KERNEL: u32 = u32::MAX;

/// The ways to all peers of one port.
#[derive(Debug)]
pub(crate) struct Routes {
    netlink: Netlink,
    monitor: Monitor,
    /// Announcements were lost, and older ones still wait: until those are taken the kernel drops
    /// new ones without another word (`netlink_overrun` in the kernel).
    lost: bool,
    /// The last call heard of what the kernel announces before it is done, and then in silence: a
    /// link that goes takes IPv4 routes along (`__dev_notify_flags`, net/core/dev.c), and so does a
    /// nexthop object (`remove_nexthop`, net/ipv4/nexthop.c). By the next call it is done.
    early: bool,
    own: IpAddr,
    interface: u32,
    mac: MacAddress,
    mtu: u32,
    payload_max: usize,
    generation: u32,
    peers: Box<[PeerRoute]>,
    neighbours: Vec<Neighbour>,
    index: HashMap<IpAddr, u32>,
}

impl Routes {
    /// A table for `peers` peers of the endpoint at `own`, which sends through `interface`. Its MTU
    /// is asked for anew: what changed before the announcements were listened to is in none.
    pub(crate) fn new(
        netlink: Netlink,
        own: IpAddr,
        interface: &InterfaceFacts,
        peers: u32,
    ) -> io::Result<Self> {
        let unknown = PeerRoute {
            address: PeerAddress::NONE,
            generation: 0,
            neighbour: KERNEL,
            gateway: false,
        };
        let count = peers as usize;
        let mut routes = Self {
            netlink,
            monitor: Monitor::open()?,
            lost: false,
            early: false,
            own,
            interface: interface.index,
            mac: interface.mac,
            mtu: interface.mtu,
            payload_max: udp::payload_max(interface.mtu, own),
            generation: 1,
            peers: vec![unknown; count].into_boxed_slice(),
            neighbours: Vec::with_capacity(count),
            index: HashMap::with_capacity(count),
        };
        routes.ask_link().map_err(io::Error::other)?;
        Ok(routes)
    }

    /// Where to send a packet of `len` bytes for `to`; `None`: through the kernel's socket.
    #[inline]
    pub(crate) fn hop(&mut self, to: Destination, len: usize) -> Option<Hop> {
        if len > self.payload_max {
            return None;
        }
        let slot = to.peer.slot() as usize;
        let known = self.peers.get(slot)?;
        if known.generation != self.generation || known.address != to.address {
            self.look_up(slot, to.address);
        }
        let route = self.peers.get(slot)?;
        let neighbour = self.neighbours.get_mut(route.neighbour as usize)?;
        if neighbour.stale {
            neighbour.stale = false;
            return None;
        }
        Some(Hop { mac: neighbour.mac?, gateway: route.gateway })
    }

    /// Readable when [`Self::refresh`] would find something.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.monitor.socket()
    }

    /// The interface's MTU in bytes, as last asked for.
    pub(crate) const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The longest packet that fits in it: longer ones go in fragments, which the kernel makes.
    pub(crate) const fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Takes in what the kernel announced since the last call; or why the interface is of no use
    /// any more. One system call when there is nothing.
    pub(crate) fn refresh(&mut self) -> Result<(), &'static str> {
        let mut link = false;
        if std::mem::take(&mut self.early) {
            self.ask_again();
        }
        for _ in 0..EVENTS_MAX {
            let Self { monitor, neighbours, index, generation, interface, early, .. } = self;
            let heard = monitor.next(|message| match message {
                RouteNetlinkMessage::NewNeighbour(message) => {
                    change(neighbours, index, *interface, &message, false);
                }
                RouteNetlinkMessage::DelNeighbour(message) => {
                    change(neighbours, index, *interface, &message, true);
                }
                RouteNetlinkMessage::NewRoute(_)
                | RouteNetlinkMessage::DelRoute(_)
                | RouteNetlinkMessage::NewRule(_)
                | RouteNetlinkMessage::DelRule(_) => *generation = generation.wrapping_add(1),
                RouteNetlinkMessage::NewLink(message) | RouteNetlinkMessage::DelLink(message) => {
                    link |= message.header.index == *interface;
                    *early = true;
                }
                _ => {}
            });
            match heard {
                Heard::Nothing if self.lost => {
                    self.lost = false;
                    self.early = true;
                    self.forget();
                    link = true;
                    break;
                }
                Heard::Nothing => break,
                Heard::Changes => {}
                Heard::Lost => self.lost = true,
            }
        }
        if link { self.ask_link() } else { Ok(()) }
    }

    /// Asks the kernel for the interface's MTU; or finds why the interface is of no use any more.
    /// The answer is younger than any announcement that was heard.
    #[cold]
    fn ask_link(&mut self) -> Result<(), &'static str> {
        const DOWN: &str = "the interface is down";
        let mut request = LinkMessage::default();
        request.header.index = self.interface;
        let answer = self.netlink.ask(RouteNetlinkMessage::GetLink(request));
        // No answer: it is gone.
        let Ok(Some(RouteNetlinkMessage::NewLink(link))) = answer else {
            return Err(DOWN);
        };
        if !link.header.flags.contains(LinkFlags::Up) {
            return Err(DOWN);
        }
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::Mtu(mtu) => self.mtu = *mtu,
                LinkAttribute::Address(address) if *address != self.mac.0 => {
                    return Err("its link-layer address has changed");
                }
                _ => {}
            }
        }
        self.payload_max = udp::payload_max(self.mtu, self.own);
        Ok(())
    }

    /// Forgets all neighbours and routes: every peer asks again.
    fn forget(&mut self) {
        self.neighbours.clear();
        self.index.clear();
        self.ask_again();
    }

    /// Has every peer ask again.
    const fn ask_again(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Asks the kernel about a peer that is new in `slot`, or whose route may have changed.
    #[cold]
    fn look_up(&mut self, slot: usize, address: PeerAddress) {
        let ip = address.ip();
        let route = match ask(&mut self.netlink, ip, Some(self.own)) {
            Ok(route) => route,
            Err(error) => {
                log::debug!("no route to {ip} could be asked for: {error}");
                None
            }
        };
        let reachable = route.filter(|route| route.plain && route.interface == self.interface);
        let neighbour = reachable.map_or(KERNEL, |route| self.neighbour(route.next_hop));
        let generation = self.generation;
        let gateway = reachable.is_some_and(|route| route.next_hop != ip);
        if let Some(peer) = self.peers.get_mut(slot) {
            let (was, is) = (peer.neighbour != KERNEL, neighbour != KERNEL);
            if peer.address == address && was != is {
                let way = if is { "this interface again" } else { "the kernel" };
                log::info!("the route to {ip} has moved: its packets go through {way}");
            }
            *peer = PeerRoute { address, generation, neighbour, gateway };
        }
    }

    /// The index of neighbour `ip`, which is asked for if it is new.
    fn neighbour(&mut self, ip: IpAddr) -> u32 {
        if let Some(index) = self.index.get(&ip) {
            return *index;
        }
        if self.neighbours.len() == self.neighbours.capacity() {
            // Neighbours of peers that are long gone fill the table.
            self.forget();
        }
        let found = ask_neighbour(&mut self.netlink, self.interface, ip).unwrap_or_else(|error| {
            log::debug!("neighbour {ip} could not be asked for: {error}");
            Neighbour::UNKNOWN
        });
        let index = u32::try_from(self.neighbours.len()).unwrap_or(KERNEL);
        self.neighbours.push(found);
        self.index.insert(ip, index);
        index
    }
}

/// Takes in the announcement of a neighbour's change.
fn change(
    neighbours: &mut [Neighbour],
    index: &HashMap<IpAddr, u32>,
    interface: u32,
    message: &NeighbourMessage,
    gone: bool,
) {
    if message.header.ifindex != interface {
        return;
    }
    if let Some(at) = announced(message).and_then(|ip| index.get(&ip))
        && let Some(known) = neighbours.get_mut(*at as usize)
    {
        *known = if gone { Neighbour::UNKNOWN } else { neighbour(message) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_core::PeerId;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

    fn to(slot: u32, ip: &str) -> Destination {
        let address = PeerAddress::new(ip.parse().unwrap(), 7);
        Destination { peer: PeerId::new(slot, 0), address }
    }

    fn routes() -> Routes {
        let own = IpAddr::from([127, 0, 0, 1]);
        let loopback = crate::device::interfaces()
            .unwrap()
            .into_iter()
            .find(|interface| interface.loopback)
            .unwrap();
        // As it was some time ago.
        let loopback = InterfaceFacts { mtu: 68, ..loopback };
        Routes::new(Netlink::open().unwrap(), own, &loopback, 4).unwrap()
    }

    /// The same with one peer, whose next hop is known to be [`MAC`].
    fn known(stale: bool, gateway: bool) -> (Routes, Destination) {
        let mut routes = routes();
        routes.neighbours.push(Neighbour { mac: Some(MAC), stale });
        let peer = to(1, "198.18.0.2");
        routes.peers[1] = PeerRoute { address: peer.address, generation: 1, neighbour: 0, gateway };
        (routes, peer)
    }

    #[test]
    fn our_own_address_is_the_kernels() {
        let mut routes = routes();
        assert_eq!(routes.hop(to(0, "127.0.0.1"), 64), None);
        assert_eq!(routes.peers[0].neighbour, KERNEL);
        assert_eq!(routes.peers[0].generation, routes.generation, "asked once");
    }

    #[test]
    fn strangers_and_slots_beyond_the_table_are_the_kernels() {
        let mut routes = routes();
        assert_eq!(routes.hop(to(4, "198.18.0.2"), 64), None);
        let stranger = Destination { peer: PeerId::NONE, ..to(0, "198.18.0.2") };
        assert_eq!(routes.hop(stranger, 64), None);
        assert!(routes.index.is_empty());
    }

    #[test]
    fn a_stale_neighbour_gets_one_packet_through_the_kernel() {
        let (mut routes, peer) = known(true, true);
        assert_eq!(routes.hop(peer, 64), None);
        assert_eq!(routes.hop(peer, 64), Some(Hop { mac: MAC, gateway: true }));
        assert_eq!(routes.hop(peer, 64), Some(Hop { mac: MAC, gateway: true }));
    }

    #[test]
    fn what_does_not_fit_in_the_mtu_is_the_kernels() {
        let (mut routes, peer) = known(false, false);
        let most = routes.payload_max();
        assert!(routes.hop(peer, most).is_some());
        assert_eq!(routes.hop(peer, most + 1), None);
    }

    #[test]
    fn an_interface_is_asked_for_what_it_is_now() {
        let mut routes = routes();
        let (mtu, payload_max) = (routes.mtu, routes.payload_max);
        assert_ne!(mtu, 68);
        (routes.mtu, routes.payload_max) = (68, 40);
        assert_eq!(routes.ask_link(), Ok(()));
        assert_eq!((routes.mtu(), routes.payload_max()), (mtu, payload_max));
        routes.mac = MAC;
        assert_eq!(routes.ask_link(), Err("its link-layer address has changed"));
        routes.interface = 0x7fff_0000;
        assert_eq!(routes.ask_link(), Err("the interface is down"));
    }

    #[test]
    fn a_reused_slot_is_looked_up_again() {
        let (mut routes, peer) = known(false, false);
        assert!(routes.hop(peer, 64).is_some());
        assert_eq!(routes.hop(to(1, "127.0.0.1"), 64), None, "the old tenant's hop is not used");
    }
}
