// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VLAN over a card with zero-copy: an interface of its own in generic mode. The kernel adds and
//! removes the tags, with or without the card's offload.

use anyhow::ensure;

use crate::cards::{Cards, Test};
use crate::zerocopy::{LOG_INFO, counter};
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::{Output, Program};
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{BRIEF, TIMEOUT, TwoHostFixture};

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[("vlan_over_a_card_is_in_generic_mode", generic)];

const VLAN: &str = "vlan5";
/// The hosts' addresses on the VLAN.
const ADDRESSES: [&str; 2] = ["198.18.5.1", "198.18.5.2"];

fn generic(cards: &Cards) -> anyhow::Result<()> {
    let fixture = &cards.zerocopy;
    for (side, address) in [Side::A, Side::B].into_iter().zip(ADDRESSES) {
        let host = fixture.hosts().host(side);
        host.ip(&["link", "add", "link", "link0", "name", VLAN, "type", "vlan", "id", "5"])?;
        host.ip(&["address", "add", &format!("{address}/24"), "dev", VLAN])?;
        host.ip(&["link", "set", VLAN, "up"])?;
    }
    let outcome = transfer(fixture);
    for side in [Side::A, Side::B] {
        fixture.hosts().host(side).ip(&["link", "del", VLAN])?;
    }
    outcome
}

/// A checked transfer between the hosts' VLAN interfaces.
fn transfer(fixture: &TwoHostFixture) -> anyhow::Result<()> {
    let path = paths::program("xdp-perf")?;
    let variables = [LOG_INFO[0], LOG_INFO[1], ("FI_XDP_IFACE", VLAN)];
    let listen = format!("{}:7471", ADDRESSES[0]);
    let server = Program::new(&path).args(["--sessions", "1", "--listen", &listen]);
    let mut server = fixture.program(Side::A, server.envs(variables))?.start()?;
    server.wait_for("listening at", TIMEOUT)?;
    let client = Program::new(&path).args([&listen, "--json"]).args(BRIEF).envs(variables);
    let client = fixture.program(Side::B, client)?.start()?.finish(2 * TIMEOUT)?.success()?;
    let server = server.finish(TIMEOUT)?.success()?;
    for output in [&server, &client] {
        held(output)?;
    }
    Ok(())
}

/// Checks that the endpoint was on the VLAN, logged its tier, and received through AF_XDP.
fn held(output: &Output) -> anyhow::Result<()> {
    let wanted = format!("AF_XDP skb on {VLAN} (vlan, ");
    let line = output.stderr.lines().find(|line| line.contains(&wanted));
    let Some(line) = line else { anyhow::bail!("no {wanted:?} in {}", output.stderr) };
    println!("  {}", line.split_once("info").map_or(line, |(_, rest)| rest));
    let why = "not better because: vlan is a virtual link, where generic mode is the fastest";
    ensure!(line.contains(why), "why not better: {line}");
    let (xsk, udp) = (counter(output, "xsk_received")?, counter(output, "udp_received")?);
    println!("  {}: {xsk} packets by AF_XDP, {udp} by the kernel", output.label);
    ensure!(xsk > 100, "{xsk} packets came by AF_XDP and {udp} did not");
    Ok(())
}
