// SPDX-License-Identifier: MIT OR Apache-2.0
//! A second driver with zero-copy: igb, whose link goes down for seconds when the XDP program is
//! attached. Only newer emulators have the card; without it these tests say so.

use std::time::Duration;

use anyhow::ensure;

use crate::cards::Cards;
use crate::suite::Test;
use crate::zerocopy::{TALKATIVE, all_over, opened, sockets};
use ofi_xdp_tests::bed::{BRIEF, Bed, Transfer};
use ofi_xdp_tests::topology::Side;

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[("igb_zerocopy_both_ends_bind", both_ends_bind)];

/// How long a transfer may take: the links of both ends come back first.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(90);
/// A peer whose link is down is not dead.
const PATIENT: [(&str, &str); 3] = [TALKATIVE[0], TALKATIVE[1], ("FI_XDP_PEER_TIMEOUT", "40000")];

fn both_ends_bind(cards: &Cards) -> anyhow::Result<()> {
    let Some(bed) = &cards.igb else {
        println!("  NOT RUN: this emulator has no igb (QEMU has it from version 8 on)");
        return Ok(());
    };
    let arguments: Vec<&str> = BRIEF.iter().copied().chain(["--patience", "60000"]).collect();
    let transfer = Transfer {
        arguments: &arguments,
        server: &PATIENT,
        client: &PATIENT,
        ..Transfer::default()
    };
    let server = bed.server(&transfer)?;
    let mut client = bed.client(&transfer)?;
    client.wait_for(" on link0 (", TRANSFER_PATIENCE)?;
    for side in [Side::A, Side::B] {
        let sockets = sockets(bed, side)?;
        ensure!(sockets.contains("zc:1"), "the kernel does not say zero-copy: {sockets}");
    }
    let done = Bed::complete_within(server, client, TRANSFER_PATIENCE)?;
    println!("  {}", opened(&done.client)?.split_once("info").unwrap_or_default().1);
    all_over(&done, "igb")
}
