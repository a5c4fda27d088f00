// SPDX-License-Identifier: MIT OR Apache-2.0
//! Things go wrong: missing privilege, wrong parameters, peers that die.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_tests::bed::{Bed, PATIENCE, Transfer, warnings};
use ofi_xdp_tests::interrupt;
use ofi_xdp_tests::process::{Program, Running};
use ofi_xdp_tests::topology::{LinkOptions, Side};
use ofi_xdp_tests::way::way;

const DRILL: &str = env!("CARGO_BIN_EXE_drill");

/// Without a capability the client falls to kernel sockets, says so once, and works.
#[test]
fn root_without_privilege_it_falls_to_udp_with_one_warning() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    let transfer = Transfer {
        through: &["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"],
        client: &[("FI_LOG_LEVEL", "warn")],
        ..Transfer::default()
    };
    let done = bed.transfer(&transfer)?;
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
    let Some(bed) = Bed::new()? else { return Ok(()) };
    let local = bed.hosts().link(0).v4(Side::A).to_string();
    let drill = Program::new(DRILL)
        .args(["sink", &local])
        .envs([("FI_XDP_IFACE", "nosuch0"), ("FI_LOG_LEVEL", "warn")]);
    let output = bed.program(Side::A, drill)?.run(PATIENCE)?;
    ensure!(!output.status.success(), "an interface that does not exist was accepted");
    ensure!(output.stderr.contains("nosuch0"), "it is not named: {}", output.stderr);
    Ok(())
}

#[test]
fn root_a_port_in_use_is_an_error() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    let local = bed.hosts().link(0).v4(Side::A).to_string();
    let drill = || Program::new(DRILL).args(["sink", &local, "--port", "9000"]);
    let mut holder = bed.program(Side::A, drill())?.start()?;
    holder.wait_for("name ", PATIENCE)?;
    let output = bed.program(Side::A, drill())?.run(PATIENCE)?;
    ensure!(!output.status.success(), "two endpoints have one port");
    ensure!(output.stderr.contains("Address already in use"), "instead: {}", output.stderr);
    ensure!(holder.is_running()?, "the first endpoint did not survive the second");
    Ok(())
}

/// A sink on host A, and a flood from host B that flows.
fn flowing(bed: &Bed, mode: &str) -> anyhow::Result<[Running; 2]> {
    let variables = [way(mode), ("FI_XDP_PEER_TIMEOUT", "1500")];
    let local = |side| bed.hosts().link(0).v4(side).to_string();
    let sink = Program::new(DRILL).args(["sink", &local(Side::A)]).envs(variables);
    let mut sink = bed.program(Side::A, sink)?.start()?;
    let line = sink.wait_for("name ", PATIENCE)?;
    let name = line.strip_prefix("name ").context("no name")?;
    let flood = Program::new(DRILL).args(["flood", &local(Side::B), name]).envs(variables);
    let mut flood = bed.program(Side::B, flood)?.start()?;
    flood.wait_for("flowing", PATIENCE)?;
    Ok([sink, flood])
}

/// The number after `word` in a drill's line.
fn number(line: &str, word: &str) -> anyhow::Result<u64> {
    let mut words = line.split_whitespace().skip_while(|w| *w != word);
    let value = words.nth(1).with_context(|| format!("{word:?} is not in {line:?}"))?;
    Ok(value.parse()?)
}

/// A peer killed in mid-stream: every operation under way ends, in an error, within the death time.
#[test]
fn root_a_killed_peer_ends_operations_in_errors() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    for mode in ["auto", "udp"] {
        let [sink, flood] = flowing(&bed, mode)?;
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

/// Whoever is killed leaves no program attached, and the next one finds the interface free.
#[test]
fn root_a_killed_process_leaves_no_program() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    for _ in 0..3 {
        let [sink, flood] = flowing(&bed, "auto")?;
        for side in [Side::A, Side::B] {
            ensure!(bed.redirected(side)?.is_some(), "no program on host {side:?}");
        }
        sink.signal(Signal::SIGKILL)?;
        flood.signal(Signal::SIGKILL)?;
        drop((sink, flood));
        bed.wait_detached()?;
    }
    bed.transfer(&Transfer::default()).map(drop)
}

/// Of two processes on one interface, each with a queue, one is killed: the other goes on over
/// AF_XDP.
#[test]
fn root_a_killed_neighbour_does_not_disturb() -> anyhow::Result<()> {
    let Some(bed) = Bed::with(LinkOptions { queues: 2, ..LinkOptions::default() })? else {
        return Ok(());
    };
    // Generic mode on veth knows queue 0 only.
    let [sink, flood] = flowing(&bed, "copy")?;
    let queue = [("FI_XDP_QUEUE", "1"), ("FI_XDP_MODE", "copy")];
    let transfer = Transfer {
        server: &queue,
        client: &queue,
        arguments: &["--verify", "--latency", "8,3000", "--time", "1500"],
        ..Transfer::default()
    };
    let server = bed.server(&transfer)?;
    let client = bed.client(&transfer)?;
    std::thread::sleep(Duration::from_millis(700));
    sink.signal(Signal::SIGKILL)?;
    flood.signal(Signal::SIGKILL)?;
    drop((sink, flood));
    std::thread::sleep(Duration::from_millis(300));
    let before = bed.redirected(Side::A)?.context("the neighbour took the program along")?;
    interrupt::wait_until("more redirected frames", Duration::from_secs(3), || {
        Ok(bed.redirected(Side::A)?.filter(|now| *now > before))
    })?;
    Bed::complete(server, client)?;
    bed.wait_detached()
}
