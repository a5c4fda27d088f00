// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network interfaces: the list of all. `choose.rs` has the choice of one for an endpoint.
//!
//! In: the kernel's link and address tables. Out: [`InterfaceInfo`]. Callers: `fi_getinfo`, which
//! must be quick and needs no privilege; `port/open.rs`, which chooses an interface and a local
//! address. Bounds: two netlink dumps and a few reads in sysfs; nothing stays open.

mod choose;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::headers::MacAddress;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use ofi_xdp_bpf::EndpointAddress;

use crate::host::features::{GenericNetlink, XdpFeatures};
use crate::host::memory::push;
use crate::host::netlink::Netlink;

pub use choose::{ChooseError, uplink};
pub(crate) use choose::{choose, choose_again};

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
    /// The link-layer address of an Ethernet interface; zero for all others.
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
    /// Whether it takes Ethernet frames.
    pub(crate) fn is_ethernet(&self) -> bool {
        self.mac != MacAddress::default()
    }

    /// Whether native mode is expected to work and to be the faster one: the interface has a
    /// device, and its driver announces that mode, or does not tell.
    #[must_use]
    pub fn prefers_native(&self) -> bool {
        self.physical && self.xdp.is_none_or(|xdp| xdp.native)
    }

    /// Whether this is an address of the interface.
    #[must_use]
    pub fn owns(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|address| address.ip == ip)
            // All of 127.0.0.0/8 is local, although one address is listed.
            || (self.loopback && ip.is_loopback())
    }

    /// Whether packets for `ip` may come by this interface: it has the address, or it leads to
    /// other hosts and the loopback interface has it, as on routed hosts.
    #[must_use]
    pub fn carries(&self, ip: IpAddr, all: &[Self]) -> bool {
        let on_loopback =
            || !ip.is_loopback() && all.iter().any(|one| one.loopback && one.owns(ip));
        self.owns(ip) || (!self.loopback && on_loopback())
    }

    /// The address `local` of an endpoint on this interface, for the XDP program.
    #[must_use]
    pub fn endpoint(&self, local: SocketAddr, any_payload: bool) -> EndpointAddress {
        let own = self.addresses.iter().find(|address| address.ip == local.ip());
        let broadcast = own.and_then(InterfaceAddress::broadcast);
        EndpointAddress { address: local, broadcast, mac: self.mac.0, any_payload }
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

/// All addresses, each with the index of its interface.
fn addresses(netlink: &mut Netlink) -> io::Result<Vec<(u32, InterfaceAddress)>> {
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    netlink.dump(request, |addresses, message| match message {
        RouteNetlinkMessage::NewAddress(message) => match interface_address(&message) {
            Some(address) => push(addresses, (message.header.index, address)),
            None => Ok(()),
        },
        _ => Ok(()),
    })
}

/// The interfaces, read over an open socket.
pub(crate) fn list(netlink: &mut Netlink) -> io::Result<Vec<InterfaceInfo>> {
    let links = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let mut interfaces =
        netlink.dump(links, |interfaces: &mut Vec<InterfaceInfo>, message| match message {
            RouteNetlinkMessage::NewLink(link) => push(interfaces, interface(link)),
            _ => Ok(()),
        })?;
    for (index, address) in addresses(netlink)? {
        if let Some(interface) = interfaces.iter_mut().find(|one| one.index == index) {
            push(&mut interface.addresses, address)?;
        }
    }
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
    let is_ethernet = link.header.link_layer_type == LinkLayerType::Ether;
    let (mut device, mut bus) = (None, None);
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => info.name = name,
            LinkAttribute::Mtu(mtu) => info.mtu = mtu,
            LinkAttribute::NumRxQueues(queues) => info.rx_queues = queues.max(1),
            LinkAttribute::Address(address) if is_ethernet => {
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
pub(crate) fn local_ip(message: &AddressMessage) -> Option<IpAddr> {
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

/// Whether `ip` is an address of the interface with this index; of any without an index.
pub(crate) fn has_address(
    netlink: &mut Netlink,
    interface: Option<u32>,
    ip: IpAddr,
) -> io::Result<bool> {
    let request = RouteNetlinkMessage::GetAddress(AddressMessage::default());
    netlink.dump(request, |found: &mut bool, message| {
        if let RouteNetlinkMessage::NewAddress(message) = message {
            let asked = interface.is_none_or(|index| message.header.index == index);
            *found |= asked && local_ip(&message) == Some(ip);
        }
        Ok(())
    })
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

    #[test]
    fn native_mode_is_expected_of_cards_whose_driver_does_not_deny_it() {
        let expected = |physical, native: Option<bool>| {
            let xdp = native.map(|native| XdpFeatures { native, zerocopy: false });
            InterfaceInfo { physical, xdp, ..InterfaceInfo::sample("eth0") }.prefers_native()
        };
        assert!(expected(true, Some(true)) && expected(true, None));
        assert!(!expected(true, Some(false)) && !expected(false, Some(true)));
    }

    #[test]
    fn addresses_of_other_links_than_ethernet_are_none_for_frames() {
        for (kind, bytes, takes_frames) in [
            (LinkLayerType::Ether, 6, true),
            (LinkLayerType::Infiniband, 20, false),
            (LinkLayerType::Ipgre, 4, false),
            (LinkLayerType::Tunnel6, 6, false),
        ] {
            let mut link = LinkMessage::default();
            link.header.link_layer_type = kind;
            link.attributes = vec![LinkAttribute::Address(vec![2; bytes])];
            assert_eq!(interface(link).is_ethernet(), takes_frames, "{kind:?}");
        }
        assert!(!interface(LinkMessage::default()).is_ethernet(), "it has none");
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
        let endpoint = interface.endpoint("198.19.0.1:7".parse().unwrap(), false);
        assert_eq!(endpoint.broadcast, Some(Ipv4Addr::new(198, 19, 0, 255)));
    }

    #[test]
    fn an_address_of_the_loopback_interface_may_come_by_all_others() {
        let all = [info("lo", 1, &["127.0.0.1", "192.0.2.7"]), info("left", 7, &["198.18.0.1"])];
        let carries =
            |interface: usize, ip: &str| all[interface].carries(ip.parse().unwrap(), &all);
        assert!(carries(1, "198.18.0.1") && carries(1, "192.0.2.7"));
        assert!(!carries(1, "198.18.0.2") && !carries(1, "127.0.0.1"));
        assert!(carries(0, "192.0.2.7") && carries(0, "127.3.3.3") && !carries(0, "198.18.0.1"));
    }

    #[test]
    fn the_loopback_interface_is_known() {
        let interfaces = interfaces().unwrap();
        let loopback = interfaces.iter().find(|interface| interface.loopback).unwrap();
        assert_eq!((loopback.name.as_str(), loopback.physical), ("lo", false));
    }
}
