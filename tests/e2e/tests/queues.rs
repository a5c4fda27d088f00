// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cards with several receive queues: the packets of every endpoint find its AF_XDP socket.
//!
//! Conversations between two hosts, each with an endpoint of its own on either side. The cards
//! have four queues and spread flows by a Toeplitz hash of addresses and ports, so that one of four
//! flows finds its queue by chance; or of addresses alone, so that no source port helps.

use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_core::rss::HashFields;
use ofi_xdp_harness::interrupt::wait_until;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::relay::{CardRule, PathOptions, Spread};
use ofi_xdp_harness::topology::{LinkOptions, Side};
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_statistics::{FOLDER, read_all};

const MISBEHAVE: &str = env!("CARGO_BIN_EXE_misbehave");
const QUEUES: u32 = 4;
const SPREAD: Spread = Spread::Hash(HashFields::Ports);
/// The part of packets by AF_XDP that is wanted.
const SHARE_MIN: f64 = 0.99;
/// Time of a measurement.
const MEASURED: Duration = Duration::from_millis(500);

/// Received packets.
#[derive(Clone, Copy, Debug, Default)]
struct Received {
    by_xdp: u64,
    by_kernel: u64,
    other_queue: u64,
    messages: u64,
}

/// The variable of clients that send by kernel sockets alone.
const CLIENTS_OF_THE_KERNEL: (&str, &str) = ("FI_XDP_TIER", "udp");

/// The processes of the conversations: first those of host A.
struct Processes {
    all: Vec<RunningProgram>,
    /// The first of them, which receive by AF_XDP.
    measured: usize,
}

impl Processes {
    fn start(
        fixture: &TwoHostFixture,
        conversations: u32,
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        Self::start_with(fixture, conversations, [variables; 2])
    }

    /// Starts the conversations with variables for those of host A and of host B.
    fn start_with(
        fixture: &TwoHostFixture,
        conversations: u32,
        variables: [&[(&str, &str)]; 2],
    ) -> anyhow::Result<Self> {
        let start = |side, arguments: &[&str]| {
            let misbehave = Program::new(MISBEHAVE).args(arguments);
            let misbehave = misbehave.envs([("FI_XDP_MODE", "skb"), ("FI_LOG_LEVEL", "warn")]);
            let variables = variables[side as usize].iter().copied();
            fixture.program(side, misbehave.envs(variables))?.start()
        };
        let [a, b] = [Side::A, Side::B].map(|side| fixture.hosts().link(0).v4(side).to_string());
        let (mut echoes, mut clients) = (Vec::new(), Vec::new());
        for _ in 0..conversations {
            let mut echo = start(Side::A, &["echo", &a])?;
            let line = echo.wait_for("name ", TIMEOUT)?;
            let name = line.strip_prefix("name ").context("no name")?.to_owned();
            let mut client = start(Side::B, &["converse", &b, &name])?;
            client.wait_for("begun", TIMEOUT)?;
            echoes.push(echo);
            clients.push(client);
        }
        let is_udp = variables[1].contains(&CLIENTS_OF_THE_KERNEL);
        let measured = if is_udp { echoes.len() } else { 2 * echoes.len() };
        echoes.append(&mut clients);
        Ok(Self { all: echoes, measured })
    }

    /// What each endpoint on AF_XDP has received so far.
    fn received(&self) -> anyhow::Result<Vec<Received>> {
        let pages = read_all(Path::new(FOLDER))?;
        let of = |process: &RunningProgram| {
            let pid = process.pid().as_raw().cast_unsigned();
            let page = pages.iter().find(|page| page.pid == pid).context("no page")?;
            ensure!(page.tier == "AF_XDP skb", "{}: {}", page.tier, page.why_not_better);
            let count = |name: &str| page.counters.get(name).copied().unwrap_or(0);
            Ok(Received {
                by_xdp: count("xsk_received"),
                by_kernel: count("udp_received"),
                other_queue: count("other_queue"),
                messages: count("messages_accepted"),
            })
        };
        self.all.iter().take(self.measured).map(of).collect()
    }

    /// The least and the total part of packets that endpoints receive by AF_XDP from now on.
    fn share(&self) -> anyhow::Result<(f64, f64)> {
        let before = wait_until("a page of each", TIMEOUT, || Ok(self.received().ok()))?;
        thread::sleep(MEASURED);
        let after = self.received()?;
        let (mut least, mut xdp, mut all) = (1.0_f64, 0, 0);
        for (before, after) in before.iter().zip(&after) {
            ensure!(after.messages > before.messages, "a conversation stands still: {after:?}");
            let by_xdp = after.by_xdp - before.by_xdp;
            let of_all = by_xdp + after.by_kernel - before.by_kernel;
            least = least.min(by_xdp as f64 / of_all as f64);
            (xdp, all) = (xdp + by_xdp, all + of_all);
        }
        let total = xdp as f64 / all as f64;
        println!("by AF_XDP: {total:.4} of {all} packets, the least {least:.4}");
        Ok((least, total))
    }

    /// Ends the conversations: every message has come back once and intact.
    fn finish(self) -> anyhow::Result<()> {
        let mut clients = self.all;
        let echoes: Vec<_> = clients.drain(..clients.len() / 2).collect();
        for client in &clients {
            client.signal(Signal::SIGTERM)?;
        }
        for client in clients {
            let output = client.finish(TIMEOUT)?.success()?;
            let line = output.stdout.lines().find(|line| line.starts_with("verified "));
            println!("{}", line.context("a client said nothing")?);
        }
        echoes.iter().try_for_each(|echo| echo.signal(Signal::SIGKILL))
    }
}

fn fixture(spread: Spread) -> anyhow::Result<Option<TwoHostFixture>> {
    let relay = Some(PathOptions::default());
    TwoHostFixture::with(LinkOptions { queues: QUEUES, relay, spread, ..Default::default() })
}

/// Turns the table of both cards by one queue, while messages are under way.
fn turn(fixture: &TwoHostFixture, rule: &CardRule) -> anyhow::Result<()> {
    let relay = fixture.hosts().relay_of(0).context("no relay")?;
    [0, 1].into_iter().try_for_each(|number| relay.set_card(number, rule.clone()))
}

/// Waits until nearly all packets come by AF_XDP, at most for the time of some hundred round trips.
fn settles(processes: &Processes) -> anyhow::Result<()> {
    let what = format!("{SHARE_MIN} of packets by AF_XDP");
    wait_until(&what, TIMEOUT, || Ok((processes.share()?.1 >= SHARE_MIN).then_some(())))?;
    let (least, total) = processes.share()?;
    ensure!(total >= SHARE_MIN, "{total} of all, {least} of one: ports that work do not stay");
    Ok(())
}

#[test]
fn root_every_endpoint_receives_by_its_own_queue() -> anyhow::Result<()> {
    let Some(fixture) = fixture(SPREAD)? else { return Ok(()) };
    let processes = Processes::start(&fixture, QUEUES, &[])?;
    settles(&processes)?;
    turn(&fixture, &CardRule::new(SPREAD, QUEUES).turned(QUEUES))?;
    settles(&processes)?;
    processes.finish()
}

#[test]
fn root_an_endpoint_on_all_queues_needs_no_port() -> anyhow::Result<()> {
    let spread = Spread::Hash(HashFields::Addresses);
    let Some(fixture) = fixture(spread)? else { return Ok(()) };
    let processes = Processes::start(&fixture, 1, &[("FI_XDP_QUEUES", "all")])?;
    let mut rule = CardRule::new(spread, QUEUES);
    // Every queue has its turn.
    for _ in 0..QUEUES {
        settles(&processes)?;
        rule = rule.turned(QUEUES);
        turn(&fixture, &rule)?;
    }
    let others: u64 = processes.received()?.iter().map(|end| end.other_queue).sum();
    ensure!(others == 0, "{others} packets came by a queue without a socket");
    processes.finish()
}

#[test]
fn root_kernel_sockets_send_from_the_wanted_port() -> anyhow::Result<()> {
    let Some(fixture) = fixture(SPREAD)? else { return Ok(()) };
    // Long packets with the UDP checksum alone would be the kernel's at the receiver, too.
    let kernel = [CLIENTS_OF_THE_KERNEL, ("FI_XDP_CHECKSUM", "full")];
    let processes = Processes::start_with(&fixture, QUEUES, [&[], &kernel])?;
    settles(&processes)?;
    turn(&fixture, &CardRule::new(SPREAD, QUEUES).turned(QUEUES))?;
    settles(&processes)?;
    processes.finish()
}

#[test]
fn root_an_endpoint_that_keeps_its_port_is_served_by_the_kernel() -> anyhow::Result<()> {
    let Some(fixture) = fixture(SPREAD)? else { return Ok(()) };
    let processes = Processes::start(&fixture, QUEUES, &[("FI_XDP_ENTROPY", "no")])?;
    let (least, total) = processes.share()?;
    // Eight flows of one queue in four: that all find it has a chance of 1 in 65,536.
    ensure!(least < SHARE_MIN, "{total} of all, {least} of one");
    let others: u64 = processes.received()?.iter().map(|end| end.other_queue).sum();
    ensure!(others > 0, "the packets of other queues are counted");
    processes.finish()
}
