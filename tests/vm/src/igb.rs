// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second driver with zero-copy: igb. Its link goes down for seconds when an XDP program is
//! attached. Without such a card (older emulators) these tests are skipped with a message.

use std::time::Duration;

use anyhow::ensure;

use crate::cards::{Cards, Test};
use crate::zerocopy::{LOG_INFO, all_over, opened, sockets};
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{BRIEF, Transfer, TwoHostFixture};

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[("igb_zerocopy_both_ends_bind", both_ends_bind)];

/// Time limit of a transfer: the links of both ends come back first.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(90);
/// Longer than the outage of the link, so that no peer counts as dead.
const LONG_PEER_TIMEOUT: [(&str, &str); 3] =
    [LOG_INFO[0], LOG_INFO[1], ("FI_XDP_PEER_TIMEOUT", "40000")];

fn both_ends_bind(cards: &Cards) -> anyhow::Result<()> {
    let Some(fixture) = &cards.igb else {
        println!("  NOT RUN: this emulator has no igb (QEMU has it from version 8 on)");
        return Ok(());
    };
    let arguments: Vec<&str> = BRIEF.iter().copied().chain(["--timeout", "60000"]).collect();
    let transfer = Transfer {
        arguments: &arguments,
        server: &LONG_PEER_TIMEOUT,
        client: &LONG_PEER_TIMEOUT,
        ..Transfer::default()
    };
    let server = fixture.server(&transfer)?;
    let mut client = fixture.client(&transfer)?;
    client.wait_for(" on link0 (", TRANSFER_TIMEOUT)?;
    for side in [Side::A, Side::B] {
        let sockets = sockets(fixture, side)?;
        ensure!(sockets.contains("zc:1"), "the kernel does not say zero-copy: {sockets}");
    }
    let done = TwoHostFixture::complete_within(server, client, TRANSFER_TIMEOUT)?;
    println!("  {}", opened(&done.client)?.split_once("info").unwrap_or_default().1);
    all_over(&done, "igb")
}
