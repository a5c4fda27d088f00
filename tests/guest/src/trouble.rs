// SPDX-License-Identifier: MIT OR Apache-2.0
//! What goes wrong under load on a card with zero-copy. Every byte that is sent meanwhile arrives.

use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_tests::bed::{Bed, PATIENCE, Transfer, Transferred};
use ofi_xdp_tests::process::{Program, Running};
use ofi_xdp_tests::topology::Side;
use ofi_xdp_tests::{interrupt, paths};

use crate::cards::Cards;
use crate::suite::Test;
use crate::zerocopy::{TALKATIVE, all_over_zero_copy, counter, opened, sockets};

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("trouble_out_of_fill_frames", out_of_fill_frames),
    ("trouble_program_detached_under_load", detached_under_load),
    ("trouble_card_down_and_up_under_load", down_and_up),
];

/// A stream that is long enough for something to go wrong in it.
const LONG: &[&str] = &["--verify", "--time", "9000", "--stream", "4000x64"];
/// A peer that is stopped for a while is not dead.
const PATIENT: [(&str, &str); 3] = [TALKATIVE[0], TALKATIVE[1], ("FI_XDP_PEER_TIMEOUT", "30000")];
const STREAM: Transfer<'_> =
    Transfer { arguments: LONG, server: &PATIENT, client: &PATIENT, v6: false, through: &[] };
/// How long the stream flows before something happens.
const FLOW: Duration = Duration::from_millis(700);

/// Both sides of a stream that flows, the server (on host A) first.
fn flowing(bed: &Bed) -> anyhow::Result<[Running; 2]> {
    let server = bed.server(&STREAM)?;
    let mut client = bed.client(&STREAM)?;
    let line = client.wait_for(" on link0 (", PATIENCE)?;
    ensure!(line.contains("AF_XDP zerocopy"), "instead: {line}");
    let before = bed.redirected(Side::A)?;
    interrupt::wait_until("the stream", PATIENCE, || {
        Ok(bed.redirected(Side::A)?.filter(|now| *now > before.unwrap_or(0) + 500))
    })?;
    std::thread::sleep(FLOW);
    Ok([server, client])
}

/// Every byte arrived, and the server said that it lost AF_XDP, because of `reason`.
fn lost_and_went_on(done: &Transferred, reason: &str) -> anyhow::Result<()> {
    let stream = done.report.stream.first().context("no stream was measured")?;
    println!("  {} messages of 4000 bytes arrived whole", stream.messages);
    ensure!(stream.messages > 0, "nothing arrived");
    let lost = done.server.stderr.lines().find(|line| line.contains(" is lost ("));
    let lost = lost.context("the server did not say that it lost AF_XDP")?;
    ensure!(lost.contains(reason), "instead of {reason:?}: {lost}");
    Ok(())
}

/// The receiver stands still while packets pour in: the card finds no frame to receive into. When
/// the receiver goes on, so does the stream.
fn out_of_fill_frames(cards: &Cards) -> anyhow::Result<()> {
    let bed = &cards.zerocopy;
    let [server, client] = flowing(bed)?;
    let stderr = server.stderr();
    let opened = stderr.lines().find(|line| line.contains(" on link0 (")).context("no port")?;
    let address = opened.split_whitespace().find(|word| word.starts_with("198.18.0.1:"));
    let address = address.context("no address")?.trim_end_matches(':');
    let starved = |bed: &Bed| number(&sockets(bed, Side::A)?, "rx fill ring empty:");
    let before = starved(bed)?;
    server.signal(Signal::SIGSTOP)?;
    let spray = Program::new(paths::program("drill")?).args(["spray", address, "2500"]);
    // The emulator drops nothing: when the card has no frame the sender waits, until the end.
    let spray = bed.program(Side::B, spray)?.start()?;
    let now = interrupt::wait_until("a card without frames", PATIENCE, || {
        Ok(Some(starved(bed)?).filter(|now| *now > before))
    })?;
    println!("  no frame to receive into: {} times", now - before);
    server.signal(Signal::SIGCONT)?;
    println!("  {}", spray.finish(PATIENCE)?.success()?.stdout.trim());
    let done = Bed::complete(server, client)?;
    let stream = done.report.stream.first().context("no stream was measured")?;
    println!("  {} messages of 4000 bytes arrived whole", stream.messages);
    ensure!(stream.messages > 0, "nothing arrived");
    ensure!(!done.server.stderr.contains(" is lost ("), "it gave AF_XDP up");
    // What the spray sent without our version came by the kernel.
    ensure!(counter(&done.server, "xsk_received")? > 2048, "the rings were not used again");
    Ok(())
}

/// The number after `what` in the kernel's words.
fn number(text: &str, what: &str) -> anyhow::Result<u64> {
    let (_, rest) = text.split_once(what).with_context(|| format!("no {what:?} in {text}"))?;
    Ok(rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse()?)
}

fn detached_under_load(cards: &Cards) -> anyhow::Result<()> {
    let bed = &cards.zerocopy;
    let [server, client] = flowing(bed)?;
    let program = bed.kernel(Side::A).attachment(bed.interface())?.context("no program")?.program;
    let link = link_of(program)?;
    Program::new("bpftool").args(["link", "detach", "id", &link]).run(PATIENCE)?.success()?;
    let done = Bed::complete(server, client)?;
    lost_and_went_on(&done, "the XDP program was detached")
}

/// The id of the link that attaches a program.
fn link_of(program: u64) -> anyhow::Result<String> {
    let text = Program::new("bpftool").args(["--json", "link"]).run(PATIENCE)?.success()?.stdout;
    let links: serde_json::Value = serde_json::from_str(&text)?;
    let found = links.as_array().into_iter().flatten().find(|link| link["prog_id"] == program);
    Ok(found.with_context(|| format!("no link of program {program}: {text}"))?["id"].to_string())
}

/// The card of the receiver goes down and comes back. What is under way goes on over the kernel's
/// UDP, and who opens next has zero-copy again.
fn down_and_up(cards: &Cards) -> anyhow::Result<()> {
    let bed = &cards.zerocopy;
    let [server, client] = flowing(bed)?;
    let host = bed.hosts().host(Side::A);
    host.ip(&["link", "set", "link0", "down"])?;
    std::thread::sleep(Duration::from_millis(300));
    host.ip(&["link", "set", "link0", "up"])?;
    let done = Bed::complete(server, client)?;
    lost_and_went_on(&done, "the interface is down")?;
    bed.wait_detached()?;
    let variables = &TALKATIVE;
    let done =
        bed.transfer(&Transfer { server: variables, client: variables, ..Transfer::default() })?;
    ensure!(opened(&done.server)?.contains("zerocopy"), "no zero-copy after it came back");
    all_over_zero_copy(&done)
}
