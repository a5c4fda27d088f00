// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_getinfo`: the offers of this provider.
//!
//! In: node, service, flags and hints. Out: an [`Info`] for each type of endpoint and each address
//! of an interface that satisfy them, the best first. `hints` has the rules by which hints admit
//! and shape an offer, `offer` the offer itself. Called by `fi_getinfo`, and by `fi_domain` and
//! `fi_endpoint`, which check the offer that the application returns. Bound: the addresses of the
//! machine.

pub(crate) mod hardware;
pub(crate) mod hints;
pub(crate) mod interface;
pub(crate) mod mr_mode;
mod offer;
pub(crate) mod open_objects;
mod request;
pub(crate) mod route;

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ofi_xdp_datapath::Tier;

use crate::getinfo::interface::Interface;
use crate::getinfo::mr_mode::MrMode;
use crate::getinfo::open_objects::{OfferKey, OpenHandle};
use crate::getinfo::route::RouteTowards;
use crate::sys::abi::{self, bits};
use crate::sys::errno::Error;
use crate::sys::memory::push;
use crate::sys::tier::Choice;
use crate::sys::{notice, param, personality, reserve, sockaddr};

/// Interfaces that a message names at most.
const NAMES_MAX: usize = 64;
/// The reason against AF_XDP on a host without a network.
const NONE_UP: &str = "none is up with an address; `ip -brief address` lists them, \
                       `ip link set INTERFACE up` mends it";

pub(crate) use offer::{Info, RX_OP_FLAGS, SIZE_DEFAULT, TX_OP_FLAGS};
pub(crate) use request::{InfoRequest, Lookup};

/// The own offers that satisfy `lookup` and `hints`, the best first. `passthrough` is a text on the
/// offers of hardware providers, for `fi_info -v`. Every interface version has offers: an
/// application may list the providers with version 0.0 before it asks for its own.
///
/// # Errors
/// [`Error::NoData`] if there are none; [`Error::Os`] when the kernel does not list its
/// addresses; [`Error::NoMemory`].
pub(crate) fn find(
    lookup: &Lookup,
    hints: Option<&InfoRequest>,
    passthrough: &str,
) -> Result<Vec<Info>, Error> {
    let wanted = Addresses::resolve(lookup, hints)?;
    let values = param::values()?;
    let before = reserve::refusals();
    let mut found = Vec::new();
    let interfaces = interfaces(&values, wanted.source)?;
    let mut without_tier: Option<&Interface> = None;
    // All offers of one type come before those of the next.
    let requested = hints.map_or(0, |hints| hints.caps);
    for &ep_type in personality::current().ep_types() {
        for interface in &interfaces {
            reserve::check(before)?;
            let mut info = Info::offer_of(ep_type, interface, requested);
            if let Some(mtu) = wanted.path_mtu {
                info.limit_to_path(mtu);
            }
            let admitted = wanted
                .admit(&interface.ip)
                .and_then(|()| hints.map_or(Ok(()), |hints| hints::check(hints, &info)))
                .and_then(|()| hints.map_or(Ok(()), hints::check_inject_size))
                .and_then(|()| {
                    let admitted = admit_tier(values.tier, interface);
                    if admitted.is_err() && without_tier.is_none_or(|one| one.nic.loopback) {
                        without_tier = Some(interface);
                    }
                    admitted
                });
            match admitted {
                Ok(()) => push(&mut found, wanted.shape(lookup, hints, passthrough, info))?,
                Err(reason) => {
                    let Interface { nic, ip, .. } = interface;
                    log::info!(target: "core", "{} ({ip}): {reason}", nic.name);
                }
            }
        }
    }
    if !found.is_empty() {
        show_best_nics(&mut found);
        return Ok(found);
    }
    match without_tier {
        Some(Interface { nic, .. }) if values.tier == Choice::AfXdp => {
            notice::no_tier(&nic.name, &nic.expected_tier.why_not_better);
        }
        None if values.tier == Choice::AfXdp && interfaces.is_empty() => {
            notice::no_tier("any interface", NONE_UP);
        }
        _ => {}
    }
    Err(Error::NoData)
}

/// Leaves a nic to the offers of the best kind of interface. `OpenSHMEM` counts every nic as a rail
/// of one network and spreads its processes over all of them, the loopback interface and bridges of
/// containers included.
fn show_best_nics(found: &mut [Info]) {
    let best = found.iter().map(|info| info.nic.kind()).min();
    for info in found {
        info.shows_nic = Some(info.nic.kind()) == best;
    }
}

/// Puts an open fabric and an open domain into an offer.
fn name_open_objects(hints: Option<&InfoRequest>, api_version: u32, info: &mut Info) {
    let named = |object: fn(&InfoRequest) -> Option<&OpenHandle>| hints.and_then(object);
    let key = OfferKey {
        api_version,
        fabric_name: &info.fabric_name,
        domain_name: &info.domain_name,
        mr_mode: MrMode::from_bits(info.domain.mr_mode.cast_unsigned()),
    };
    let fabric = named(|hints| hints.open_fabric.as_ref());
    let domain = named(|hints| hints.open_domain.as_ref());
    (info.fabric, info.domain.domain) = open_objects::for_offer(fabric, domain, &key);
}

/// Admits an interface by its expected tier.
fn admit_tier(choice: Choice, interface: &Interface) -> Result<(), &'static str> {
    match (choice, interface.nic.expected_tier.tier) {
        (Choice::Passthrough, _) => Err("FI_XDP_TIER=passthrough: hardware providers alone"),
        (Choice::AfXdp, Tier::Udp) => Err("FI_XDP_TIER=af_xdp, which is not to be had here"),
        _ => Ok(()),
    }
}

/// The interfaces to offer where the local address `source` is asked for.
fn interfaces(values: &param::Values, source: Option<IpAddr>) -> Result<Vec<Interface>, Error> {
    let mut all = Interface::all_with(source)?;
    if let Some(name) = &values.interface {
        if !all.iter().any(|interface| interface.nic.name == *name) {
            let addresses = all.chunk_by(|one, next| one.nic.name == next.nic.name);
            let names = addresses.filter_map(|of_one| Some(of_one.first()?.nic.name.as_str()));
            let known: Vec<&str> = names.take(NAMES_MAX).collect();
            notice::no_interface(name, &known);
        }
        all.retain(|interface| interface.nic.name == *name);
    }
    Ok(all)
}

/// The requested addresses: those of node and service, else those of the hints (`fi_getinfo(3)`).
struct Addresses {
    /// The local address; `None`: any.
    source: Option<IpAddr>,
    /// The local port was asked for without an address: a passive endpoint listens on all.
    is_any: bool,
    /// The local port; 0: any.
    source_port: u16,
    /// The peer.
    destination: Option<SocketAddr>,
    /// The MTU of the path to the peer in bytes, if there is one and the kernel knows it.
    path_mtu: Option<u32>,
}

impl Addresses {
    fn resolve(lookup: &Lookup, hints: Option<&InfoRequest>) -> Result<Self, Error> {
        let named = lookup.node.is_some() || lookup.service.is_some();
        let (mut source, mut destination) =
            hints.map_or((None, None), |hints| (hints.source, hints.destination));
        if named {
            let resolved = resolve(lookup, hints)?;
            if lookup.flags & bits::SOURCE != 0 {
                source = Some(resolved);
            } else {
                destination = Some(resolved);
            }
        }
        let source_port = source.map_or(0, |source| source.port());
        let mut ip = source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        let is_any = source_port != 0 && ip.is_none();
        // A named interface overrides the routing table.
        let chosen = hints.is_some_and(|hints| hints.domain_name.is_some());
        let route = destination.and_then(RouteTowards::find);
        if ip.is_none() && !chosen && destination.is_some() {
            ip = Some(route.ok_or(Error::NoData)?.source);
        }
        let path_mtu = route.and_then(|route| route.mtu);
        Ok(Self { source: ip, is_any, source_port, destination, path_mtu })
    }

    /// Adapts an admitted offer to the request.
    fn shape(
        &self,
        lookup: &Lookup,
        hints: Option<&InfoRequest>,
        passthrough: &str,
        mut info: Info,
    ) -> Info {
        if self.is_any && self.destination.is_none() && info.ep.type_ == abi::FI_EP_MSG {
            info.source.set_ip(unspecified(info.source.ip()));
        }
        info.source.set_port(self.source_port);
        info.destination = self.destination;
        hints::shape(hints, &mut info);
        hints::name_mr_mode(lookup.api_version, &mut info);
        name_open_objects(hints, lookup.api_version, &mut info);
        if !passthrough.is_empty() {
            info.nic.tiers.push(passthrough.to_owned());
        }
        info
    }

    /// Admits the local address `ip`.
    fn admit(&self, ip: &IpAddr) -> Result<(), &'static str> {
        if self.source.is_some_and(|source| source != *ip) {
            return Err("not the source address asked for, or not the way to the destination");
        }
        if self.destination.is_some_and(|to| to.is_ipv4() != ip.is_ipv4()) {
            return Err("not the destination's address family");
        }
        Ok(())
    }
}

/// The unspecified address of the family of `ip`.
pub(crate) const fn unspecified(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// The first address of node and service.
pub(crate) fn resolve(lookup: &Lookup, hints: Option<&InfoRequest>) -> Result<SocketAddr, Error> {
    let family: c_int = match hints.map_or(abi::FI_FORMAT_UNSPEC, |hints| hints.addr_format) {
        abi::FI_SOCKADDR_IN => libc::AF_INET,
        abi::FI_SOCKADDR_IN6 => libc::AF_INET6,
        _ => libc::AF_UNSPEC,
    };
    let numeric = if lookup.flags & bits::NUMERICHOST == 0 { 0 } else { libc::AI_NUMERICHOST };
    let passive = if lookup.flags & bits::SOURCE == 0 { 0 } else { libc::AI_PASSIVE };
    let wanted = dns_lookup::AddrInfoHints {
        socktype: libc::SOCK_DGRAM,
        protocol: libc::IPPROTO_UDP,
        address: family,
        flags: numeric | passive,
    };
    let (mut node, mut service) = (lookup.node.as_deref(), lookup.service.as_deref());
    if let Some(parts) = node.and_then(sockaddr::split_text) {
        // Such an address includes the service (fi_getinfo(3)).
        if service.is_some() {
            return Err(Error::NoData);
        }
        (node, service) = parts;
    }
    // getaddrinfo(3) of glibc takes the lower 16 bits of a larger number.
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if service.is_some_and(|text| is_number(text) && text.parse::<u16>().is_err()) {
        log::info!(target: "core", "no port has the number {service:?}");
        return Err(Error::NoData);
    }
    let mut found = dns_lookup::getaddrinfo(node, service, Some(wanted)).map_err(|error| {
        log::info!(target: "core", "cannot resolve {node:?}, {service:?}: {error:?}");
        Error::NoData
    })?;
    found.find_map(Result::ok).map(|it| it.sockaddr).ok_or(Error::NoData)
}

#[cfg(test)]
mod tests;
