// SPDX-License-Identifier: MIT OR Apache-2.0
//! The route table: for each peer a next hop on our interface, or the kernel's path.
//!
//! In: the [`Destination`] of each packet. Out: its [`Hop`]. `None`: the route leads through
//! another interface or to an own address, or the neighbour's link-layer address is unknown. A
//! packet through the kernel's socket makes the kernel resolve it. The result for a known peer is
//! one indexed load. Caller: the hybrid port. Bounds: one entry for each peer slot and at most as
//! many hops, allocated when the port opens; [`EVENTS_MAX`] notifications a call of
//! [`Routes::refresh`].
//!
//! Each peer is looked up once in the kernel's tables; notifications keep its hop valid. A changed
//! neighbour affects one hop. A changed route, rule or link invalidates all peers, at most once a
//! call. A changed interface is requested again, and so is the own address when one has left the
//! interface. Lost notifications invalidate everything.

use std::collections::{HashMap, TryReserveError};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use crate::headers::MacAddress;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::NeighbourMessage;
use nix::errno::Errno;
use ofi_xdp_core::{Destination, Instant, PathAdvice, PeerAddress, SourcePort};

use super::lookup::{Neighbour, announced, ask, ask_neighbour, neighbour};
use crate::host::interfaces::{InterfaceInfo, has_address};
use crate::host::netlink::{Monitor, MonitorResult, Netlink};
use crate::mtu;

/// Maximum number of notifications that one call of [`Routes::refresh`] takes.
const EVENTS_MAX: usize = 64;

/// The next hop on the way to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    /// The link-layer address.
    pub(crate) mac: MacAddress,
    /// Whether it is a gateway: the packet leaves the link.
    pub(crate) gateway: bool,
    /// The source port of packets to the peer.
    pub(crate) source: u16,
}

/// The route to one peer.
#[derive(Clone, Copy, Debug)]
struct PeerRoute {
    address: PeerAddress,
    /// The table's generation at the lookup.
    generation: u32,
    /// Index of the neighbour, or [`KERNEL`].
    neighbour: u32,
    /// The source port, which outlives a change of the route.
    source: SourcePort,
    gateway: bool,
}

/// In place of a neighbour's index: the packet takes the kernel's path.
const KERNEL: u32 = u32::MAX;

/// The routes to all peers of one port.
#[derive(Debug)]
pub(crate) struct Routes {
    netlink: Netlink,
    monitor: Monitor,
    /// Notifications were lost, and older ones still wait. Until those are read the kernel drops
    /// new ones without a sign (`netlink_overrun` in the kernel).
    overrun: bool,
    /// The last call read a notification that the kernel sends before the change is complete. A
    /// link that goes down removes its IPv4 routes (`__dev_notify_flags`, net/core/dev.c). So does
    /// a nexthop object that is removed (`remove_nexthop`, net/ipv4/nexthop.c). The rest of the
    /// change has no notification. At the next call it is complete.
    recheck: bool,
    own: IpAddr,
    own_port: u16,
    /// Spreads the choices of source ports of different ports.
    salt: u32,
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
    /// A table for `peers` peers of the endpoint at `local` on `interface`. The MTU is requested
    /// again, because changes before the monitor was opened have no notification.
    pub(crate) fn new(
        netlink: Netlink,
        local: SocketAddr,
        interface: &InterfaceInfo,
        peers: u32,
    ) -> io::Result<Self> {
        let count = peers as usize;
        let mut routes = Self {
            netlink,
            monitor: Monitor::open()?,
            overrun: false,
            recheck: false,
            own: local.ip(),
            own_port: local.port(),
            salt: RandomState::new().hash_one(local) as u32,
            interface: interface.index,
            mac: interface.mac,
            mtu: interface.mtu,
            payload_max: mtu::payload_max(interface.mtu, local.ip()),
            generation: 1,
            peers: Box::default(),
            neighbours: Vec::new(),
            index: HashMap::new(),
        };
        routes.reserve(count).map_err(|_| Errno::ENOMEM)?;
        routes.ask_link().map_err(io::Error::other)?;
        routes.ask_address().map_err(io::Error::other)?;
        Ok(routes)
    }

    /// Allocates the table for `count` peers.
    fn reserve(&mut self, count: usize) -> Result<(), TryReserveError> {
        let unknown = PeerRoute {
            address: PeerAddress::NONE,
            generation: 0,
            neighbour: KERNEL,
            source: SourcePort::new(self.own_port),
            gateway: false,
        };
        let mut peers = Vec::new();
        peers.try_reserve_exact(count)?;
        peers.resize(count, unknown);
        self.peers = peers.into_boxed_slice();
        self.neighbours.try_reserve_exact(count)?;
        self.index.try_reserve(count)
    }

    /// The hop for a packet of `len` bytes to `to`; `None`: the kernel's socket.
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
        Some(Hop { mac: neighbour.mac?, gateway: route.gateway, source: route.source.port() })
    }

    /// Follows advice about the source port of packets to a peer. Returns whether it has changed.
    /// Packets by the kernel's path keep the own port.
    pub(crate) fn advise(&mut self, now: Instant, to: Destination, advice: PathAdvice) -> bool {
        let slot = to.peer.slot();
        let known = self.peers.get_mut(slot as usize);
        let Some(route) = known.filter(|route| route.address == to.address) else { return false };
        route.source.advise(now, self.own_port, self.salt ^ slot, advice)
    }

    /// Readable when [`Self::refresh`] has notifications to read.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.monitor.socket()
    }

    /// The interface's link-layer address when the table was made.
    pub(crate) const fn mac(&self) -> MacAddress {
        self.mac
    }

    /// The address of one peer on each host that is reached through this interface.
    pub(crate) fn hosts(&self) -> Result<Vec<SocketAddr>, TryReserveError> {
        let peers = self.peers.iter().filter(|peer| peer.neighbour != KERNEL);
        let mut hosts = Vec::new();
        hosts.try_reserve_exact(peers.clone().count())?;
        hosts.extend(peers.map(|peer| peer.address.socket_addr()));
        hosts.sort_unstable();
        hosts.dedup_by_key(|host| host.ip());
        Ok(hosts)
    }

    /// The interface's MTU in bytes.
    pub(crate) const fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The longest packet that fits in the MTU. The kernel sends longer ones in fragments.
    pub(crate) const fn payload_max(&self) -> usize {
        self.payload_max
    }

    /// Processes the kernel's notifications. An error is the reason why the interface is unusable.
    /// One system call when there are none.
    pub(crate) fn refresh(&mut self) -> Result<(), &'static str> {
        let (mut link, mut address) = (false, false);
        if std::mem::take(&mut self.recheck) {
            self.invalidate_peers();
        }
        for _ in 0..EVENTS_MAX {
            let Self { monitor, neighbours, index, generation, interface, recheck, .. } = self;
            let result = monitor.next(|message| match message {
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
                    *recheck = true;
                }
                RouteNetlinkMessage::DelAddress(message) => {
                    address |= message.header.index == *interface;
                }
                _ => {}
            });
            match result {
                MonitorResult::Nothing if self.overrun => {
                    self.overrun = false;
                    self.recheck = true;
                    self.forget();
                    (link, address) = (true, true);
                    break;
                }
                MonitorResult::Nothing => break,
                MonitorResult::Changes => {}
                MonitorResult::Lost => self.overrun = true,
            }
        }
        if link {
            self.ask_link()?;
        }
        if address { self.ask_address() } else { Ok(()) }
    }

    /// Requests the interface's addresses. An error is the reason why the interface is unusable:
    /// packets for the endpoint's former address are another host's.
    #[cold]
    fn ask_address(&mut self) -> Result<(), &'static str> {
        // All of 127.0.0.0/8 is local, although one address is listed. Without an answer nothing
        // is known.
        if self.own.is_loopback()
            || has_address(&mut self.netlink, self.interface, self.own).unwrap_or(true)
        {
            return Ok(());
        }
        Err("its address has left the interface")
    }

    /// Requests the interface's MTU. An error is the reason why the interface is unusable. The
    /// answer is newer than all notifications read so far.
    #[cold]
    fn ask_link(&mut self) -> Result<(), &'static str> {
        const DOWN: &str = "the interface is down";
        let mut request = LinkMessage::default();
        request.header.index = self.interface;
        let answer = self.netlink.ask(RouteNetlinkMessage::GetLink(request));
        // Without an answer the interface is gone.
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
        self.payload_max = mtu::payload_max(self.mtu, self.own);
        Ok(())
    }

    /// Removes all neighbours and invalidates all peers.
    fn forget(&mut self) {
        self.neighbours.clear();
        self.index.clear();
        self.invalidate_peers();
    }

    /// Invalidates the routes of all peers.
    const fn invalidate_peers(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Looks up a peer that is new in `slot` or invalidated.
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
            let is_same = peer.address == address;
            let source = if is_same { peer.source } else { SourcePort::new(self.own_port) };
            *peer = PeerRoute { address, generation, neighbour, source, gateway };
        }
    }

    /// The index of neighbour `ip`, which is looked up if it is new.
    fn neighbour(&mut self, ip: IpAddr) -> u32 {
        if let Some(index) = self.index.get(&ip) {
            return *index;
        }
        if self.neighbours.len() == self.neighbours.capacity() {
            // The table is full of neighbours of former peers.
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

/// Applies the notification of a neighbour's change.
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
    use ofi_xdp_core::{PeerId, WantedPort};

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);

    fn to(slot: u32, ip: &str) -> Destination {
        let address = PeerAddress::new(ip.parse().unwrap(), 7);
        Destination { peer: PeerId::new(slot, 0), address }
    }

    fn routes() -> Routes {
        let own = SocketAddr::from(([127, 0, 0, 1], 7000));
        let loopback = crate::host::interfaces::interfaces()
            .unwrap()
            .into_iter()
            .find(|interface| interface.loopback)
            .unwrap();
        // An MTU from some time ago.
        let loopback = InterfaceInfo { mtu: 68, ..loopback };
        Routes::new(Netlink::open().unwrap(), own, &loopback, 4).unwrap()
    }

    /// A table with one peer and [`MAC`] as its next hop.
    fn known(stale: bool, gateway: bool) -> (Routes, Destination) {
        let mut routes = routes();
        routes.neighbours.push(Neighbour { mac: Some(MAC), stale });
        let peer = to(1, "198.18.0.2");
        let source = SourcePort::new(7000);
        let address = peer.address;
        routes.peers[1] = PeerRoute { address, generation: 1, neighbour: 0, source, gateway };
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
    fn unknown_peers_and_slots_beyond_the_table_are_the_kernels() {
        let mut routes = routes();
        assert_eq!(routes.hop(to(4, "198.18.0.2"), 64), None);
        let unknown = Destination { peer: PeerId::NONE, ..to(0, "198.18.0.2") };
        assert_eq!(routes.hop(unknown, 64), None);
        assert!(routes.index.is_empty());
    }

    #[test]
    fn a_stale_neighbour_gets_one_packet_through_the_kernel() {
        let (mut routes, peer) = known(true, true);
        assert_eq!(routes.hop(peer, 64), None);
        let hop = Some(Hop { mac: MAC, gateway: true, source: 7000 });
        assert_eq!((routes.hop(peer, 64), routes.hop(peer, 64)), (hop, hop));
    }

    #[test]
    fn a_source_port_outlives_a_changed_route_and_not_a_changed_peer() {
        let (mut routes, peer) = known(false, false);
        let advice = PathAdvice::Wanted { source: 7000, wanted: WantedPort::other(4) };
        assert!(routes.advise(Instant::ZERO, peer, advice));
        let hop = routes.hop(peer, 64).unwrap();
        assert_ne!(hop.source, 7000);
        assert!(!routes.advise(Instant::ZERO, to(1, "198.18.0.3"), advice), "another peer");
        routes.invalidate_peers();
        routes.hop(peer, 64);
        assert_eq!(routes.peers[1].source.port(), hop.source);
        routes.hop(to(1, "198.18.0.3"), 64);
        assert_eq!(routes.peers[1].source.port(), 7000);
    }

    #[test]
    fn packets_longer_than_the_mtu_take_the_kernels_path() {
        let (mut routes, peer) = known(false, false);
        let most = routes.payload_max();
        assert!(routes.hop(peer, most).is_some());
        assert_eq!(routes.hop(peer, most + 1), None);
    }

    #[test]
    fn a_query_returns_the_present_state_of_an_interface() {
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
    fn an_address_is_asked_for() {
        let mut routes = routes();
        assert_eq!(routes.ask_address(), Ok(()));
        routes.own = IpAddr::from([203, 0, 113, 1]);
        assert_eq!(routes.ask_address(), Err("its address has left the interface"));
    }

    #[test]
    fn a_reused_slot_is_looked_up_again() {
        let (mut routes, peer) = known(false, false);
        assert!(routes.hop(peer, 64).is_some());
        assert_eq!(routes.hop(to(1, "127.0.0.1"), 64), None, "the old tenant's hop is not used");
    }
}
