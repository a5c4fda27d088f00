// SPDX-License-Identifier: MIT OR Apache-2.0
//! A link that loses packets: a bridge between two veth pairs, in a namespace of its own, which
//! drops frames at random (`numgen random`, nft(8)).
//!
//! Packets are dropped in the middle. A queueing discipline at the sender's end sees no AF_XDP
//! frames, and a filter at the receiver's end comes after XDP.

use std::time::Duration;

use anyhow::Context;

use crate::netns::{Namespace, ip};
use crate::process::Program;

/// How long a tool may take.
pub(super) const TOOL_TIMEOUT: Duration = Duration::from_secs(10);
/// The interfaces in the middle.
const PORTS: [&str; 2] = ["port0", "port1"];

/// The namespace in the middle; the hosts' ends are removed with it.
#[derive(Debug)]
pub(super) struct LossyWire {
    _middle: Namespace,
}

impl LossyWire {
    /// Joins `interface` of both hosts, and drops `loss_per_mille` of its frames in each direction.
    pub(super) fn new(
        interface: &str,
        hosts: [&str; 2],
        mtu: u32,
        loss_per_mille: u32,
    ) -> anyhow::Result<Self> {
        let middle = Namespace::new("wire")?;
        let mtu = mtu.to_string();
        middle.ip(&["link", "add", "wire", "type", "bridge"])?;
        for (host, port) in hosts.into_iter().zip(PORTS) {
            let ours = ["name", port, "netns", middle.name(), "type", "veth", "peer"];
            let mut arguments = vec!["link", "add"];
            arguments.extend(ours);
            arguments.extend(["name", interface, "netns", host]);
            ip(&arguments)?;
            middle.ip(&["link", "set", port, "mtu", &mtu, "master", "wire", "up"])?;
            one_packet_at_a_time(&middle, port)?;
        }
        middle.ip(&["link", "set", "wire", "mtu", &mtu, "up"])?;
        // ARP is never dropped: a host that lost a reply would wait for a second, and measure only
        // that.
        let rule = format!(
            "add table bridge wire; \
             add chain bridge wire lose {{ type filter hook forward priority 0; }}; \
             add rule bridge wire lose ether type ip numgen random mod 1000 < {loss_per_mille} drop"
        );
        tool(&middle, "nft", &[&rule])?;
        Ok(Self { _middle: middle })
    }
}

/// Disables the offloads that merge several packets into one frame, which would be lost as a whole.
pub(super) fn one_packet_at_a_time(host: &Namespace, interface: &str) -> anyhow::Result<()> {
    let offloads = ["tso", "off", "gso", "off", "gro", "off", "tx-udp-segmentation", "off"];
    let mut arguments = vec!["-K", interface];
    arguments.extend(offloads);
    tool(host, "ethtool", &arguments)
}

fn tool(host: &Namespace, name: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let program = Program::new(name).args(arguments).inside(host)?;
    let output = program.run(TOOL_TIMEOUT).with_context(|| format!("{name} (package {name})"))?;
    output.success().map(drop)
}
