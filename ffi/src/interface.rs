// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's network interfaces and their addresses, for `fi_getinfo`.
//!
//! Read from the kernel at each call, without privilege. Bounds: what the machine has.

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use ofi_xdp_datapath::{Forecast, InterfaceFacts, Tier, XdpFeatures};

use crate::errno::Error;
use crate::param::{self, Values};

const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// One address of one interface: what a domain is opened on.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    /// The address.
    pub(crate) ip: IpAddr,
    /// How many leading bits of the address name its network.
    pub(crate) prefix: u32,
    /// The interface.
    pub(crate) nic: Nic,
}

/// What is known of an interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nic {
    /// Its name, `eth0`.
    pub(crate) name: String,
    /// The kernel driver behind it, or what kind of virtual device it is.
    pub(crate) driver: String,
    /// Link-layer address, as text.
    pub(crate) address: String,
    /// Largest IP packet, in bytes.
    pub(crate) mtu: usize,
    /// Bits per second; 0 if the driver does not say.
    pub(crate) speed_bits: usize,
    /// Administratively up, with a carrier.
    pub(crate) up: bool,
    /// The loopback interface.
    pub(crate) loopback: bool,
    /// There is a device behind it.
    pub(crate) physical: bool,
    /// The tier that an endpoint on it would be on.
    pub(crate) forecast: Forecast,
    /// Its place on the PCI bus, if it is on one.
    pub(crate) pci: Option<Pci>,
    /// Applications are told of that (`FI_XDP_PCI`).
    pub(crate) tells_pci: bool,
    /// What the PCI bus knows of it.
    pub(crate) ids: PciIds,
    /// What a reader of `fi_info -v` should know of how packets would travel.
    pub(crate) tiers: Vec<String>,
}

/// A place on the PCI bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pci {
    /// Domain (segment).
    pub(crate) domain: u16,
    /// Bus.
    pub(crate) bus: u8,
    /// Device.
    pub(crate) device: u8,
    /// Function.
    pub(crate) function: u8,
}

/// Numbers that a PCI device has from its maker, as text (`0x8086`); none: not known.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PciIds {
    /// The maker.
    pub(crate) vendor: Option<String>,
    /// The model.
    pub(crate) device: Option<String>,
    /// Its revision.
    pub(crate) revision: Option<String>,
}

impl PciIds {
    /// From the device's folder in sysfs.
    fn read(folder: &Path) -> Self {
        let number = |name: &str| {
            let text = std::fs::read_to_string(folder.join(name)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        Self { vendor: number("vendor"), device: number("device"), revision: number("revision") }
    }
}

impl fmt::Display for Pci {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

impl Interface {
    /// Every address that can be offered, in [`goodness`]'s order, otherwise in the kernel's.
    /// Interfaces that are down are left out, and link-local IPv6 addresses: those mean nothing
    /// without the interface that they were heard on, which a peer's address does not carry.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel does not answer.
    pub(crate) fn all() -> Result<Vec<Self>, Error> {
        let interfaces = ofi_xdp_datapath::interfaces().map_err(|error| {
            log::warn!(target: "core", "cannot list the network interfaces: {error}");
            Error::Os(error.raw_os_error().unwrap_or(libc::EIO))
        })?;
        let mut found = Vec::new();
        let values = param::values();
        for facts in interfaces.iter().filter(|facts| facts.up) {
            let nic = Nic::new(facts, &values);
            found.extend(facts.addresses.iter().map(|address| Self {
                ip: address.ip,
                prefix: address.prefix_len.into(),
                nic: nic.clone(),
            }));
        }
        found.sort_by_key(goodness);
        Ok(found)
    }

    /// The network as text, `198.18.0.0/24`: the fabric's name.
    pub(crate) fn network(&self) -> String {
        let network: IpAddr = match self.ip {
            IpAddr::V4(ip) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix.min(32)).unwrap_or(0);
                Ipv4Addr::from_bits(ip.to_bits() & mask).into()
            }
            IpAddr::V6(ip) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix.min(128)).unwrap_or(0);
                Ipv6Addr::from_bits(ip.to_bits() & mask).into()
            }
        };
        format!("{network}/{}", self.prefix)
    }
}

/// The lower, the better: loopback last, IPv4 before IPv6; hardware before virtual links, the
/// faster link, the better tier.
fn goodness(interface: &Interface) -> (bool, bool, bool, Reverse<usize>, u8) {
    let Nic { loopback, physical, speed_bits, forecast, .. } = &interface.nic;
    (*loopback, interface.ip.is_ipv6(), !physical, Reverse(*speed_bits), forecast.rank())
}

impl Nic {
    /// From what the kernel says, with the tier that these variables lead to.
    fn new(facts: &InterfaceFacts, values: &Values) -> Self {
        let forecast = Forecast::new(values.mode, facts, values.broker.as_deref());
        let pci = facts.pci.as_deref().and_then(parse_pci);
        // The bus's view of sysfs is the same in every network namespace.
        let ids = pci.map(|pci| PciIds::read(&Path::new(PCI_DEVICES).join(pci.to_string())));
        Self {
            name: facts.name.clone(),
            driver: facts.driver.clone(),
            address: facts.mac.to_string(),
            mtu: facts.mtu as usize,
            speed_bits: facts.speed_mbps.map_or(0, |megabits| megabits as usize * 1_000_000),
            up: facts.up,
            loopback: facts.loopback,
            physical: facts.physical,
            pci,
            tells_pci: values.pci,
            ids: ids.unwrap_or_default(),
            tiers: described(&forecast, values, facts.xdp),
            forecast,
        }
    }
}

/// How packets will travel, and why not better, for people.
fn described(forecast: &Forecast, values: &Values, features: Option<XdpFeatures>) -> Vec<String> {
    let mut lines = match forecast.tier {
        Tier::Udp => vec!["tier: udp".to_owned()],
        Tier::Xdp(mode) => vec![
            "tier: af_xdp".to_owned(),
            format!("mode: {mode}"),
            values.queue.map_or_else(|| "queue: any".to_owned(), |queue| format!("queue: {queue}")),
        ],
    };
    lines.extend(features.map(offered));
    if !forecast.why_not_better.is_empty() {
        lines.push(format!("not better because: {}", forecast.why_not_better));
    }
    lines
}

/// What a driver says of XDP, for people. Whether a device does what its driver says shows when an
/// endpoint opens.
fn offered(features: XdpFeatures) -> String {
    let what = match features {
        XdpFeatures { zerocopy: true, .. } => "zero-copy",
        XdpFeatures { native: true, .. } => "native mode, no zero-copy",
        _ => "none; generic mode and UDP work",
    };
    format!("driver offers: {what}")
}

fn parse_pci(text: &str) -> Option<Pci> {
    let (domain, rest) = text.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    Some(Pci {
        domain: u16::from_str_radix(domain, 16).ok()?,
        bus: u8::from_str_radix(bus, 16).ok()?,
        device: u8::from_str_radix(device, 16).ok()?,
        function: u8::from_str_radix(function, 16).ok()?,
    })
}

/// The address from which the kernel would send to `destination`; `None` if it has no route.
pub(crate) fn source_towards(destination: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = match destination {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = std::net::UdpSocket::bind((any, 0)).ok()?;
    // Sends nothing: connecting a datagram socket only looks up the route. Port 0 cannot be
    // connected to.
    let port = if destination.port() == 0 { 9 } else { destination.port() };
    socket.connect((destination.ip(), port)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(ip: &str, prefix: u32) -> Interface {
        Interface { ip: ip.parse().unwrap(), prefix, nic: Nic::default() }
    }

    #[test]
    fn networks_are_masked() {
        assert_eq!(interface("198.18.3.77", 24).network(), "198.18.3.0/24");
        assert_eq!(interface("198.18.3.77", 0).network(), "0.0.0.0/0");
        assert_eq!(interface("198.18.3.77", 32).network(), "198.18.3.77/32");
        assert_eq!(interface("2001:db8::5:6", 64).network(), "2001:db8::/64");
    }

    #[test]
    fn pci_addresses_are_parsed() {
        let pci = parse_pci("0000:3b:00.1").unwrap();
        assert_eq!(pci, Pci { domain: 0, bus: 0x3b, device: 0, function: 1 });
        assert_eq!(pci.to_string(), "0000:3b:00.1");
        assert_eq!(parse_pci("virtio0"), None);
    }

    #[test]
    fn makers_numbers_are_read_where_there_are_any() {
        let folder = std::env::temp_dir().join(format!("pci-ids-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("vendor"), "0x15b3\n").unwrap();
        std::fs::write(folder.join("device"), "0x1017\n").unwrap();
        let ids = PciIds::read(&folder);
        assert_eq!(ids.vendor.as_deref(), Some("0x15b3"));
        assert_eq!(ids.device.as_deref(), Some("0x1017"));
        assert_eq!(ids.revision, None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn loopback_is_there_and_last() {
        let all = Interface::all().unwrap();
        let first = all.iter().position(|it| it.nic.loopback).expect("127.0.0.1");
        assert!(all[first..].iter().all(|it| it.nic.loopback));
    }

    #[test]
    fn the_way_to_this_machine_is_loopback() {
        let source = source_towards("127.0.0.1:9".parse().unwrap());
        assert_eq!(source, Some(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
