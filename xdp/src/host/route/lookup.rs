// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routes and neighbours, from the kernel's tables or from a notification.
//!
//! In: addresses. Out: a [`KernelRoute`], or one or more [`Neighbour`]. Callers: the route table
//! (`table.rs`), once for each peer; its neighbours (`neighbours.rs`), once for all that the kernel
//! has, then by threads once for each new one; `interfaces.rs`, for the default route. Bound: one
//! request a call. The answer about a route waits for no lock that others hold for long. That about
//! a neighbour does before Linux 6.17, and a dump of them before 6.10 (RTNL; `neigh_get`,
//! `neigh_dump_info`, net/core/neighbour.c).

use std::io;
use std::net::IpAddr;

use crate::headers::MacAddress;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteType, RouteVia,
};

use crate::host::memory::push;
use crate::host::netlink::{Netlink, family};

/// One route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KernelRoute {
    /// Index of the outgoing interface.
    pub(crate) interface: u32,
    /// The gateway, or the destination itself.
    pub(crate) next_hop: IpAddr,
    /// Whether the route leads to another host without an encapsulation (MPLS, segments, a tunnel),
    /// which the kernel would add.
    pub(crate) plain: bool,
}

/// Asks the kernel for the route from `source` to `destination`. `None`: there is none.
pub(crate) fn ask(
    netlink: &mut Netlink,
    destination: IpAddr,
    source: Option<IpAddr>,
) -> io::Result<Option<KernelRoute>> {
    let mut request = RouteMessage::default();
    request.header.address_family = family(destination);
    request.header.destination_prefix_length = if destination.is_ipv4() { 32 } else { 128 };
    request.attributes.push(RouteAttribute::Destination(destination.into()));
    if let Some(source) = source {
        request.header.source_prefix_length = request.header.destination_prefix_length;
        request.attributes.push(RouteAttribute::Source(source.into()));
    }
    let answer = netlink.ask(RouteNetlinkMessage::GetRoute(request))?;
    let Some(RouteNetlinkMessage::NewRoute(route)) = answer else {
        return Ok(None);
    };
    let (mut interface, mut next_hop) = (None, destination);
    let mut plain = route.header.kind == RouteType::Unicast;
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => next_hop = (*gateway).into(),
            RouteAttribute::Gateway(RouteAddress::Inet6(gateway)) => next_hop = (*gateway).into(),
            // A gateway of the other family, as of IPv4 over IPv6 (RFC 8950).
            RouteAttribute::Via(RouteVia::Inet(gateway)) => next_hop = (*gateway).into(),
            RouteAttribute::Via(RouteVia::Inet6(gateway)) => next_hop = (*gateway).into(),
            RouteAttribute::Via(_) => plain = false,
            RouteAttribute::EncapType(_) | RouteAttribute::Encap(_) => plain = false,
            _ => {}
        }
    }
    Ok(interface.map(|interface| KernelRoute { interface, next_hop, plain }))
}

/// State of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neighbour {
    /// The link-layer address, if it is usable.
    pub(super) mac: Option<MacAddress>,
    pub(super) check: NeighbourCheck,
}

/// The packet that goes through the kernel, which makes it check a neighbour from which it has not
/// heard for a while. An `AF_XDP` port that never sent one would use a dead link-layer address
/// without end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NeighbourCheck {
    /// None.
    Fresh,
    /// The next one.
    Next,
    /// The next but one: the kernel had no room for an earlier one.
    NextButOne,
}

impl Neighbour {
    /// An unknown neighbour.
    pub(super) const UNKNOWN: Self = Self { mac: None, check: NeighbourCheck::Fresh };
}

/// Asks the kernel for the link-layer address of `ip` on `interface`.
pub(super) fn ask_neighbour(
    netlink: &mut Netlink,
    interface: u32,
    ip: IpAddr,
) -> io::Result<Neighbour> {
    let mut request = NeighbourMessage::default();
    request.header.family = family(ip);
    request.header.ifindex = interface;
    request.attributes.push(NeighbourAttribute::Destination(match ip {
        IpAddr::V4(ip) => NeighbourAddress::Inet(ip),
        IpAddr::V6(ip) => NeighbourAddress::Inet6(ip),
    }));
    match netlink.ask(RouteNetlinkMessage::GetNeighbour(request))? {
        Some(RouteNetlinkMessage::NewNeighbour(message)) => Ok(neighbour(&message)),
        _ => Ok(Neighbour::UNKNOWN),
    }
}

/// The neighbours on `interface` that the kernel has a link-layer address of, at most `most`.
pub(super) fn usable_neighbours(
    netlink: &mut Netlink,
    interface: u32,
    most: usize,
) -> io::Result<Vec<(IpAddr, Neighbour)>> {
    let mut request = NeighbourMessage::default();
    request.attributes.push(NeighbourAttribute::IfIndex(interface));
    let request = RouteNetlinkMessage::GetNeighbour(request);
    netlink.dump(request, |usable: &mut Vec<_>, answer| match answer {
        RouteNetlinkMessage::NewNeighbour(message)
            if message.header.ifindex == interface && usable.len() < most =>
        {
            let neighbour = neighbour(&message);
            match announced(&message) {
                Some(ip) if neighbour.mac.is_some() => push(usable, (ip, neighbour)),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    })
}

/// The state in a message.
pub(super) fn neighbour(message: &NeighbourMessage) -> Neighbour {
    let mac = message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::LinkLayerAddress(address) => {
            address.as_slice().try_into().ok().map(MacAddress)
        }
        _ => None,
    });
    let usable = !matches!(
        message.header.state,
        NeighbourState::None | NeighbourState::Incomplete | NeighbourState::Failed
    );
    let is_stale = message.header.state == NeighbourState::Stale;
    let check = if is_stale { NeighbourCheck::Next } else { NeighbourCheck::Fresh };
    Neighbour { mac: mac.filter(|_| usable), check }
}

/// The neighbour that a notification is about.
pub(super) fn announced(message: &NeighbourMessage) -> Option<IpAddr> {
    message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::V4(*ip)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::V6(*ip)),
        _ => None,
    })
}
