// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verified transfers: every size, every way to wait, with other traffic, and with losses.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::topology::{LinkOptions, Side};
use ofi_xdp_harness::two_hosts::{BRIEF, THOROUGH, TIMEOUT, Transfer, TwoHostFixture};
use ofi_xdp_statistics::{FOLDER, Page, read_all};

const MISBEHAVE: &str = env!("CARGO_BIN_EXE_misbehave");

/// Runs a thorough transfer in a mode, with `extra` arguments.
fn thorough(mode: &str, extra: &[&str]) -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let variables = [tier_variable(mode)];
    let arguments = [THOROUGH, extra].concat();
    let transfer = Transfer {
        arguments: &arguments,
        server: &variables,
        client: &variables,
        ..Transfer::default()
    };
    let done = fixture.transfer(&transfer)?;
    ensure!(done.report.verified, "nothing was verified");
    ensure!(done.report.latency.iter().all(|l| l.round_trips > 0), "a size was not measured");
    Ok(())
}

#[test]
fn root_tagged_over_af_xdp() -> anyhow::Result<()> {
    thorough("auto", &[])
}

#[test]
fn root_untagged_over_af_xdp() -> anyhow::Result<()> {
    thorough("auto", &["--operation", "message"])
}

#[test]
fn root_without_inject_over_af_xdp() -> anyhow::Result<()> {
    thorough("auto", &["--no-inject"])
}

#[test]
fn root_tagged_over_udp() -> anyhow::Result<()> {
    thorough("udp", &[])
}

#[test]
fn root_untagged_over_udp() -> anyhow::Result<()> {
    thorough("udp", &["--operation", "message", "--no-inject"])
}

/// Sleeps in `fi_cq_sread`, and in poll(2) on the descriptor of the completion queue.
#[test]
fn root_wait_modes() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for mode in ["auto", "udp"] {
        for wait in ["sread", "fd"] {
            let variables = [tier_variable(mode)];
            let arguments = [BRIEF, &["--wait", wait]].concat();
            let transfer = Transfer {
                arguments: &arguments,
                server: &variables,
                client: &variables,
                ..Transfer::default()
            };
            let done = fixture.transfer(&transfer).with_context(|| format!("{mode}, {wait}"))?;
            ensure!(done.report.with.wait == wait);
            // A lost wake-up shows as a wait of the sleep's full length (20 ms).
            let median = done.report.latency[1].p50_ns;
            ensure!(median < 5_000_000, "{mode}, {wait}: half a round trip takes {median} ns");
        }
    }
    Ok(())
}

#[test]
fn root_two_endpoints_in_one_process() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let local = fixture.hosts().link(0).v4(Side::A).to_string();
    for mode in ["auto", "udp"] {
        let misbehave = Program::new(MISBEHAVE).args(["pair", &local]).envs([tier_variable(mode)]);
        let output = fixture.program(Side::A, misbehave)?.run(Duration::from_secs(30))?.success();
        output.with_context(|| format!("mode {mode}"))?;
    }
    fixture.wait_detached()
}

/// Two servers and two clients at once, in four processes: two endpoints on each interface. On one
/// queue the second endpoint has kernel sockets, on two queues both have AF_XDP. They share the
/// program in either case.
#[test]
fn root_two_processes_on_one_interface() -> anyhow::Result<()> {
    for second_queue in ["0", "1"] {
        let Some(fixture) =
            TwoHostFixture::with(LinkOptions { queues: 2, ..LinkOptions::default() })?
        else {
            return Ok(());
        };
        // Generic mode on veth has queue 0 only.
        let queue = [("FI_XDP_MODE", "copy"), ("FI_XDP_QUEUE", second_queue)];
        let first = Transfer { server: &queue[..1], client: &queue[..1], ..Transfer::default() };
        let second = Transfer { v6: true, server: &queue, client: &queue, ..Transfer::default() };
        let servers = (fixture.server(&first)?, fixture.server(&second)?);
        let clients = (fixture.client(&first)?, fixture.client(&second)?);
        let name = |which| format!("{which}, the second on queue {second_queue}");
        TwoHostFixture::complete(servers.0, clients.0).with_context(|| name("the first"))?;
        TwoHostFixture::complete(servers.1, clients.1).with_context(|| name("the second"))?;
        fixture.wait_detached()?;
    }
    Ok(())
}

/// Garbage datagrams at the server's port do not disturb a verified transfer.
#[test]
fn root_garbage_is_dropped() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for mode in ["auto", "udp"] {
        let variables = [tier_variable(mode)];
        let arguments =
            ["--verify", "--time", "1200", "--latency", "64,20000", "--stream", "64x64"];
        let transfer = Transfer {
            arguments: &arguments,
            server: &variables,
            client: &variables,
            ..Transfer::default()
        };
        let server = fixture.server(&transfer)?;
        let client = fixture.client(&transfer)?;
        let local = fixture.hosts().link(0).v4(Side::A).to_string();
        // The endpoint's kernel socket has the endpoint's port.
        let port = interrupt::wait_until("the server's UDP port", TIMEOUT, || {
            let ss = Program::new("ss").args(["-uanH", "src", &local]);
            let listed = fixture.program(Side::A, ss)?.run(TIMEOUT)?.success()?.stdout;
            let port = listed
                .split_whitespace()
                .find_map(|word| word.strip_prefix(&local)?.strip_prefix(':')?.parse::<u16>().ok());
            Ok(port)
        })?;
        let target = format!("{local}:{port}");
        let spray = Program::new(MISBEHAVE).args(["spray", &target, "2500"]);
        let sprayed = fixture.program(Side::B, spray)?.run(TIMEOUT)?.success()?.stdout;
        TwoHostFixture::complete(server, client).with_context(|| format!("mode {mode}"))?;
        println!("mode {mode}: {}", sprayed.trim());
    }
    Ok(())
}

/// During a transfer, the statistics pages of both processes agree with outside observation;
/// afterwards there are none.
#[test]
fn root_statistics_pages_tell_of_a_transfer() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let transfer =
        Transfer { arguments: &["--latency", "8", "--time", "4000"], ..Transfer::default() };
    let server = fixture.server(&transfer)?;
    let client = fixture.client(&transfer)?;
    let mut pids = [server.pid(), client.pid()].map(|pid| pid.as_raw().cast_unsigned());
    pids.sort_unstable();
    let pages = |folder: &str| -> anyhow::Result<Vec<Page>> {
        let mut pages = read_all(Path::new(folder))?;
        pages.retain(|page| pids.contains(&page.pid));
        pages.sort_by_key(|page| page.pid);
        Ok(pages)
    };
    let busy = |page: &Page| {
        let count = |name: &str| page.counters.get(name).copied().unwrap_or(0);
        count("packets_sent") > 100
            && count("messages_accepted") > 100
            && count("xsk_received") > 100
            && page.verdicts.get("redirected").is_some_and(|frames| *frames > 0)
            && page.peers.first().is_some_and(|peer| peer.established && peer.round_trip_ns > 0)
    };
    let seen = interrupt::wait_until("busy statistics pages", TIMEOUT, || {
        let pages = pages(FOLDER)?;
        Ok((pages.len() == 2 && pages.iter().all(busy)).then_some(pages))
    })?;
    let [one, other] = &seen[..] else { unreachable!("two were waited for") };
    ensure!(one.tier == "AF_XDP skb" && one.interface == fixture.interface(), "{one:?}");
    ensure!(one.peers[0].address == other.endpoint, "{one:?} is no peer of {other:?}");
    ensure!(
        one.process == "xdp-perf" && one.drops.keys().all(|reason| reason == "duplicate packet"),
        "{one:?}"
    );
    TwoHostFixture::complete(server, client)?;
    ensure!(pages(FOLDER)?.is_empty(), "a page outlived its endpoint");
    Ok(())
}
