// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards that cannot do zero-copy: the provider takes the next best by itself, and says why.

use anyhow::ensure;

use crate::cards::Cards;
use crate::suite::Test;
use crate::zerocopy::{TALKATIVE, counter, opened, sockets};
use ofi_xdp_tests::bed::{Bed, Transfer};
use ofi_xdp_tests::topology::Side;
use ofi_xdp_tests::way::way;

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("fallback_without_iommu_platform_to_copy", to_copy),
    ("fallback_without_xdp_in_the_driver_to_skb", to_skb),
];

/// The negative control: the same card, whose buffers the kernel does not map.
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

/// A checked transfer that is in mode `auto`'s or another's fall-back; what the provider said why.
fn degraded(bed: &Bed, mode: &str, wanted: &str) -> anyhow::Result<String> {
    let variables = [TALKATIVE[0], TALKATIVE[1], way(mode)];
    let transfer = Transfer { server: &variables, client: &variables, ..Transfer::default() };
    let done = bed.transfer(&transfer)?;
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
        ensure!(!sockets(bed, side)?.contains("zc:1"), "somebody has zero-copy after all");
    }
    Ok(reason)
}
