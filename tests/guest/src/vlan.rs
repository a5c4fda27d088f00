// SPDX-License-Identifier: MIT OR Apache-2.0
//! A VLAN over a card with zero-copy: an interface of its own, on which packets travel in generic
//! mode; the kernel puts tags on and takes them off, by the card's offload or without.

use anyhow::ensure;

use crate::cards::Cards;
use crate::suite::Test;
use crate::zerocopy::{TALKATIVE, counter};
use ofi_xdp_tests::bed::{BRIEF, Bed, PATIENCE};
use ofi_xdp_tests::paths;
use ofi_xdp_tests::process::{Output, Program};
use ofi_xdp_tests::topology::Side;

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[("vlan_over_a_card_is_in_generic_mode", generic)];

const VLAN: &str = "vlan5";
/// The hosts' addresses on it.
const ADDRESSES: [&str; 2] = ["198.18.5.1", "198.18.5.2"];

fn generic(cards: &Cards) -> anyhow::Result<()> {
    let bed = &cards.zerocopy;
    for (side, address) in [Side::A, Side::B].into_iter().zip(ADDRESSES) {
        let host = bed.hosts().host(side);
        host.ip(&["link", "add", "link", "link0", "name", VLAN, "type", "vlan", "id", "5"])?;
        host.ip(&["address", "add", &format!("{address}/24"), "dev", VLAN])?;
        host.ip(&["link", "set", VLAN, "up"])?;
    }
    let outcome = transfer(bed);
    for side in [Side::A, Side::B] {
        bed.hosts().host(side).ip(&["link", "del", VLAN])?;
    }
    outcome
}

/// A checked transfer between the hosts' VLAN interfaces.
fn transfer(bed: &Bed) -> anyhow::Result<()> {
    let path = paths::program("perf")?;
    let variables = [TALKATIVE[0], TALKATIVE[1], ("FI_XDP_IFACE", VLAN)];
    let listen = format!("{}:7471", ADDRESSES[0]);
    let server = Program::new(&path).args(["server", "--sessions", "1", "--listen", &listen]);
    let mut server = bed.program(Side::A, server.envs(variables))?.start()?;
    server.wait_for("listening at", PATIENCE)?;
    let client = Program::new(&path).args(["client", &listen]).args(BRIEF).envs(variables);
    let client = bed.program(Side::B, client)?.start()?.finish(2 * PATIENCE)?.success()?;
    let server = server.finish(PATIENCE)?.success()?;
    for output in [&server, &client] {
        held(output)?;
    }
    Ok(())
}

/// The endpoint was on the VLAN, said how, and its packets came by AF_XDP.
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
