// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network interfaces: the list of all, and the choice of one for an endpoint.
//!
//! In: the kernel's link and address tables. Out: [`InterfaceInfo`]. Callers: `fi_getinfo`, which
//! must be quick and needs no privilege; `port/open.rs`, which chooses an interface and a local
//! address. Bounds: two netlink dumps and a few reads in sysfs; nothing stays open.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::headers::MacAddress;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use ofi_xdp_bpf::EndpointAddress;

use crate::config::PortConfig;
use crate::host::features::{GenericNetlink, XdpFeatures};
use crate::host::memory::push;
use crate::host::netlink::Netlink;
use crate::host::route::lookup;

/// An IP address and the length of its network prefix in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InterfaceAddress {
    /// The address.
    pub ip: IpAddr,
    /// Bits of the network prefix.
    pub prefix_len: u8,
}

/// Properties of one network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceInfo {
    /// The name.
    pub name: String,
    /// The index.
    pub index: u32,
    /// Maximum IP packet, in bytes.
    pub mtu: u32,
    /// The link-layer address; zero if there is none of six bytes.
    pub mac: MacAddress,
    /// Name of the driver (`mlx5_core`, `virtio_net`), or the kind of a virtual interface (`veth`).
    /// Empty if neither is known.
    pub driver: String,
    /// The addresses, IPv4 first. Link-local IPv6 addresses are left out, because they name no host
    /// by themselves.
    pub addresses: Vec<InterfaceAddress>,
    /// Whether the interface is up and has a carrier.
    pub up: bool,
    /// Whether this is the loopback interface.
    pub loopback: bool,
    /// Number of receive queues that the driver has allocated; at least 1.
    pub rx_queues: u32,
    /// Link speed in Mbit/s, if the driver reports one.
    pub speed_mbps: Option<u32>,
    /// PCI address (`0000:01:00.0`) of the device, if there is one.
    pub pci: Option<String>,
    /// Whether there is a device, on any bus.
    pub physical: bool,
    /// XDP features of the driver; `None` if unknown (before Linux 6.3).
    pub xdp: Option<XdpFeatures>,
}

impl InterfaceInfo {
    /// The address `local` of an endpoint on this interface, for the XDP program.
    #[must_use]
    pub fn endpoint(&self, local: SocketAddr) -> EndpointAddress {
        let own = self.addresses.iter().find(|address| address.ip == local.ip());
        let broadcast = own.and_then(InterfaceAddress::broadcast);
        EndpointAddress { address: local, broadcast, mac: self.mac.0 }
    }
}

impl InterfaceAddress {
    /// The directed broadcast address of its network. Networks of one or two addresses have none
    /// (RFC 3021), and neither has IPv6.
    fn broadcast(&self) -> Option<Ipv4Addr> {
        let IpAddr::V4(ip) = self.ip else { return None };
        let hosts = u32::MAX.checked_shr(self.prefix_len.into())?;
        (hosts > 1).then(|| Ipv4Addr::from_bits(ip.to_bits() | hosts))
    }
}

/// The interfaces of the calling thread's network namespace, in the kernel's order.
///
/// # Errors
/// Those of netlink; a sandbox may forbid it.
pub fn interfaces() -> io::Result<Vec<InterfaceInfo>> {
    list(&mut Netlink::open()?)
}

/// The interfaces, read over an open socket.
pub(crate) fn list(netlink: &mut Netlink) -> io::Result<Vec<InterfaceInfo>> {
    let mut interfaces: Vec<InterfaceInfo> = Vec::new();
    netlink.dump(
        RouteNetlinkMessage::GetLink(LinkMessage::default()),
        |message| match message {
            RouteNetlinkMessage::NewLink(link) => push(&mut interfaces, interface(link)),
            _ => Ok(()),
        },
    )?;
    netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
        if let RouteNetlinkMessage::NewAddress(message) = message
            && let Some(address) = interface_address(&message)
            && let Some(interface) =
                interfaces.iter_mut().find(|interface| interface.index == message.header.index)
        {
            push(&mut interface.addresses, address)?;
        }
        Ok(())
    })?;
    let mut netdev = GenericNetlink::open();
    for interface in &mut interfaces {
        interface.addresses.sort_by_key(|address| address.ip.is_ipv6());
        interface.xdp = netdev.as_mut().and_then(|netdev| netdev.features(interface.index));
    }
    Ok(interfaces)
}

fn interface(link: LinkMessage) -> InterfaceInfo {
    let flags = link.header.flags;
    let mut info = InterfaceInfo {
        name: String::new(),
        index: link.header.index,
        mtu: 0,
        mac: MacAddress::default(),
        driver: String::new(),
        addresses: Vec::new(),
        up: flags.contains(LinkFlags::Up) && flags.contains(LinkFlags::LowerUp),
        loopback: flags.contains(LinkFlags::Loopback),
        rx_queues: 1,
        speed_mbps: None,
        pci: None,
        physical: false,
        xdp: None,
    };
    let (mut device, mut bus) = (None, None);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => info.name = name,
            LinkAttribute::Mtu(mtu) => info.mtu = mtu,
            LinkAttribute::NumRxQueues(queues) => info.rx_queues = queues.max(1),
            LinkAttribute::Address(address) => {
                info.mac = address.try_into().map(MacAddress).unwrap_or_default();
            }
            LinkAttribute::LinkInfo(infos) => {
                if let Some(kind) = infos.iter().find_map(kind) {
                    info.driver = kind;
                }
            }
            LinkAttribute::ParentDevName(name) => device = Some(name),
            LinkAttribute::ParentDevBusName(name) => bus = Some(name),
            _ => {}
        }
    }
    if let (Some(device), Some(bus)) = (device, bus) {
        info.physical = true;
        // The view of a bus in sysfs is the same in all network namespaces, unlike /sys/class/net.
        let path = format!("/sys/bus/{bus}/devices/{device}");
        if let Some(driver) = link_name(&format!("{path}/driver")) {
            info.driver = driver;
        }
        info.pci = if bus == "pci" { Some(device) } else { parent_pci(&path) };
        info.speed_mbps = fs::read_to_string(format!("/sys/class/net/{}/speed", info.name))
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|speed| *speed > 0);
    }
    info
}

/// The kind of a virtual interface, as `ip -details link` shows it.
fn kind(info: &LinkInfo) -> Option<String> {
    match info {
        LinkInfo::Kind(kind) => Some(match kind {
            InfoKind::Other(name) => name.clone(),
            known => known.to_string(),
        }),
        _ => None,
    }
}

/// The last component of the target of the symbolic link at `path`.
fn link_name(path: &str) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}

/// The PCI function below a device on another bus (virtio).
fn parent_pci(path: &str) -> Option<String> {
    let device = fs::canonicalize(path).ok()?;
    let parent = device.parent()?;
    let is_pci = link_name(parent.join("subsystem").to_str()?)? == "pci";
    is_pci.then(|| parent.file_name()?.to_str().map(str::to_owned)).flatten()
}

fn interface_address(message: &AddressMessage) -> Option<InterfaceAddress> {
    let ip = local_ip(message)?;
    let link_local = matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    (!link_local).then_some(InterfaceAddress { ip, prefix_len: message.header.prefix_len })
}

/// This host's address in `message`.
fn local_ip(message: &AddressMessage) -> Option<IpAddr> {
    // On a point-to-point link `Address` is the other end, and `Local` is this host (rtnetlink(7)).
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(ip) => Some(*ip),
        _ => None,
    });
    let address = || {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(ip) => Some(*ip),
            _ => None,
        })
    };
    local.or_else(address)
}

/// Whether `ip` is an address of the interface with this index.
pub(crate) fn has_address(netlink: &mut Netlink, interface: u32, ip: IpAddr) -> io::Result<bool> {
    let mut found = false;
    netlink.dump(RouteNetlinkMessage::GetAddress(AddressMessage::default()), |message| {
        if let RouteNetlinkMessage::NewAddress(message) = message {
            found |= message.header.index == interface && local_ip(&message) == Some(ip);
        }
        Ok(())
    })?;
    Ok(found)
}

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
/// interface; binding fails then, or not (`ip_nonlocal_bind`).
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
        let owner = interfaces.iter().find(|interface| owns(interface, wanted));
        return match named {
            Some(interface) if !owns(interface, wanted) => {
                Err(ChooseError::WrongInterface { ip: wanted, interface: interface.name.clone() })
            }
            Some(interface) => Ok((Some(interface), wanted)),
            None => Ok((owner, wanted)),
        };
    }
    if let Some(interface) = named {
        let ip = first_address(interface, &config.bind)
            .ok_or_else(|| ChooseError::NoAddress { interface: interface.name.clone() })?;
        return Ok((Some(interface), ip));
    }
    let default = default_interface(netlink);
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

fn find<'a>(interfaces: &'a [InterfaceInfo], name: &str) -> Result<&'a InterfaceInfo, ChooseError> {
    interfaces.iter().find(|interface| interface.name == name).ok_or_else(|| {
        let known: Vec<&str> = interfaces.iter().map(|interface| interface.name.as_str()).collect();
        ChooseError::NoInterface { interface: name.to_owned(), known: known.join(", ") }
    })
}

fn owns(interface: &InterfaceInfo, ip: IpAddr) -> bool {
    interface.addresses.iter().any(|address| address.ip == ip)
        // All of 127.0.0.0/8 is local, although one address is listed.
        || (interface.loopback && ip.is_loopback())
}

/// The interface's first address in the family of `bind`, or else in the other family.
fn first_address(interface: &InterfaceInfo, bind: &SocketAddr) -> Option<IpAddr> {
    let same = |address: &&InterfaceAddress| address.ip.is_ipv6() == bind.is_ipv6();
    let addresses = &interface.addresses;
    addresses.iter().find(same).or_else(|| addresses.first()).map(|address| address.ip)
}

/// The interface of the default route: the route to an address of 192.0.2.0/24, a network for
/// documentation that is on no link (RFC 5737). No packet is sent.
fn default_interface(netlink: &mut Netlink) -> Option<u32> {
    let route = lookup::ask(netlink, IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), None).ok()??;
    Some(route.interface)
}

#[cfg(test)]
impl InterfaceInfo {
    /// A virtual link that is up, for tests.
    pub(crate) fn sample(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            index: 7,
            mtu: 1500,
            mac: MacAddress([2, 0, 0, 0, 0, 1]),
            driver: "veth".to_owned(),
            addresses: Vec::new(),
            up: true,
            loopback: false,
            rx_queues: 1,
            speed_mbps: None,
            pci: None,
            physical: false,
            xdp: None,
        }
    }
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
            info("lo", 1, &["127.0.0.1", "::1"]),
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

    #[test]
    fn an_endpoint_knows_the_broadcast_address_of_its_network() {
        let broadcast = |ip: &str, prefix_len| {
            InterfaceAddress { ip: ip.parse().unwrap(), prefix_len }.broadcast()
        };
        for (ip, prefix_len, expected) in [
            ("198.18.0.1", 24, Some([198, 18, 0, 255])),
            ("198.18.0.1", 15, Some([198, 19, 255, 255])),
            ("198.18.0.1", 30, Some([198, 18, 0, 3])),
            ("198.18.0.1", 31, None),
            ("198.18.0.1", 32, None),
            ("fd00::1", 64, None),
        ] {
            assert_eq!(broadcast(ip, prefix_len), expected.map(Ipv4Addr::from), "{ip}");
        }
        let interface = info("left", 7, &["198.18.0.1", "198.19.0.1"]);
        let endpoint = interface.endpoint("198.19.0.1:7".parse().unwrap());
        assert_eq!(endpoint.broadcast, Some(Ipv4Addr::new(198, 19, 0, 255)));
    }

    #[test]
    fn the_loopback_interface_is_known() {
        let interfaces = interfaces().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.loopback).unwrap();
        assert_eq!((loopback.name.as_str(), loopback.physical), ("lo", false));
    }
}
