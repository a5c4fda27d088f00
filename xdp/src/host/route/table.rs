// SPDX-License-Identifier: MIT OR Apache-2.0
//! The route table: for each peer a next hop on our interface, or the kernel's path.
//!
//! In: the [`Destination`] of each packet. Out: its [`Hop`]. `None`: the route leads through
//! another interface or to an own address, or the neighbour's link-layer address is unknown, or the
//! interface has no carrier. A packet through the kernel's socket makes the kernel resolve it. The
//! result for a known peer is one indexed load. Caller: the hybrid port. Bounds: one entry for each
//! peer slot and at most as many hops, allocated when the port opens; [`EVENTS_MAX`] notifications
//! a call of [`Routes::refresh`].
//!
//! Each peer is looked up once in the kernel's tables. Its neighbour is looked up by a thread,
//! unless the kernel had it when the table was made. Until the thread answers the peer is on the
//! kernel's path. Notifications keep its hop valid. A changed neighbour affects one hop. A changed
//! route, rule, link or nexthop object invalidates all peers, at most once a call. The notification
//! of a changed interface has its new state, and that of the own address tells whether it is still
//! there. Lost notifications invalidate everything.

use std::collections::TryReserveError;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use crate::headers::MacAddress;
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use ofi_xdp_core::{Destination, Instant, PathAdvice, PeerAddress, SourcePort};

use super::lookup::{NeighbourCheck, ask};
use super::neighbours::{KERNEL, Neighbours};
use super::own_link::{DOWN, OwnLink};
use crate::host::interfaces::InterfaceInfo;
use crate::host::netlink::{Monitor, MonitorResult, Netlink};

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
    link: OwnLink,
    own_port: u16,
    /// Spreads the choices of source ports of different ports.
    salt: u32,
    generation: u32,
    peers: Box<[PeerRoute]>,
    neighbours: Neighbours,
}

/// The routes of `count` peers, all unknown.
fn unknown_peers(count: usize, own_port: u16) -> Result<Box<[PeerRoute]>, TryReserveError> {
    let unknown = PeerRoute {
        address: PeerAddress::NONE,
        generation: 0,
        neighbour: KERNEL,
        source: SourcePort::new(own_port),
        gateway: false,
    };
    let mut peers = Vec::new();
    peers.try_reserve_exact(count)?;
    peers.resize(count, unknown);
    Ok(peers.into_boxed_slice())
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
        let (count, own_port) = (peers as usize, local.port());
        let no_memory = |_| Errno::ENOMEM;
        // The monitor first: later changes have notifications.
        let monitor = Monitor::open()?;
        let neighbours = Neighbours::with_room(Netlink::open()?, interface.index, count);
        let mut routes = Self {
            netlink,
            monitor,
            overrun: false,
            recheck: false,
            link: OwnLink::new(local.ip(), interface),
            own_port,
            salt: RandomState::new().hash_one(local) as u32,
            generation: 1,
            peers: unknown_peers(count, own_port).map_err(no_memory)?,
            neighbours: neighbours.map_err(no_memory)?,
        };
        routes.ask_link().map_err(io::Error::other)?;
        routes.ask_address().map_err(io::Error::other)?;
        Ok(routes)
    }

    fn ask_link(&mut self) -> Result<(), &'static str> {
        self.link.ask_link(&mut self.netlink)
    }

    fn ask_address(&mut self) -> Result<(), &'static str> {
        self.link.ask_address(&mut self.netlink)
    }

    /// The hop for a packet of `len` bytes to `to`; `None`: the kernel's socket.
    #[inline]
    pub(crate) fn hop(&mut self, to: Destination, len: usize) -> Option<Hop> {
        if len > self.link.len_max() {
            return None;
        }
        let slot = to.peer.slot() as usize;
        let known = self.peers.get(slot)?;
        if known.generation != self.generation || known.address != to.address {
            self.look_up(slot, to.address);
        }
        let route = self.peers.get(slot)?;
        let neighbour = self.neighbours.get_mut(route.neighbour)?;
        match neighbour.check {
            NeighbourCheck::Fresh => {}
            NeighbourCheck::Next => {
                neighbour.check = NeighbourCheck::Fresh;
                return None;
            }
            NeighbourCheck::NextButOne => neighbour.check = NeighbourCheck::Next,
        }
        Some(Hop { mac: neighbour.mac?, gateway: route.gateway, source: route.source.port() })
    }

    /// The kernel's socket had no room for a packet to `to`, so the kernel does not check the
    /// neighbour for it. The next but one goes there, too: the next one may be the lost one again,
    /// and the neighbour is most likely the right one.
    #[cold]
    pub(crate) fn kernel_refused(&mut self, to: Destination) {
        let route = self.peers.get(to.peer.slot() as usize);
        if let Some(route) = route.filter(|route| route.address == to.address)
            && route.generation == self.generation
            && let Some(neighbour) = self.neighbours.get_mut(route.neighbour)
        {
            neighbour.check = NeighbourCheck::NextButOne;
        }
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

    /// The interface's index.
    pub(crate) const fn interface(&self) -> u32 {
        self.link.interface()
    }

    /// The interface's link-layer address when the table was made.
    pub(crate) const fn mac(&self) -> MacAddress {
        self.link.mac()
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
        self.link.mtu()
    }

    /// Whether the interface has a carrier.
    pub(crate) const fn has_carrier(&self) -> bool {
        self.link.has_carrier()
    }

    /// The longest packet that fits in the MTU. The kernel sends longer ones in fragments.
    pub(crate) fn payload_max(&self) -> usize {
        self.link.payload_max()
    }

    /// Processes the kernel's notifications. An error is the reason why the interface is unusable.
    /// One system call when there are none.
    pub(crate) fn refresh(&mut self) -> Result<(), &'static str> {
        let (mut link_state, mut address_state) = (Ok(()), Ok(()));
        if std::mem::take(&mut self.recheck) {
            self.invalidate_peers();
        }
        for _ in 0..EVENTS_MAX {
            let Self { monitor, neighbours, generation, recheck, link, .. } = self;
            let result = monitor.next(|message| match message {
                RouteNetlinkMessage::NewNeighbour(message) => {
                    neighbours.change(&message, false);
                }
                RouteNetlinkMessage::DelNeighbour(message) => {
                    neighbours.change(&message, true);
                }
                RouteNetlinkMessage::NewRoute(_)
                | RouteNetlinkMessage::DelRoute(_)
                | RouteNetlinkMessage::NewRule(_)
                | RouteNetlinkMessage::DelRule(_) => *generation = generation.wrapping_add(1),
                RouteNetlinkMessage::NewLink(message) => {
                    if link.is_meant(&message) {
                        link_state = link.changed(&message);
                    }
                    *recheck = true;
                }
                RouteNetlinkMessage::DelLink(message) => {
                    // `AF_XDP` is gone with the interface, also if one of its index follows.
                    if link.is_meant(&message) {
                        link.remove();
                    }
                    *recheck = true;
                }
                RouteNetlinkMessage::NewAddress(message) => {
                    address_state = link.address_changed(&message, false).unwrap_or(address_state);
                }
                RouteNetlinkMessage::DelAddress(message) => {
                    address_state = link.address_changed(&message, true).unwrap_or(address_state);
                }
                _ => {}
            });
            match result {
                MonitorResult::Nothing if self.overrun => {
                    self.overrun = false;
                    self.recheck = true;
                    self.forget();
                    // The answers are newer than all notifications before.
                    link_state = self.ask_link().and_then(|()| self.ask_address());
                    address_state = Ok(());
                    break;
                }
                MonitorResult::Nothing => break,
                MonitorResult::Changes => {}
                MonitorResult::Nexthops => {
                    self.invalidate_peers();
                    self.recheck = true;
                }
                MonitorResult::Lost => self.overrun = true,
            }
        }
        if self.link.was_removed() {
            return Err(DOWN);
        }
        link_state.and(address_state)?;
        self.neighbours.ask();
        Ok(())
    }

    /// Removes all neighbours and invalidates all peers.
    fn forget(&mut self) {
        self.neighbours.clear();
        self.invalidate_peers();
    }

    /// Invalidates the routes of all peers.
    const fn invalidate_peers(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The index of the neighbour at `ip`.
    fn neighbour(&mut self, ip: IpAddr) -> u32 {
        if self.neighbours.lacks_room(ip) {
            self.forget();
        }
        self.neighbours.find(ip)
    }

    /// Looks up a peer that is new in `slot` or invalidated.
    #[cold]
    fn look_up(&mut self, slot: usize, address: PeerAddress) {
        let ip = address.ip();
        let route = match ask(&mut self.netlink, ip, Some(self.link.own())) {
            Ok(route) => route,
            Err(error) => {
                log::debug!("no route to {ip} could be asked for: {error}");
                None
            }
        };
        // The kernel gives packets to a group to members on this host, too.
        let reachable = route.filter(|route| {
            route.plain && route.interface == self.link.interface() && !ip.is_multicast()
        });
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
}

#[cfg(test)]
mod tests;
