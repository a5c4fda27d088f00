// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel is asked about the way to a host, and what its answers and announcements say.
//!
//! Addresses come in, a [`Route`] or a [`Neighbour`] goes out. The table of routes (`route.rs`)
//! asks for each peer once, and `device.rs` for the interface of the default route. Bounds: one
//! question and one answer a call.

use std::io;
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use ofi_xdp_core::frame::MacAddress;

use crate::device::family;
use crate::netlink::Netlink;

/// One route, as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// Index of the interface that it leaves by.
    pub(crate) interface: u32,
    /// The gateway, or the destination itself.
    pub(crate) next_hop: IpAddr,
    /// Whether it leads to another host, and packets take it as they are: the kernel wraps those of
    /// a route with an encapsulation (MPLS, segments, a tunnel).
    pub(crate) plain: bool,
}

/// Asks the kernel which way a packet from `source` to `destination` would go. `None`: no way.
pub(crate) fn ask(
    netlink: &mut Netlink,
    destination: IpAddr,
    source: Option<IpAddr>,
) -> io::Result<Option<Route>> {
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
            RouteAttribute::EncapType(_) | RouteAttribute::Encap(_) => plain = false,
            _ => {}
        }
    }
    Ok(interface.map(|interface| Route { interface, next_hop, plain }))
}

/// What is known of a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Neighbour {
    /// Its link-layer address, if that can be used.
    pub(super) mac: Option<MacAddress>,
    /// The kernel has not heard from it for a while. One packet through the kernel makes it find
    /// out; an `AF_XDP` port that never asked would send to a dead link-layer address for ever.
    pub(super) stale: bool,
}

impl Neighbour {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self { mac: None, stale: false };
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

/// What a message says of a neighbour.
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
    Neighbour { mac: mac.filter(|_| usable), stale: message.header.state == NeighbourState::Stale }
}

/// Whose change a message announces.
pub(super) fn announced(message: &NeighbourMessage) -> Option<IpAddr> {
    message.attributes.iter().find_map(|attribute| match attribute {
        NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => Some(IpAddr::V4(*ip)),
        NeighbourAttribute::Destination(NeighbourAddress::Inet6(ip)) => Some(IpAddr::V6(*ip)),
        _ => None,
    })
}
