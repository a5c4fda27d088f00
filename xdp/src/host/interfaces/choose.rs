// SPDX-License-Identifier: MIT OR Apache-2.0
//! The choice of an interface and of a local address for an endpoint.
//!
//! In: the address and the interface of a [`PortConfig`], the list of interfaces. Out: one of them,
//! and an IP address. Callers: `port/open.rs`; the port that looks for its interface again; the
//! offers of `fi_getinfo` ([`uplink`]). Bound: the interfaces, and one request for the default
//! route.
//!
//! A routed host has its address on the loopback interface, and announces a route to it by each of
//! its cards. The interface of the default route is chosen for such an address. Packets that come
//! by another one take the kernel's path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{InterfaceAddress, InterfaceInfo};
use crate::config::PortConfig;
use crate::host::netlink::Netlink;
use crate::host::route::lookup;

/// Reason why no local address can be chosen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChooseError {
    /// The interface has no address of the wanted family.
    #[error(
        "interface {interface} has no usable IP address; give it one, or name another interface"
    )]
    NoAddress {
        /// The interface's name.
        interface: String,
    },
    /// There is no such interface.
    #[error("there is no interface {interface}; there are: {known}")]
    NoInterface {
        /// The requested name.
        interface: String,
        /// The existing names.
        known: String,
    },
    /// The address is on no interface, or not on the named one.
    #[error("address {ip} is not on interface {interface}")]
    WrongInterface {
        /// The requested address.
        ip: IpAddr,
        /// The requested interface.
        interface: String,
    },
}

/// The interface and the IP address of an endpoint with `config`. `None`: the address is on no
/// interface, and binding fails then, or not (`ip_nonlocal_bind`); or it is on the loopback
/// interface, and it is unknown by which other one its packets come.
pub(crate) fn choose<'a>(
    config: &PortConfig,
    interfaces: &'a [InterfaceInfo],
    netlink: &mut Netlink,
) -> Result<(Option<&'a InterfaceInfo>, IpAddr), ChooseError> {
    let wanted = config.bind.ip().to_canonical();
    let named = match &config.interface {
        None => None,
        Some(name) => Some(find(interfaces, name)?),
    };
    if !wanted.is_unspecified() {
        let owner = match named {
            Some(interface) if !interface.carries(wanted, interfaces) => {
                let interface = interface.name.clone();
                return Err(ChooseError::WrongInterface { ip: wanted, interface });
            }
            Some(interface) => Some(interface),
            None => interfaces.iter().find(|interface| interface.owns(wanted)),
        };
        let is_routed = owner.is_some_and(|owner| owner.loopback && !wanted.is_loopback());
        let chosen = if is_routed { find_uplink(interfaces, wanted, netlink) } else { owner };
        return Ok((chosen, wanted));
    }
    if let Some(interface) = named {
        let ip = first_address(interface, &config.bind)
            .ok_or_else(|| ChooseError::NoAddress { interface: interface.name.clone() })?;
        return Ok((Some(interface), ip));
    }
    let default = default_interface(netlink, true, None);
    let usable = |interface: &&InterfaceInfo| {
        interface.up && first_address(interface, &config.bind).is_some()
    };
    let chosen = interfaces
        .iter()
        .filter(usable)
        .min_by_key(|interface| (Some(interface.index) != default, interface.loopback));
    let ip = chosen.and_then(|interface| first_address(interface, &config.bind));
    Ok((chosen, ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))))
}

/// The present choice for the port with `config`, whose interface had the index `lost`.
pub(crate) fn choose_again<'a>(
    config: &PortConfig,
    lost: u32,
    interfaces: &'a [InterfaceInfo],
    netlink: &mut Netlink,
) -> Result<Option<&'a InterfaceInfo>, ChooseError> {
    let present = present(config, lost, interfaces);
    choose(&present, interfaces, netlink).map(|(interface, _)| interface)
}

/// The configuration with the present name of its interface, which had the index `lost`: it may
/// have another name, and an interface with the former name is no less meant. `None` for the name
/// where the address has moved to another interface.
fn present(config: &PortConfig, lost: u32, interfaces: &[InterfaceInfo]) -> PortConfig {
    let Some(name) = &config.interface else { return config.clone() };
    let ip = config.bind.ip();
    let mut carriers = interfaces.iter().filter(|one| one.carries(ip, interfaces));
    let named = || carriers.clone().find(|one| one.name == *name);
    let found = carriers.clone().find(|one| one.index == lost).or_else(named);
    let interface = match found {
        Some(found) => Some(found.name.clone()),
        // An address of the loopback interface names no other one.
        None => Some(name.clone()).filter(|_| carriers.all(|one| !one.owns(ip) || one.loopback)),
    };
    PortConfig { interface, ..config.clone() }
}

fn find<'a>(interfaces: &'a [InterfaceInfo], name: &str) -> Result<&'a InterfaceInfo, ChooseError> {
    interfaces.iter().find(|interface| interface.name == name).ok_or_else(|| {
        let known: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        ChooseError::NoInterface { interface: name.to_owned(), known: known.join(", ") }
    })
}

/// The interface that leads from `ip`, an address of the loopback interface, to other hosts: that
/// of the default route, or the only one. `None` also where a sandbox forbids netlink.
#[must_use]
pub fn uplink(all: &[InterfaceInfo], ip: IpAddr) -> Option<&InterfaceInfo> {
    find_uplink(all, ip, &mut Netlink::open().ok()?)
}

fn find_uplink<'a>(
    interfaces: &'a [InterfaceInfo],
    ip: IpAddr,
    netlink: &mut Netlink,
) -> Option<&'a InterfaceInfo> {
    let mut usable = interfaces.iter().filter(|interface| !interface.loopback && interface.up);
    match default_interface(netlink, ip.is_ipv4(), Some(ip)) {
        Some(index) => usable.find(|interface| interface.index == index),
        None => usable.next().filter(|_| usable.next().is_none()),
    }
}

/// The interface's first address in the family of `bind`, or else in the other family.
fn first_address(interface: &InterfaceInfo, bind: &SocketAddr) -> Option<IpAddr> {
    let same = |address: &&InterfaceAddress| address.ip.is_ipv6() == bind.is_ipv6();
    let addresses = &interface.addresses;
    addresses.iter().find(same).or_else(|| addresses.first()).map(|address| address.ip)
}

/// The interface of the default route from `source`: the route to an address of `192.0.2.0/24` or
/// `2001:db8::/32`, networks for documentation that are on no link (RFC 5737, RFC 3849). No packet
/// is sent.
fn default_interface(netlink: &mut Netlink, ipv4: bool, source: Option<IpAddr>) -> Option<u32> {
    let nowhere = if ipv4 {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))
    } else {
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1))
    };
    let route = lookup::ask(netlink, nowhere, source).ok()??;
    Some(route.interface)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &str, index: u32, addresses: &[&str]) -> InterfaceInfo {
        let addresses = addresses
            .iter()
            .map(|ip| InterfaceAddress { ip: ip.parse().unwrap(), prefix_len: 24 })
            .collect();
        let loopback = name == "lo";
        InterfaceInfo { index, addresses, loopback, ..InterfaceInfo::sample(name) }
    }

    fn chosen(bind: &str, interface: Option<&str>) -> Result<(String, String), ChooseError> {
        let interfaces = [
            info("lo", 1, &["127.0.0.1", "::1", "198.51.100.7"]),
            info("left", 1000, &["198.18.0.1", "fd00::1"]),
            info("right", 1001, &["198.19.0.1"]),
            info("bare", 1002, &[]),
        ];
        let mut config = PortConfig::new(bind.parse().unwrap(), 1);
        config.interface = interface.map(str::to_owned);
        let (interface, ip) = choose(&config, &interfaces, &mut Netlink::open().unwrap())?;
        Ok((interface.map(|info| info.name.clone()).unwrap_or_default(), ip.to_string()))
    }

    fn ok(name: &str, ip: &str) -> Result<(String, String), ChooseError> {
        Ok((name.to_owned(), ip.to_owned()))
    }

    #[test]
    fn an_address_names_its_interface() {
        assert_eq!(chosen("198.19.0.1:0", None), ok("right", "198.19.0.1"));
        assert_eq!(chosen("[::ffff:198.19.0.1]:0", None), ok("right", "198.19.0.1"));
        assert_eq!(chosen("127.9.9.9:0", None), ok("lo", "127.9.9.9"));
        assert_eq!(chosen("203.0.113.1:0", None), ok("", "203.0.113.1"));
    }

    #[test]
    fn an_address_of_the_loopback_interface_comes_by_the_named_one() {
        assert_eq!(chosen("198.51.100.7:0", Some("left")), ok("left", "198.51.100.7"));
        // The default route of this machine leads to none of these.
        assert_eq!(chosen("198.51.100.7:0", None), ok("", "198.51.100.7"));
        assert_eq!(chosen("198.51.100.7:0", Some("lo")), ok("", "198.51.100.7"));
        assert!(chosen("127.0.0.1:0", Some("left")).is_err());
    }

    #[test]
    fn an_interface_names_its_address() {
        assert_eq!(chosen("0.0.0.0:0", Some("left")), ok("left", "198.18.0.1"));
        assert_eq!(chosen("[::]:0", Some("left")), ok("left", "fd00::1"));
        assert_eq!(chosen("[::]:0", Some("right")), ok("right", "198.19.0.1"));
    }

    #[test]
    fn with_neither_loopback_is_the_last_choice() {
        assert_eq!(chosen("0.0.0.0:0", None), ok("left", "198.18.0.1"));
    }

    #[test]
    fn contradictions_are_named() {
        let text = |result: Result<_, ChooseError>| result.unwrap_err().to_string();
        assert_eq!(
            text(chosen("0.0.0.0:0", Some("eth9"))),
            "there is no interface eth9; there are: lo, left, right, bare"
        );
        assert_eq!(
            text(chosen("198.18.0.1:0", Some("right"))),
            "address 198.18.0.1 is not on interface right"
        );
        assert!(
            text(chosen("0.0.0.0:0", Some("bare"))).starts_with("interface bare has no usable")
        );
    }

    /// The interface had the name `old` and the index 7.
    #[test]
    fn a_lost_interface_is_found_under_another_name_or_where_its_address_is() {
        let own = "198.18.0.1";
        let name_now = |interfaces: &[InterfaceInfo]| {
            let mut config = PortConfig::new(format!("{own}:7").parse().unwrap(), 1);
            config.interface = Some("old".to_owned());
            present(&config, 7, interfaces).interface
        };
        let named = |name: &str| Some(name.to_owned());
        let lo = || info("lo", 1, &[own]);
        let (bare, other) = (info("new", 7, &[]), info("old", 8, &[]));
        assert_eq!(name_now(&[info("new", 7, &[own]), other.clone()]), named("new"));
        assert_eq!(name_now(&[info("old", 8, &[own])]), named("old"), "replaced");
        assert_eq!(name_now(&[bare.clone(), info("bond", 9, &[own])]), None, "moved");
        assert_eq!(name_now(&[lo(), bare, other.clone()]), named("new"));
        assert_eq!(name_now(&[lo(), other]), named("old"));
        assert_eq!(name_now(&[lo(), info("third", 9, &[])]), named("old"), "it is gone");
        assert_eq!(name_now(&[info("old", 7, &[])]), named("old"), "its address is gone");
    }
}
