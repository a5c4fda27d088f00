// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's man pages, promise by promise, between two cards with zero-copy: a choice in the
//! stage, and where minutes do not matter each page that moves packets, whole, and the traps, as a
//! test of its own. What the other pages promise has nothing to do with a card.

use std::time::Duration;

use anyhow::ensure;

use crate::cards::Cards;
use crate::report;
use crate::suite::Test;
use crate::zerocopy::sockets;
use ofi_xdp_tests::bed::Bed;
use ofi_xdp_tests::paths;
use ofi_xdp_tests::process::Program;
use ofi_xdp_tests::topology::Side;

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

/// One or two promises of each kind of operation: what fits in the stage.
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
/// How long the choice may take.
const CHOICE_PATIENCE: Duration = Duration::from_secs(120);
/// How long a page may take: by emulation, on a machine that is busy with other things.
const PAGE_PATIENCE: Duration = Duration::from_secs(1500);

/// How long one promise may take, in seconds, and one of the longest on such a machine.
const LIMIT: &str = "100";
const PAGE_LIMIT: &str = "300";

fn choice(cards: &Cards) -> anyhow::Result<()> {
    promises(&cards.zerocopy, "choice", &CHOICE, (CHOICE_PATIENCE, LIMIT))
}

fn page(cards: &Cards, page: &str) -> anyhow::Result<()> {
    promises(&cards.zerocopy, page.trim_end_matches(':'), &[page], (PAGE_PATIENCE, PAGE_LIMIT))
}

/// The conformance suite's tests of these names, with every second endpoint on the other host.
fn promises(
    bed: &Bed,
    what: &str,
    names: &[&str],
    (patience, limit): (Duration, &str),
) -> anyhow::Result<()> {
    let (a, b) = (bed.hosts().link(0).v4(Side::A), bed.hosts().link(0).v4(Side::B));
    let other = format!("{}={b}", bed.hosts().host(Side::B).name());
    let suite = Program::new(paths::program("conformance")?)
        .args(["--node", &a.to_string(), "--other", &other, "--jobs", "1", "--limit", limit])
        .args(names.iter().flat_map(|name| ["--filter", name]))
        .envs([("FI_XDP_IFACE", "link0")]);
    bed.wait_detached()?;
    let before = [bed.redirected(Side::A)?, bed.redirected(Side::B)?];
    ensure!(before == [None, None], "somebody else is at the cards");
    let mut running = bed.program(Side::A, suite)?.start()?;
    // Whose packets they are: the sockets are there while the suite runs.
    let mut seen = 0;
    while running.is_running()? && seen < 2 {
        let both = [sockets(bed, Side::A)?, sockets(bed, Side::B)?];
        seen = both.iter().filter(|sockets| sockets.contains("zc:1")).count();
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = running.finish(patience)?;
    report::file(&format!("conformance-{what}.txt"), &output.stdout)?;
    for line in output.stdout.lines().filter(|line| line.starts_with("FAIL")) {
        println!("  {line}");
    }
    println!("  {}", output.stdout.lines().last().unwrap_or_default());
    output.success()?;
    ensure!(seen == 2, "the endpoints had no zero-copy sockets on both hosts");
    Ok(())
}
