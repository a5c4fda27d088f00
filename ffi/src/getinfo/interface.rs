// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine's network interfaces and their addresses, for `fi_getinfo`.
//!
//! In: the kernel's list, read at each call without privilege. Out: one [`Interface`] for each
//! address. Bound: the addresses of the machine.

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use ofi_xdp_datapath::{ExpectedTier, InterfaceInfo, QUEUES_MAX, Tier, XdpFeatures, uplink};

use crate::sys::errno::Error;
use crate::sys::memory::push;
use crate::sys::param::{self, Values};
use crate::sys::reserve;

const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// One address of one interface, on which a domain is opened.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    /// The address.
    pub(crate) ip: IpAddr,
    /// Length of the network prefix, in bits.
    pub(crate) prefix: u32,
    /// Its position in the kernel's order.
    position: usize,
    /// Whether the loopback interface has the address.
    on_loopback: bool,
    /// The interface by which its packets come.
    pub(crate) nic: Nic,
}

/// The properties of an interface.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nic {
    /// Its name, `eth0`.
    pub(crate) name: String,
    /// The kernel driver, or the kind of virtual device.
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
    /// It is a hardware device.
    pub(crate) physical: bool,
    /// The tier that an endpoint on it is expected to have.
    pub(crate) expected_tier: ExpectedTier,
    /// Its PCI address, if it is on a PCI bus.
    pub(crate) pci: Option<Pci>,
    /// Whether applications see the PCI address (`FI_XDP_PCI`).
    pub(crate) shows_pci: bool,
    /// Its PCI identifiers.
    pub(crate) ids: PciIds,
    /// The tiers, as text for `fi_info -v`.
    pub(crate) tiers: Vec<String>,
}

/// What an interface is, the most suited to reach other hosts first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum InterfaceKind {
    /// A hardware device.
    Hardware,
    /// A virtual link: a veth pair, a bridge, a tunnel.
    Virtual,
    /// The loopback interface.
    Loopback,
}

/// A PCI address.
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

/// The identifiers of a PCI device, as text (`0x8086`); `None`: not known.
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
    /// Reads the device's folder in sysfs.
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
    /// Every address that can be offered, in the order of [`preference`], otherwise in the
    /// kernel's. Interfaces that are down are left out. So are link-local IPv6 addresses: they need
    /// a local interface, which the address of a peer does not carry.
    ///
    /// # Errors
    /// [`Error::Os`] when the kernel does not answer; [`Error::NoMemory`].
    pub(crate) fn all() -> Result<Vec<Self>, Error> {
        let before = reserve::refusals();
        let interfaces = ofi_xdp_datapath::interfaces().map_err(|error| {
            log::warn!(target: "core", "cannot list the network interfaces: {error}");
            Error::Os(error.raw_os_error().unwrap_or(libc::EIO))
        })?;
        let mut found = Vec::new();
        let values = param::values()?;
        for info in interfaces.iter().filter(|info| info.up) {
            let nic = Nic::new(info, &values);
            let [routed_v4, routed_v6] = routed_nics(info, &interfaces, &values);
            for address in &info.addresses {
                // A host may have thousands of addresses: their texts would fill the reserve.
                reserve::check(before)?;
                let (ip, prefix) = (address.ip, address.prefix_len.into());
                let routed = if ip.is_ipv4() { &routed_v4 } else { &routed_v6 };
                let routed = routed.as_ref().filter(|_| !ip.is_loopback());
                let nic = routed.unwrap_or(&nic).clone();
                let (position, on_loopback) = (found.len(), info.loopback);
                push(&mut found, Self { ip, prefix, position, on_loopback, nic })?;
            }
        }
        // The stable sort would allocate.
        found.sort_unstable_by_key(|interface| (preference(interface), interface.position));
        Ok(found)
    }

    /// [`Self::all`], with an entry for `wanted` where it is a further address of the loopback
    /// interface: all of 127.0.0.0/8 is local, although one address is listed.
    ///
    /// # Errors
    /// As [`Self::all`].
    pub(crate) fn all_with(wanted: Option<IpAddr>) -> Result<Vec<Self>, Error> {
        let mut all = Self::all()?;
        let is_like = |it: &&Self, ip: IpAddr| {
            it.nic.loopback && it.ip.is_loopback() && it.ip.is_ipv4() == ip.is_ipv4()
        };
        if let Some(ip) = wanted.filter(IpAddr::is_loopback)
            && !all.iter().any(|it| it.ip == ip)
            && let Some(like) = all.iter().find(|it| is_like(it, ip))
        {
            let further = Self { ip, ..like.clone() };
            push(&mut all, further)?;
        }
        Ok(all)
    }

    /// The interface with the address `ip`, if it is up.
    ///
    /// # Errors
    /// As [`Self::all`].
    pub(crate) fn with_address(ip: IpAddr) -> Result<Option<Self>, Error> {
        Ok(Self::all_with(Some(ip))?.into_iter().find(|it| it.ip == ip))
    }

    /// The name of the fabric: the network, such as `198.18.0.0/24`.
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

/// The interfaces by which packets come for the IPv4 and the IPv6 addresses of the loopback
/// interface that others may reach, as on routed hosts. One address of each version stands for all:
/// a host may have many.
fn routed_nics(info: &InterfaceInfo, all: &[InterfaceInfo], values: &Values) -> [Option<Nic>; 2] {
    [true, false].map(|ipv4| {
        let mut own = info.addresses.iter().map(|address| address.ip);
        let ip = own.find(|ip| info.loopback && !ip.is_loopback() && ip.is_ipv4() == ipv4)?;
        uplink(all, ip).map(|info| Nic::new(info, values))
    })
}

/// Sort key of offers, the best first: loopback is last, then IPv4 before IPv6, hardware before
/// virtual links, the faster link, the better tier.
fn preference(interface: &Interface) -> (bool, bool, bool, Reverse<usize>, u8) {
    let Nic { physical, speed_bits, expected_tier, .. } = &interface.nic;
    (
        interface.on_loopback,
        interface.ip.is_ipv6(),
        !physical,
        Reverse(*speed_bits),
        expected_tier.rank(),
    )
}

impl Nic {
    /// What it is.
    pub(crate) const fn kind(&self) -> InterfaceKind {
        match (self.loopback, self.physical) {
            (true, _) => InterfaceKind::Loopback,
            (false, true) => InterfaceKind::Hardware,
            (false, false) => InterfaceKind::Virtual,
        }
    }

    /// The properties that the kernel reports, with the tier that results from the variables.
    fn new(info: &InterfaceInfo, values: &Values) -> Self {
        let expected_tier = ExpectedTier::new(values.mode, info, values.broker.as_deref());
        let pci = info.pci.as_deref().and_then(parse_pci);
        // The bus's view of sysfs is the same in every network namespace.
        let ids = pci.map(|pci| PciIds::read(&Path::new(PCI_DEVICES).join(pci.to_string())));
        Self {
            name: info.name.clone(),
            driver: info.driver.clone(),
            address: info.mac.to_string(),
            mtu: info.mtu as usize,
            speed_bits: info.speed_mbps.map_or(0, |megabits| megabits as usize * 1_000_000),
            up: info.up,
            loopback: info.loopback,
            physical: info.physical,
            pci,
            shows_pci: values.pci,
            ids: ids.unwrap_or_default(),
            tiers: described(&expected_tier, values, info),
            expected_tier,
        }
    }
}

/// The expected tier, and the reason why it is no better one, as text.
fn described(expected_tier: &ExpectedTier, values: &Values, info: &InterfaceInfo) -> Vec<String> {
    let mut lines = match expected_tier.tier {
        Tier::Udp => vec!["tier: udp".to_owned()],
        Tier::Xdp(mode) => vec!["tier: af_xdp".to_owned(), format!("mode: {mode}"), queues(values)],
    };
    if expected_tier.tier != Tier::Udp {
        lines.extend(ofi_xdp_datapath::spread(info));
    }
    lines.extend(info.xdp.map(offered));
    if !expected_tier.why_not_better.is_empty() {
        lines.push(format!("not better because: {}", expected_tier.why_not_better));
    }
    lines
}

/// The queues that an endpoint asks for, as text.
fn queues(values: &Values) -> String {
    let first = values.queue.map_or_else(|| "any".to_owned(), |queue| queue.to_string());
    match values.queues {
        1 => format!("queue: {first}"),
        QUEUES_MAX => format!("queues: all from {first} on"),
        several => format!("queues: {several} from {first} on"),
    }
}

/// The XDP features that a driver reports, as text. Whether the device has them shows when an
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

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(ip: &str, prefix: u32) -> Interface {
        let (ip, nic) = (ip.parse().unwrap(), Nic::default());
        Interface { ip, prefix, position: 0, on_loopback: false, nic }
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
        let first = all.iter().position(|it| it.on_loopback).expect("127.0.0.1");
        assert!(all[first..].iter().all(|it| it.on_loopback));
    }
}
