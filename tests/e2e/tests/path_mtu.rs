// SPDX-License-Identifier: MIT OR Apache-2.0
//! A hop in the middle passes shorter packets than the interfaces send, at the start and in
//! mid-stream, with an ICMP message and silently. The tests run over IPv4 and IPv6, AF_XDP and
//! kernel UDP. Every message arrives once and intact, and larger packets are tried again.

use std::net::IpAddr;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_harness::interrupt::wait_until;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::relay::{PathOptions, Relay};
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::topology::{LinkOptions, Side};
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_statistics::{FOLDER, Page, read_all};

const MISBEHAVE: &str = env!("CARGO_BIN_EXE_misbehave");
/// The MTU of the interfaces, and of the hop.
const MTU: u32 = 9000;
const HOP_MTU: u16 = 1400;

/// The path without the hop's limit, and with it.
fn path(hop_mtu: Option<u16>, hop_reports: bool) -> PathOptions {
    PathOptions { hop_mtu, hop_reports, ..PathOptions::default() }
}

/// An echo on host A, its client on host B.
struct Conversation {
    echo: RunningProgram,
    client: RunningProgram,
}

impl Conversation {
    fn begin(fixture: &TwoHostFixture, mode: &str, v6: bool) -> anyhow::Result<Self> {
        let link = fixture.hosts().link(0);
        let address = |side| -> IpAddr { if v6 { link.v6(side) } else { link.v4(side) } };
        let start = |side, arguments: &[&str]| {
            let variables =
                [tier_variable(mode), ("FI_XDP_PATH_RETRY", "2"), ("FI_LOG_LEVEL", "info")];
            let program = Program::new(MISBEHAVE).args(arguments).envs(variables);
            fixture.program(side, program)?.start()
        };
        let mut echo = start(Side::A, &["echo", &address(Side::A).to_string()])?;
        let line = echo.wait_for("name ", TIMEOUT)?;
        let name = line.strip_prefix("name ").context("no name")?;
        let client = start(Side::B, &["converse", &address(Side::B).to_string(), name])?;
        Ok(Self { echo, client })
    }

    /// The counter `name` of the client's engine; 0 while it has no page.
    fn count(&self, name: &str) -> anyhow::Result<u64> {
        count_of(&self.client, name)
    }

    /// Pieces that either side has sent. A short path shows at one side when packets of the other
    /// side are lost as well, for they carry its acknowledgments.
    fn pieces_sent(&self) -> anyhow::Result<u64> {
        Ok(count_of(&self.client, "pieces_sent")? + count_of(&self.echo, "pieces_sent")?)
    }

    /// Waits until the counter `name` has grown by `more`.
    fn grows(&self, name: &str, more: u64) -> anyhow::Result<()> {
        let before = self.count(name)?;
        let grown = || Ok((self.count(name)? >= before + more).then_some(()));
        wait_until(&format!("{more} {name}"), TIMEOUT, grown)
    }

    /// Ends the conversation: all messages in flight have come back, and no peer was given up.
    fn finish(self) -> anyhow::Result<String> {
        ensure!(self.count("peers_failed")? == 0, "a peer was given up");
        self.client.signal(Signal::SIGTERM)?;
        let client = self.client.finish(TIMEOUT)?.success()?;
        self.echo.signal(Signal::SIGKILL)?;
        let line = client.stdout.lines().find(|line| line.starts_with("verified "));
        Ok(line.context("the client said nothing")?.to_owned())
    }
}

/// The counter `name` of a program's engine; 0 while it has no page.
fn count_of(program: &RunningProgram, name: &str) -> anyhow::Result<u64> {
    let pid = program.pid().as_raw().cast_unsigned();
    let pages = read_all(Path::new(FOLDER))?;
    let counter = |page: &Page| page.counters.get(name).copied().unwrap_or(0);
    Ok(pages.iter().find(|page| page.pid == pid).map_or(0, counter))
}

/// Two hosts and the relay between them.
fn fixture(first: PathOptions) -> anyhow::Result<Option<TwoHostFixture>> {
    let relay = Some(first);
    TwoHostFixture::with(LinkOptions { mtu: MTU, relay, ..LinkOptions::default() })
}

fn relay(fixture: &TwoHostFixture) -> anyhow::Result<&Relay> {
    fixture.hosts().relay_of(0).context("no relay")
}

/// A conversation on a path that is short from the start.
fn from_the_start(mode: &str, v6: bool, hop_reports: bool) -> anyhow::Result<()> {
    let Some(fixture) = fixture(path(Some(HOP_MTU), hop_reports))? else { return Ok(()) };
    on_a_short_path(&fixture, mode, v6)
        .with_context(|| format!("{mode}, IPv6 {v6}, ICMP {hop_reports}"))
}

fn on_a_short_path(fixture: &TwoHostFixture, mode: &str, v6: bool) -> anyhow::Result<()> {
    let talk = Conversation::begin(fixture, mode, v6)?;
    talk.grows("messages_accepted", 500)?;
    ensure!(talk.count("path_shrinks")? > 0, "the path did not shrink");
    println!("{mode}, IPv6 {v6}: {}", talk.finish()?);
    Ok(())
}

/// A conversation on a path that becomes short, and long again.
fn in_mid_stream(mode: &str, v6: bool, hop_reports: bool) -> anyhow::Result<()> {
    let Some(fixture) = fixture(path(None, hop_reports))? else { return Ok(()) };
    let mut talk = Conversation::begin(&fixture, mode, v6)?;
    talk.grows("messages_accepted", 200)?;
    let begun = Instant::now();
    relay(&fixture)?.set(path(Some(HOP_MTU), hop_reports))?;
    wait_until("shorter packets", TIMEOUT, || Ok((talk.count("path_shrinks")? > 0).then_some(())))?;
    talk.grows("messages_accepted", 200)?;
    println!("{mode}, IPv6 {v6}, ICMP {hop_reports}: {} ms", begun.elapsed().as_millis());
    // Pages of statistics follow their engines at intervals.
    wait_until("pieces", TIMEOUT, || Ok((talk.pieces_sent()? > 0).then_some(())))?;
    relay(&fixture)?.set(path(None, hop_reports))?;
    // The headers of IP and UDP; full packets have whole words.
    let full = (MTU - if v6 { 48 } else { 28 }) / 8 * 8;
    talk.client.wait_for(&format!("packets of {full} bytes pass"), TIMEOUT)?;
    talk.grows("messages_accepted", 200)?;
    println!("{}", talk.finish()?);
    Ok(())
}

#[test]
fn root_a_short_path_from_the_start() -> anyhow::Result<()> {
    for mode in ["auto", "udp"] {
        for v6 in [false, true] {
            for hop_reports in [false, true] {
                from_the_start(mode, v6, hop_reports)?;
            }
        }
    }
    Ok(())
}

/// The kernel routes: it sends messages of ICMP in one direction, and is silent in the other.
#[test]
fn root_a_router_with_a_short_hop() -> anyhow::Result<()> {
    let hop = LinkOptions { mtu: MTU, hop_mtu: Some(HOP_MTU.into()), ..LinkOptions::default() };
    for mode in ["auto", "udp"] {
        for v6 in [false, true] {
            let Some(fixture) = TwoHostFixture::with(hop)? else { return Ok(()) };
            on_a_short_path(&fixture, mode, v6).with_context(|| format!("{mode}, IPv6 {v6}"))?;
        }
    }
    Ok(())
}

#[test]
fn root_a_path_that_becomes_short_and_long_again() -> anyhow::Result<()> {
    for mode in ["auto", "udp"] {
        for v6 in [false, true] {
            for hop_reports in [false, true] {
                in_mid_stream(mode, v6, hop_reports)
                    .with_context(|| format!("{mode}, IPv6 {v6}, ICMP {hop_reports}"))?;
            }
        }
    }
    Ok(())
}
