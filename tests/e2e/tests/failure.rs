// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures: missing privilege, wrong parameters, peers that die.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::topology::{LinkOptions, Side};
use ofi_xdp_harness::two_hosts::{TIMEOUT, Transfer, TwoHostFixture, warnings};

const MISBEHAVE: &str = env!("CARGO_BIN_EXE_misbehave");

/// Without a capability the client falls back to kernel sockets, logs that once, and works.
#[test]
fn root_without_privilege_it_falls_to_udp_with_one_warning() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let transfer = Transfer {
        through: &["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"],
        client: &[("FI_LOG_LEVEL", "warn")],
        ..Transfer::default()
    };
    let done = fixture.transfer(&transfer)?;
    let warnings = warnings(&done.client.stderr);
    ensure!(warnings.len() == 1, "{} warnings instead of one: {warnings:#?}", warnings.len());
    for wanted in ["CAP_", "setcap"] {
        ensure!(
            warnings[0].contains(wanted),
            "the warning does not name {wanted}: {}",
            warnings[0]
        );
    }
    Ok(())
}

#[test]
fn root_an_unknown_interface_is_an_error() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let local = fixture.hosts().link(0).v4(Side::A).to_string();
    let misbehave = Program::new(MISBEHAVE)
        .args(["sink", &local])
        .envs([("FI_XDP_IFACE", "nosuch0"), ("FI_LOG_LEVEL", "warn")]);
    let output = fixture.program(Side::A, misbehave)?.run(TIMEOUT)?;
    ensure!(!output.status.success(), "an interface that does not exist was accepted");
    ensure!(output.stderr.contains("nosuch0"), "it is not named: {}", output.stderr);
    Ok(())
}

#[test]
fn root_a_port_in_use_is_an_error() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let local = fixture.hosts().link(0).v4(Side::A).to_string();
    let misbehave = || Program::new(MISBEHAVE).args(["sink", &local, "--port", "9000"]);
    let mut holder = fixture.program(Side::A, misbehave())?.start()?;
    holder.wait_for("name ", TIMEOUT)?;
    let output = fixture.program(Side::A, misbehave())?.run(TIMEOUT)?;
    ensure!(!output.status.success(), "two endpoints have one port");
    ensure!(output.stderr.contains("Address already in use"), "instead: {}", output.stderr);
    ensure!(holder.is_running()?, "the first endpoint did not survive the second");
    Ok(())
}

/// A sink on host A, and a flood from host B that has begun.
fn flowing(fixture: &TwoHostFixture, mode: &str) -> anyhow::Result<[RunningProgram; 2]> {
    let variables = [tier_variable(mode), ("FI_XDP_PEER_TIMEOUT", "1500")];
    let local = |side| fixture.hosts().link(0).v4(side).to_string();
    let sink = Program::new(MISBEHAVE).args(["sink", &local(Side::A)]).envs(variables);
    let mut sink = fixture.program(Side::A, sink)?.start()?;
    let line = sink.wait_for("name ", TIMEOUT)?;
    let name = line.strip_prefix("name ").context("no name")?;
    let flood = Program::new(MISBEHAVE).args(["flood", &local(Side::B), name]).envs(variables);
    let mut flood = fixture.program(Side::B, flood)?.start()?;
    flood.wait_for("flowing", TIMEOUT)?;
    Ok([sink, flood])
}

/// The number after `word` in a line that `misbehave` printed.
fn number(line: &str, word: &str) -> anyhow::Result<u64> {
    let mut words = line.split_whitespace().skip_while(|w| *w != word);
    let value = words.nth(1).with_context(|| format!("{word:?} is not in {line:?}"))?;
    Ok(value.parse()?)
}

/// A peer is killed in mid-stream: every outstanding operation ends in an error within the peer
/// time-out.
#[test]
fn root_a_killed_peer_ends_operations_in_errors() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for mode in ["auto", "udp"] {
        let [sink, flood] = flowing(&fixture, mode)?;
        sink.signal(Signal::SIGKILL)?;
        let killed = Instant::now();
        let output = flood.finish(Duration::from_secs(10))?.success()?;
        let took = killed.elapsed();
        let line = output.stdout.lines().last().context("the flood said nothing")?;
        println!("mode {mode}: {line}; {} ms after the kill", took.as_millis());
        let count = |word| number(line, word);
        ensure!(count("failed")? > 0, "nothing failed: {line}");
        ensure!(
            count("completed")? + count("failed")? == count("posted")?,
            "some are lost: {line}"
        );
        ensure!(count("errno")? != 0, "no reason: {line}");
        ensure!(took < Duration::from_millis(1500 + 1500), "it took {} ms", took.as_millis());
    }
    Ok(())
}

/// A killed process leaves no program attached, and the next process finds the interface free.
#[test]
fn root_a_killed_process_leaves_no_program() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for _ in 0..3 {
        let [sink, flood] = flowing(&fixture, "auto")?;
        for side in [Side::A, Side::B] {
            ensure!(fixture.redirected(side)?.is_some(), "no program on host {side:?}");
        }
        sink.signal(Signal::SIGKILL)?;
        flood.signal(Signal::SIGKILL)?;
        drop((sink, flood));
        fixture.wait_detached()?;
    }
    fixture.transfer(&Transfer::default()).map(drop)
}

/// Of two processes on one interface, each with a queue, one is killed: the other goes on over
/// AF_XDP.
#[test]
fn root_a_killed_neighbour_does_not_disturb() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::with(LinkOptions { queues: 2, ..LinkOptions::default() })?
    else {
        return Ok(());
    };
    // Generic mode on veth has queue 0 only.
    let [sink, flood] = flowing(&fixture, "copy")?;
    let queue = [("FI_XDP_QUEUE", "1"), ("FI_XDP_MODE", "copy")];
    let transfer = Transfer {
        server: &queue,
        client: &queue,
        arguments: &["--verify", "--latency", "8,3000", "--time", "1500"],
        ..Transfer::default()
    };
    let server = fixture.server(&transfer)?;
    let client = fixture.client(&transfer)?;
    std::thread::sleep(Duration::from_millis(700));
    sink.signal(Signal::SIGKILL)?;
    flood.signal(Signal::SIGKILL)?;
    drop((sink, flood));
    std::thread::sleep(Duration::from_millis(300));
    let before = fixture.redirected(Side::A)?.context("the neighbour took the program along")?;
    interrupt::wait_until("more redirected frames", Duration::from_secs(3), || {
        Ok(fixture.redirected(Side::A)?.filter(|now| *now > before))
    })?;
    TwoHostFixture::complete(server, client)?;
    fixture.wait_detached()
}
