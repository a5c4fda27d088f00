// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attacks beside verified traffic over the unmodified libfabric (`docs/PROTOCOL.md` §5.3, §6.4).
//!
//! An echo on host A has a good peer on host B. A hostile peer with another address attacks it. The
//! conversation goes on without an error and not much slower, and a second good peer begins one.
//! Each attack runs on both tiers.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};

const MISBEHAVE: &str = env!("CARGO_BIN_EXE_misbehave");
const HOSTILE: &str = env!("CARGO_BIN_EXE_hostile-peer");
const ECHO_PORT: u16 = 9_100;
const GOOD_PORT: u16 = 9_200;
/// The echo's peer time-out, longer than a conversation is counted: a connection that owes the echo
/// something ends after it, and before its double.
const PEER_TIMEOUT: (&str, &str) = ("FI_XDP_PEER_TIMEOUT", "3000");
/// Messages at a time that match receives of the echo, in the attacks of these names (`PULLS` and
/// `HALVES` in `src/hostile/attacks.rs`).
const PULLS: u32 = 40;
const HALVES: u32 = 8;
/// How long a conversation is counted.
const COUNTED: Duration = Duration::from_millis(1_500);
/// The least part of its messages that a good peer keeps. The engine leaves nine tenths
/// (`core/tests/hostile/beside.rs`); here five processes share the cores.
const KEPT: f64 = 0.6;
/// The least part of the messages beside a flood to a closed port that are left beside a flood to
/// the listener. The programs share the cores with the sender of the flood in both. A closed port
/// sends no cookies.
const KEPT_OF_CLOSED: f64 = 0.8;
/// Most comparisons of the two. Other work on the machine may slow any of their parts.
const FLOOD_ATTEMPTS: u32 = 4;
/// A port without a socket.
const CLOSED_PORT: u16 = 9;
/// The most memory that a listener takes more beside a flood of requests than beside one to a
/// closed port, in bytes. Pages of its connection's buffers count, too, which are up to two
/// mebibytes more in some runs, whatever the flood.
const FLOOD_GROWTH: u64 = 1 << 20;
/// The longest wait of a new peer for the end of its first message.
const NEW_PEER: Duration = Duration::from_millis(100);

/// One program on a host.
fn start(
    fixture: &TwoHostFixture,
    side: Side,
    mode: &str,
    program: Program,
) -> anyhow::Result<RunningProgram> {
    fixture.program(side, program.envs([tier_variable(mode)]))?.start()
}

/// A conversation with the echo called `name`, from the port of the good peer, with arguments of
/// `more`; it has begun.
fn converse(
    fixture: &TwoHostFixture,
    mode: &str,
    name: &str,
    more: &[&str],
) -> anyhow::Result<RunningProgram> {
    let local = fixture.hosts().link(0).v4(Side::B).to_string();
    let port = GOOD_PORT.to_string();
    let program = Program::new(MISBEHAVE).args(["converse", &local, name, "--port", &port]);
    let program = program.args(more);
    let mut client = start(fixture, Side::B, mode, program)?;
    client.wait_for("begun", TIMEOUT)?;
    Ok(client)
}

/// Ends a conversation; the messages that it verified.
fn verified(client: RunningProgram) -> anyhow::Result<u64> {
    client.signal(Signal::SIGTERM)?;
    let output = client.finish(TIMEOUT)?.success()?;
    let line = output.stdout.lines().last().context("the conversation said nothing")?;
    let count = line.split_whitespace().nth(1).with_context(|| format!("no count: {line}"))?;
    Ok(count.parse()?)
}

/// The messages of a new conversation in [`COUNTED`], with `meanwhile` in it.
fn counted<T>(
    fixture: &TwoHostFixture,
    mode: &str,
    name: &str,
    meanwhile: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(u64, T)> {
    let mut client = converse(fixture, mode, name, &[])?;
    let start = Instant::now();
    let done = match meanwhile() {
        // The end of the conversation is the cause of the other failures.
        Err(error) if !client.is_running()? => {
            return Err(error.context(format!("the conversation ended: {}", client.stderr())));
        }
        done => done?,
    };
    std::thread::sleep(COUNTED.saturating_sub(start.elapsed()));
    Ok((verified(client)?, done))
}

/// A new peer sends a message; the time until it was accepted.
fn knock(fixture: &TwoHostFixture, mode: &str, name: &str) -> anyhow::Result<Duration> {
    let local = fixture.hosts().link(0).v4(Side::B).to_string();
    let program = Program::new(MISBEHAVE).args(["knock", &local, name]);
    let output = start(fixture, Side::B, mode, program)?.finish(TIMEOUT)?.success()?;
    let micros = output.stdout.trim().strip_prefix("accepted ").context("no time")?.parse()?;
    Ok(Duration::from_micros(micros))
}

/// The bytes in each direction that a hostile peer reports.
fn bytes(line: &str) -> anyhow::Result<[u64; 2]> {
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [_, sent, _, received] = numbers.try_into().ok().context("not four numbers")?;
    Ok([sent, received])
}

/// An address of host B for the attacker. A host has a share of the pools for all peers at one
/// address (`docs/PROTOCOL.md` §9.1), and the good peers are other hosts.
fn own_address(fixture: &TwoHostFixture) -> anyhow::Result<String> {
    let link = fixture.hosts().link(0);
    let IpAddr::V4(local) = link.v4(Side::B) else { anyhow::bail!("no IPv4 address") };
    let [first, second, third, _] = local.octets();
    let address = format!("{first}.{second}.{third}.66");
    let add = ["address", "add", &format!("{address}/24"), "dev", &link.interface];
    let program = Program::new("ip").args(add);
    fixture.program(Side::B, program)?.run(TIMEOUT)?.success()?;
    Ok(address)
}

/// Runs `attack` beside good peers. Messages of `lies` more may match receives of the echo; the
/// receives end in error. The bytes that the attacker sent and received.
fn withstand(attack: &str, mode: &str, lies: u32) -> anyhow::Result<Option<[u64; 2]>> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(None) };
    let [target, local] = [Side::A, Side::B].map(|side| fixture.hosts().link(0).v4(side));
    let arguments = [target.to_string(), ECHO_PORT.to_string(), lies.to_string()];
    let [echo_local, port, lies_text] = arguments.each_ref().map(String::as_str);
    let arguments = ["echo", echo_local, "--port", port, "--lies", lies_text];
    let echo = Program::new(MISBEHAVE).args(arguments).envs([PEER_TIMEOUT]);
    let mut echo = start(&fixture, Side::A, mode, echo)?;
    let name = echo.wait_for("name ", TIMEOUT)?;
    let name = name.strip_prefix("name ").context("no name")?;

    let (alone, ()) = counted(&fixture, mode, name, || Ok(()))?;
    let endpoint = format!("{target}:{ECHO_PORT}");
    let good = format!("{local}:{GOOD_PORT}");
    let local = own_address(&fixture)?;
    let (attacked, (mut hostile, new)) = counted(&fixture, mode, name, || {
        let arguments = [attack, &local, &endpoint, "--peer", &good];
        let hostile = Program::new(HOSTILE).args(arguments);
        let mut hostile = fixture.program(Side::B, hostile)?.start()?;
        hostile.wait_for("attacking", TIMEOUT)?;
        let new = knock(&fixture, mode, name)?;
        ensure!(hostile.is_running()?, "the attack ended: {}", hostile.stderr());
        Ok((hostile, new))
    })?;
    if lies > 0 {
        echo.wait_for("a receive has failed", TIMEOUT)?;
    }
    ensure!(echo.is_running()?, "the echo ended: {}", echo.stderr());
    ensure!(hostile.is_running()?, "the attack ended: {}", hostile.stderr());
    hostile.signal(Signal::SIGTERM)?;
    let output = hostile.finish(TIMEOUT)?.success()?;
    let line = output.stdout.lines().last().context("the hostile peer said nothing")?;
    println!("{mode}: {alone} messages alone, {attacked} beside; a new peer {new:?}; {line}");
    ensure!(attacked as f64 >= KEPT * alone as f64, "{attacked} messages of {alone} are left");
    ensure!(new < NEW_PEER, "a new peer waited for {new:?}");
    bytes(line).map(Some)
}

/// Runs `attack` on both tiers.
fn withstand_on_both(attack: &str) -> anyhow::Result<()> {
    withstand_lies_on_both(attack, 0)
}

/// Runs `attack` on both tiers. Its messages match `lies` receives at a time.
fn withstand_lies_on_both(attack: &str, lies: u32) -> anyhow::Result<()> {
    for mode in ["auto", "udp"] {
        withstand(attack, mode, lies)?;
    }
    Ok(())
}

#[test]
fn root_packets_forged_from_the_address_of_a_peer_change_nothing() -> anyhow::Result<()> {
    withstand_on_both("blind")
}

#[test]
fn root_hellos_from_all_ports_keep_no_peer_out() -> anyhow::Result<()> {
    withstand_on_both("hellos")
}

#[test]
fn root_an_address_that_proves_nothing_gets_no_more_bytes_than_it_sends() -> anyhow::Result<()> {
    for mode in ["auto", "udp"] {
        if let Some([sent, received]) = withstand("amplify", mode, 0)? {
            ensure!(received <= sent, "{received} bytes for {sent}");
            ensure!(received > 0, "nothing was answered: the attack did not reach the echo");
        }
    }
    Ok(())
}

#[test]
fn root_connections_without_progress_keep_no_peer_out() -> anyhow::Result<()> {
    withstand_on_both("holes")
}

#[test]
fn root_messages_that_never_grow_stop_no_message() -> anyhow::Result<()> {
    withstand_on_both("segments")
}

#[test]
fn root_messages_that_none_receives_stop_no_message() -> anyhow::Result<()> {
    withstand_on_both("unmatched")
}

#[test]
fn root_messages_out_of_order_take_no_core() -> anyhow::Result<()> {
    withstand_on_both("out-of-order")
}

#[test]
fn root_hellos_forged_from_the_address_of_a_peer_end_no_connection() -> anyhow::Result<()> {
    withstand_on_both("restart")
}

#[test]
fn root_long_messages_that_are_never_delivered_stop_no_long_message() -> anyhow::Result<()> {
    withstand_lies_on_both("pulls", PULLS)
}

#[test]
fn root_messages_of_which_a_half_came_twice_do_not_complete() -> anyhow::Result<()> {
    withstand_lies_on_both("halves", HALVES)
}

/// The resident memory of a program, in bytes.
fn resident(program: &RunningProgram) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmRSS")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

/// The port of the listener's host that a flood of requests goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flood {
    /// No socket has this port: the flood costs the host its kernel's part, and the sender's.
    ClosedPort,
    /// The listener's.
    Listener,
}

/// The messages of a connection in [`COUNTED`], and the memory of its listener's process after
/// that, beside a `flood`.
fn counted_on_connection(
    fixture: &TwoHostFixture,
    mode: &str,
    flood: Flood,
) -> anyhow::Result<(u64, u64)> {
    let [target, local] = [Side::A, Side::B].map(|side| fixture.hosts().link(0).v4(side));
    let arguments = [target.to_string(), ECHO_PORT.to_string()];
    let arguments = ["echo", &arguments[0], "--port", &arguments[1], "--connected"];
    let mut echo = start(fixture, Side::A, mode, Program::new(MISBEHAVE).args(arguments))?;
    let name = echo.wait_for("name ", TIMEOUT)?;
    let name = name.strip_prefix("name ").context("no name")?;
    let port = match flood {
        Flood::ClosedPort => CLOSED_PORT,
        Flood::Listener => ECHO_PORT,
    };
    let arguments = ["requests", &local.to_string(), &format!("{target}:{port}")];
    let mut hostile = fixture.program(Side::B, Program::new(HOSTILE).args(arguments))?.start()?;
    hostile.wait_for("attacking", TIMEOUT)?;
    // The connection is made beside the attack.
    let asked = Instant::now();
    let client = converse(fixture, mode, name, &["--connected"])?;
    let begun = asked.elapsed();
    std::thread::sleep(COUNTED);
    let memory = resident(&echo)?;
    let count = verified(client)?;
    ensure!(hostile.is_running()?, "the attack ended: {}", hostile.stderr());
    hostile.signal(Signal::SIGTERM)?;
    let report = hostile.finish(TIMEOUT)?.success()?.stdout;
    let said = report.lines().last().unwrap_or_default();
    println!(
        "{mode}, {flood:?}: {count} messages, begun in {begun:?}, {memory} bytes resident; {said}"
    );
    Ok((count, memory))
}

#[test]
fn root_a_flood_of_forged_requests_leaves_connections_as_they_are() -> anyhow::Result<()> {
    for mode in ["auto", "udp"] {
        let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
        // Answers to the forged addresses leave the host, as on a network with a router.
        let gateway = fixture.hosts().link(0).v4(Side::B).to_string();
        let route = Program::new("ip").args(["route", "add", "default", "via", &gateway]);
        fixture.program(Side::A, route)?.run(TIMEOUT)?.success()?;
        let (mut most, mut growth) = (0.0_f64, u64::MAX);
        let mut attempts = 0;
        while (most < KEPT_OF_CLOSED || growth > FLOOD_GROWTH) && attempts < FLOOD_ATTEMPTS {
            let first = counted_on_connection(&fixture, mode, Flood::ClosedPort)?;
            let beside = counted_on_connection(&fixture, mode, Flood::Listener)?;
            let last = counted_on_connection(&fixture, mode, Flood::ClosedPort)?;
            growth = growth.min(beside.1.saturating_sub(first.1.max(last.1)));
            most = most.max(beside.0 as f64 / first.0.min(last.0) as f64);
            attempts += 1;
        }
        ensure!(growth <= FLOOD_GROWTH, "{mode}: the flood takes {growth} bytes at the least");
        ensure!(most >= KEPT_OF_CLOSED, "{mode}: {most:.2} of the messages are left at the most");
    }
    Ok(())
}
