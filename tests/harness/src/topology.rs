// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts: two namespaces, joined by one veth pair or several.
//!
//! Link number `n` has 198.18.n.0/24 (of the range for benchmarks, RFC 2544) and
//! `fd00:198:18:n::/64`; host A is 1 on each, host B is 2.

use anyhow::Context;

use crate::netns::{Namespace, ip};
use crate::relay::{CardRule, End, PathOptions, Relay, Spread};
use ofi_xdp_core::rss::HashFields;

mod link;
mod lossy;
mod routed;

pub use link::{Link, Side};
use lossy::LossyWire;
use routed::RoutedWire;

/// Frames that a TAP device keeps for the relay, which is never that far behind.
const DEVICE_QUEUE: &str = "10000";

/// The congestion control of TCP through a relay: the default of most machines.
const CONGESTION_CONTROL: &str = "cubic";

/// Properties of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkOptions {
    /// IP MTU in bytes.
    pub mtu: u32,
    /// Receive and transmit queues at each end.
    pub queues: u32,
    /// Packets lost in each direction, of a thousand. The link then goes through a bridge, and no
    /// packet on it exceeds the MTU.
    pub loss_per_mille: Option<u32>,
    /// A path through a [relay](crate::relay), with all offloads off and CUBIC as TCP's congestion
    /// control; without `loss_per_mille`.
    pub relay: Option<PathOptions>,
    /// How the card of each host picks the receive queue of a frame, on a link with a relay.
    pub spread: Spread,
    /// A router of the kernel between the hosts. The MTU of its hop to host B; without the others.
    pub hop_mtu: Option<u32>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        let spread = Spread::Hash(HashFields::Ports);
        Self { mtu: 1500, queues: 1, loss_per_mille: None, relay: None, spread, hop_mtu: None }
    }
}

/// Two hosts and their links; removed on drop.
#[derive(Debug)]
pub struct TwoHosts {
    /// The relay of each link that has one. Dropped first: its devices keep their namespace.
    relays: Vec<Option<Relay>>,
    a: Namespace,
    b: Namespace,
    /// The middles of links that lose packets.
    lossy: Vec<LossyWire>,
    /// The middles of links with a router.
    routed: Vec<RoutedWire>,
    links: Vec<Link>,
}

impl TwoHosts {
    /// Two hosts with a link for each entry of `links`: interfaces `link0`, `link1` and so on.
    ///
    /// # Errors
    /// Without privilege, or when `ip` fails.
    pub fn new(links: &[LinkOptions]) -> anyhow::Result<Self> {
        let (a, b) = (Namespace::new("a")?, Namespace::new("b")?);
        let (lossy, routed) = (Vec::new(), Vec::new());
        let mut hosts = Self { a, b, lossy, routed, relays: Vec::new(), links: Vec::new() };
        for options in links {
            hosts.join(*options)?;
        }
        Ok(hosts)
    }

    /// Two hosts, each with one of two devices of this machine that are joined already, as link 0.
    /// The devices return to the machine when the hosts are dropped.
    ///
    /// # Errors
    /// Without privilege, or when `ip` fails.
    pub fn with_devices(devices: [&str; 2]) -> anyhow::Result<Self> {
        let link = Link { interface: String::from("link0"), number: 0 };
        let (a, b) = (Namespace::new("a")?, Namespace::new("b")?);
        let (lossy, routed, relays) = (Vec::new(), Vec::new(), vec![None]);
        let hosts = Self { a, b, lossy, routed, relays, links: vec![link.clone()] };
        for (side, device) in [Side::A, Side::B].into_iter().zip(devices) {
            let host = hosts.host(side).name();
            ip(&["link", "set", device, "netns", host, "name", &link.interface])?;
            hosts.configure(side, &link)?;
        }
        Ok(hosts)
    }

    /// Sets up the end of a link, with its addresses.
    fn configure(&self, side: Side, link: &Link) -> anyhow::Result<()> {
        let (host, interface) = (self.host(side), link.interface.as_str());
        let (v4, v6) = (format!("{}/24", link.v4(side)), format!("{}/64", link.v6(side)));
        host.ip(&["address", "add", &v4, "dev", interface])?;
        host.ip(&["address", "add", &v6, "dev", interface, "nodad"])?;
        host.ip(&["link", "set", interface, "up"])?;
        Ok(())
    }

    /// Adds a link.
    fn join(&mut self, options: LinkOptions) -> anyhow::Result<()> {
        let number = u8::try_from(self.links.len()).context("too many links")?;
        let link = Link { interface: format!("link{number}"), number };
        let (queues, mtu) = (options.queues.to_string(), options.mtu.to_string());
        let end = |namespace| {
            let interface = link.interface.as_str();
            ["name", interface, "netns", namespace, "numrxqueues", &queues, "numtxqueues", &queues]
        };
        let mut relay = None;
        if let Some(path) = options.relay {
            relay = Some(self.relay(&link.interface, path, options)?);
        } else if let Some(loss) = options.loss_per_mille {
            let hosts = [self.a.name(), self.b.name()];
            self.lossy.push(LossyWire::new(&link.interface, hosts, options.mtu, loss)?);
        } else if let Some(hop_mtu) = options.hop_mtu {
            let hosts = [&self.a, &self.b];
            self.routed.push(RoutedWire::new(&link, hosts, options.mtu, hop_mtu)?);
        } else {
            let mut arguments = vec!["link", "add"];
            arguments.extend(end(self.a.name()));
            arguments.extend(["type", "veth", "peer"]);
            arguments.extend(end(self.b.name()));
            ip(&arguments)?;
        }
        for side in [Side::A, Side::B] {
            self.host(side).ip(&["link", "set", &link.interface, "mtu", &mtu])?;
            if options.loss_per_mille.is_some() || relay.is_some() {
                lossy::one_packet_at_a_time(self.host(side), &link.interface)?;
            }
            if options.hop_mtu.is_some() {
                RoutedWire::configure(&link, side, self.host(side))?;
            } else {
                self.configure(side, &link)?;
            }
            if relay.is_some() {
                self.use_congestion_control(side, &link)?;
            }
        }
        self.links.push(link);
        self.relays.push(relay);
        Ok(())
    }

    /// Sets the congestion control of TCP on a link. The default of the machine may be any, and a
    /// namespace may not choose another one as its default; a route may (ip-route(8), `congctl`).
    fn use_congestion_control(&self, side: Side, link: &Link) -> anyhow::Result<()> {
        let (host, interface) = (self.host(side), link.interface.as_str());
        let (v4, source) = (format!("198.18.{}.0/24", link.number), link.v4(side).to_string());
        let v6 = format!("fd00:198:18:{:x}::/64", link.number);
        let via = ["dev", interface, "proto", "kernel"];
        let scope = ["scope", "link", "src", &source, "congctl", CONGESTION_CONTROL];
        host.ip(&[&["route", "change", &v4], &via[..], &scope].concat())?;
        let metric = ["metric", "256", "congctl", CONGESTION_CONTROL];
        host.ip(&[&["-6", "route", "change", &v6], &via[..], &metric].concat())?;
        Ok(())
    }

    /// Makes the interface `interface` of both hosts, joined by a relay.
    fn relay(
        &self,
        interface: &str,
        path: PathOptions,
        options: LinkOptions,
    ) -> anyhow::Result<Relay> {
        let end = |host: &Namespace| -> anyhow::Result<End> {
            Ok(End { namespace: host.open()?, interface: interface.to_owned() })
        };
        let LinkOptions { mtu, queues, spread, .. } = options;
        let card = (queues, &CardRule::new(spread, queues));
        let relay = Relay::start([end(&self.a)?, end(&self.b)?], card, path, mtu)?;
        for host in [&self.a, &self.b] {
            host.ip(&["link", "set", interface, "txqueuelen", DEVICE_QUEUE])?;
        }
        Ok(relay)
    }

    /// The relay of link `number`, if it has one.
    #[must_use]
    pub fn relay_of(&self, number: usize) -> Option<&Relay> {
        self.relays.get(number)?.as_ref()
    }

    /// One of the hosts.
    #[must_use]
    pub fn host(&self, side: Side) -> &Namespace {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// Link `number`.
    ///
    /// # Panics
    /// If there are fewer links.
    #[must_use]
    pub fn link(&self, number: usize) -> &Link {
        &self.links[number]
    }
}
