// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards without zero-copy: the provider falls back to the next best mode and logs the reason.

use anyhow::ensure;

use crate::cards::{Cards, Test};
use crate::zerocopy::{LOG_INFO, counter, opened, sockets};
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{Transfer, TwoHostFixture};

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("fallback_without_iommu_platform_to_copy", to_copy),
    ("fallback_without_xdp_in_the_driver_to_skb", to_skb),
];

/// The negative control: the same card, with buffers that the kernel does not map.
fn to_copy(cards: &Cards) -> anyhow::Result<()> {
    for mode in ["auto", "zerocopy"] {
        let why = degraded(&cards.plain, mode, "AF_XDP copy on link0 (virtio_net")?;
        ensure!(why.contains("zerocopy: bind the AF_XDP socket"), "why not better: {why}");
    }
    Ok(())
}

/// A driver without XDP.
fn to_skb(cards: &Cards) -> anyhow::Result<()> {
    let why = degraded(&cards.e1000e, "auto", "AF_XDP skb on link0 (e1000e")?;
    ensure!(
        why.contains("zerocopy: driver e1000e offers none") && why.contains("copy: "),
        "why not better: {why}"
    );
    Ok(())
}

/// A checked transfer in mode `mode` that falls back; returns the logged reason.
fn degraded(fixture: &TwoHostFixture, mode: &str, wanted: &str) -> anyhow::Result<String> {
    let variables = [LOG_INFO[0], LOG_INFO[1], tier_variable(mode)];
    let transfer = Transfer { server: &variables, client: &variables, ..Transfer::default() };
    let done = fixture.transfer(&transfer)?;
    let mut reason = String::new();
    for output in [&done.server, &done.client] {
        let line = opened(output)?;
        println!("  {}", line.split_once("info").map_or(line, |(_, rest)| rest));
        ensure!(line.contains(wanted), "instead: {line}");
        ensure!(counter(output, "xsk_received")? > 100, "nothing came by AF_XDP");
        let (_, why) = line.split_once("not better because: ").unwrap_or_default();
        reason = why.to_owned();
    }
    for side in [Side::A, Side::B] {
        ensure!(!sockets(fixture, side)?.contains("zc:1"), "a socket has zero-copy");
    }
    Ok(reason)
}
