// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link with a router of the kernel in its middle, in a namespace of its own. Its hop to host B
//! has an MTU of its own.
//!
//! Packets to host B that are too long are dropped, with a message of ICMP (RFC 792, RFC 4443).
//! Those from host B are dropped silently, for the interface does not receive them.

use crate::netns::{Namespace, ip};
use crate::process::Program;
use crate::topology::link::{Link, Side};
use crate::topology::lossy::TOOL_TIMEOUT;

/// The router's number on a link.
const ROUTER: u8 = 254;

/// The namespace in the middle; the hosts' ends are removed with it.
#[derive(Debug)]
pub(super) struct RoutedWire {
    _router: Namespace,
}

impl RoutedWire {
    /// Joins the interface of both hosts. The router's interface to host A has an MTU of `mtu`, the
    /// one to host B of `hop_mtu`.
    pub(super) fn new(
        link: &Link,
        hosts: [&Namespace; 2],
        mtu: u32,
        hop_mtu: u32,
    ) -> anyhow::Result<Self> {
        let router = Namespace::new("router")?;
        let (v4, v6) = (link.v4_of(ROUTER).to_string(), link.v6_of(ROUTER).to_string());
        let ends = [(Side::A, "port0", mtu), (Side::B, "port1", hop_mtu)];
        for ((side, port, mtu), host) in ends.into_iter().zip(hosts) {
            let mut arguments = vec!["link", "add", "name", port, "netns", router.name()];
            arguments.extend(["type", "veth", "peer", "name", &link.interface]);
            arguments.extend(["netns", host.name()]);
            ip(&arguments)?;
            router.ip(&["link", "set", port, "mtu", &mtu.to_string(), "up"])?;
            for (family, own, to) in [("-4", &v4, link.v4(side)), ("-6", &v6, link.v6(side))] {
                let own = format!("{own}/{}", if family == "-4" { 32 } else { 128 });
                let nodad: &[&str] = if family == "-4" { &[] } else { &["nodad"] };
                router.ip(&[&[family, "address", "add", &own, "dev", port][..], nodad].concat())?;
                router.ip(&[family, "route", "add", &to.to_string(), "dev", port])?;
            }
        }
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward &&
            echo 1 > /proc/sys/net/ipv6/conf/all/forwarding";
        let output = Program::new("sh").args(["-c", forward]).inside(&router)?.run(TOOL_TIMEOUT)?;
        output.success()?;
        Ok(Self { _router: router })
    }

    /// Sets up the end of a link: the other host is behind the router.
    pub(super) fn configure(link: &Link, side: Side, host: &Namespace) -> anyhow::Result<()> {
        let interface = link.interface.as_str();
        let (own, router) = (link.v4(side).to_string(), link.v4_of(ROUTER).to_string());
        let behind = format!("{}/24", link.v4_of(0));
        host.ip(&["address", "add", &format!("{own}/32"), "dev", interface])?;
        host.ip(&["link", "set", interface, "up"])?;
        host.ip(&["route", "add", &router, "dev", interface])?;
        host.ip(&["route", "add", &behind, "via", &router, "src", &own])?;
        let (own, router) = (link.v6(side).to_string(), link.v6_of(ROUTER).to_string());
        let behind = format!("{}/64", link.v6_of(0));
        host.ip(&["address", "add", &format!("{own}/128"), "dev", interface, "nodad"])?;
        host.ip(&["-6", "route", "add", &router, "dev", interface])?;
        host.ip(&["-6", "route", "add", &behind, "via", &router, "src", &own])?;
        Ok(())
    }
}
