// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's man pages, promise by promise, between two cards with zero-copy. The stage runs a
//! selection. The slow tests run each page that moves packets, and the traps, as a test of its own.
//! The promises of other pages do not depend on a card.

use std::time::Duration;

use anyhow::ensure;

use crate::cards::{Cards, Test};
use crate::report;
use crate::zerocopy::sockets;
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::TwoHostFixture;

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("zerocopy_conformance_between_two_cards", choice),
    ("slow_zerocopy_conformance_fi_endpoint", |cards| page(cards, "fi_endpoint::")),
    ("slow_zerocopy_conformance_fi_msg", |cards| page(cards, "fi_msg::")),
    ("slow_zerocopy_conformance_fi_tagged", |cards| page(cards, "fi_tagged::")),
    ("slow_zerocopy_conformance_fi_rma", |cards| page(cards, "fi_rma::")),
    ("slow_zerocopy_conformance_fi_atomic", |cards| page(cards, "fi_atomic::")),
    ("slow_zerocopy_conformance_fi_cntr", |cards| page(cards, "fi_cntr::")),
    ("slow_zerocopy_conformance_fi_multi_recv", |cards| page(cards, "fi_multi_recv::")),
    ("slow_zerocopy_conformance_fi_cq", |cards| page(cards, "fi_cq::")),
    ("slow_zerocopy_conformance_fi_trigger", |cards| page(cards, "fi_trigger::")),
    ("slow_zerocopy_conformance_fi_srx_context", |cards| page(cards, "fi_srx_context::")),
    ("slow_zerocopy_conformance_traps", |cards| page(cards, "traps::")),
];

/// One or two promises of each kind of operation, within the time of the stage.
const CHOICE: [&str; 8] = [
    "fi_msg::every_length_arrives_whole",
    "fi_msg::many_outstanding",
    "fi_multi_recv::messages_follow_each_other_in_the_buffer",
    "fi_tagged::messages_match_in_sending_order",
    "fi_rma::every_length_is_written",
    "fi_rma::every_length_is_read",
    "fi_rma::both_directions_at_once",
    "fi_atomic::fetch_atomic_does_every_operation",
];
/// Time limit of the selection.
const CHOICE_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit of a page: by emulation, on a busy machine.
const PAGE_TIMEOUT: Duration = Duration::from_secs(1500);

/// Time limit of one promise in seconds, and of one of the longest on such a machine.
const LIMIT: &str = "100";
const PAGE_LIMIT: &str = "300";

fn choice(cards: &Cards) -> anyhow::Result<()> {
    promises(&cards.zerocopy, "choice", &CHOICE, (CHOICE_TIMEOUT, LIMIT))
}

fn page(cards: &Cards, page: &str) -> anyhow::Result<()> {
    promises(&cards.zerocopy, page.trim_end_matches(':'), &[page], (PAGE_TIMEOUT, PAGE_LIMIT))
}

/// Runs the conformance tests of these names, with every second endpoint on the other host.
fn promises(
    fixture: &TwoHostFixture,
    what: &str,
    names: &[&str],
    (timeout, limit): (Duration, &str),
) -> anyhow::Result<()> {
    let (a, b) = (fixture.hosts().link(0).v4(Side::A), fixture.hosts().link(0).v4(Side::B));
    let other = format!("{}={b}", fixture.hosts().host(Side::B).name());
    let suite = Program::new(paths::program("conformance")?)
        .args(["--node", &a.to_string(), "--other", &other, "--jobs", "1", "--limit", limit])
        .args(names.iter().flat_map(|name| ["--filter", name]))
        .envs([("FI_XDP_IFACE", "link0")]);
    fixture.wait_detached()?;
    let before = [fixture.redirected(Side::A)?, fixture.redirected(Side::B)?];
    ensure!(before == [None, None], "the cards are in use");
    let mut running = fixture.program(Side::A, suite)?.start()?;
    // The AF_XDP sockets exist while the suite runs: they carry its packets.
    let mut seen = 0;
    while running.is_running()? && seen < 2 {
        let both = [sockets(fixture, Side::A)?, sockets(fixture, Side::B)?];
        seen = both.iter().filter(|sockets| sockets.contains("zc:1")).count();
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = running.finish(timeout)?;
    report::file(&format!("conformance-{what}.txt"), &output.stdout)?;
    for line in output.stdout.lines().filter(|line| line.starts_with("FAIL")) {
        println!("  {line}");
    }
    println!("  {}", output.stdout.lines().last().unwrap_or_default());
    output.success()?;
    ensure!(seen == 2, "the endpoints had no zero-copy sockets on both hosts");
    Ok(())
}
