// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures under load on a card with zero-copy. Every byte of the stream arrives nevertheless.

use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{TIMEOUT, Transfer, Transferred, TwoHostFixture};
use ofi_xdp_harness::{interrupt, paths};

use crate::cards::{Cards, Test};
use crate::zerocopy::{LOG_INFO, all_over_zero_copy, counter, opened, sockets};

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("trouble_out_of_fill_frames", out_of_fill_frames),
    ("trouble_program_detached_under_load", detached_under_load),
    ("trouble_card_down_and_up_under_load", down_and_up),
];

/// A stream that outlasts the failure in it.
const LONG: &[&str] = &["--verify", "--time", "9000", "--stream", "4000x64"];
/// Longer than a stop of the peer, so that it does not count as dead.
const LONG_PEER_TIMEOUT: [(&str, &str); 3] =
    [LOG_INFO[0], LOG_INFO[1], ("FI_XDP_PEER_TIMEOUT", "30000")];
const STREAM: Transfer<'_> = Transfer {
    arguments: LONG,
    server: &LONG_PEER_TIMEOUT,
    client: &LONG_PEER_TIMEOUT,
    v6: false,
    through: &[],
};
/// Duration of the stream before the failure.
const FLOW: Duration = Duration::from_millis(700);

/// Both sides of a running stream, the server (on host A) first.
fn flowing(fixture: &TwoHostFixture) -> anyhow::Result<[RunningProgram; 2]> {
    let server = fixture.server(&STREAM)?;
    let mut client = fixture.client(&STREAM)?;
    let line = client.wait_for(" on link0 (", TIMEOUT)?;
    ensure!(line.contains("AF_XDP zerocopy"), "instead: {line}");
    let before = fixture.redirected(Side::A)?;
    interrupt::wait_until("the stream", TIMEOUT, || {
        Ok(fixture.redirected(Side::A)?.filter(|now| *now > before.unwrap_or(0) + 500))
    })?;
    std::thread::sleep(FLOW);
    Ok([server, client])
}

/// Checks that every byte arrived, and that the server logged the loss of AF_XDP with `reason`.
fn lost_and_went_on(done: &Transferred, reason: &str) -> anyhow::Result<()> {
    let stream = done.report.stream.first().context("no stream was measured")?;
    println!("  {} messages of 4000 bytes arrived whole", stream.messages);
    ensure!(stream.messages > 0, "nothing arrived");
    let lost = done.server.stderr.lines().find(|line| line.contains(" is lost ("));
    let lost = lost.context("the server did not say that it lost AF_XDP")?;
    ensure!(lost.contains(reason), "instead of {reason:?}: {lost}");
    Ok(())
}

/// The receiver is stopped while packets pour in: the card finds no free frame. The stream
/// continues when the receiver does.
fn out_of_fill_frames(cards: &Cards) -> anyhow::Result<()> {
    let fixture = &cards.zerocopy;
    let [server, client] = flowing(fixture)?;
    let stderr = server.stderr();
    let opened = stderr.lines().find(|line| line.contains(" on link0 (")).context("no port")?;
    let address = opened.split_whitespace().find(|word| word.starts_with("198.18.0.1:"));
    let address = address.context("no address")?.trim_end_matches(':');
    let empty_fill =
        |fixture: &TwoHostFixture| number(&sockets(fixture, Side::A)?, "rx fill ring empty:");
    let before = empty_fill(fixture)?;
    server.signal(Signal::SIGSTOP)?;
    let spray = Program::new(paths::program("misbehave")?).args(["spray", address, "2500"]);
    // The emulator drops nothing: when the card has no frame, the sender waits until the end.
    let spray = fixture.program(Side::B, spray)?.start()?;
    let now = interrupt::wait_until("a card without frames", TIMEOUT, || {
        Ok(Some(empty_fill(fixture)?).filter(|now| *now > before))
    })?;
    println!("  no frame to receive into: {} times", now - before);
    server.signal(Signal::SIGCONT)?;
    println!("  {}", spray.finish(TIMEOUT)?.success()?.stdout.trim());
    let done = TwoHostFixture::complete(server, client)?;
    let stream = done.report.stream.first().context("no stream was measured")?;
    println!("  {} messages of 4000 bytes arrived whole", stream.messages);
    ensure!(stream.messages > 0, "nothing arrived");
    ensure!(!done.server.stderr.contains(" is lost ("), "it gave AF_XDP up");
    // Garbage without the version of the protocol came through the kernel.
    ensure!(counter(&done.server, "xsk_received")? > 2048, "the rings were not used again");
    Ok(())
}

/// The number after `what` in the kernel's output.
fn number(text: &str, what: &str) -> anyhow::Result<u64> {
    let (_, rest) = text.split_once(what).with_context(|| format!("no {what:?} in {text}"))?;
    Ok(rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse()?)
}

fn detached_under_load(cards: &Cards) -> anyhow::Result<()> {
    let fixture = &cards.zerocopy;
    let [server, client] = flowing(fixture)?;
    let program =
        fixture.kernel(Side::A).attachment(fixture.interface())?.context("no program")?.program;
    let link = link_of(program)?;
    Program::new("bpftool").args(["link", "detach", "id", &link]).run(TIMEOUT)?.success()?;
    let done = TwoHostFixture::complete(server, client)?;
    lost_and_went_on(&done, "the XDP program was detached")
}

/// The id of the link that attaches a program.
fn link_of(program: u64) -> anyhow::Result<String> {
    let text = Program::new("bpftool").args(["--json", "link"]).run(TIMEOUT)?.success()?.stdout;
    let links: serde_json::Value = serde_json::from_str(&text)?;
    let found = links.as_array().into_iter().flatten().find(|link| link["prog_id"] == program);
    Ok(found.with_context(|| format!("no link of program {program}: {text}"))?["id"].to_string())
}

/// The receiver's card goes down and comes back. Outstanding messages go on over kernel UDP, and
/// the next endpoint has zero-copy again.
fn down_and_up(cards: &Cards) -> anyhow::Result<()> {
    let fixture = &cards.zerocopy;
    let [server, client] = flowing(fixture)?;
    let host = fixture.hosts().host(Side::A);
    host.ip(&["link", "set", "link0", "down"])?;
    std::thread::sleep(Duration::from_millis(300));
    host.ip(&["link", "set", "link0", "up"])?;
    let done = TwoHostFixture::complete(server, client)?;
    lost_and_went_on(&done, "the interface is down")?;
    fixture.wait_detached()?;
    let variables = &LOG_INFO;
    let done = fixture.transfer(&Transfer {
        server: variables,
        client: variables,
        ..Transfer::default()
    })?;
    ensure!(opened(&done.server)?.contains("zerocopy"), "no zero-copy after it came back");
    all_over_zero_copy(&done)
}
