// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verified transfers: every size, every way to wait, with company, and under fire.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ofi_xdp_statistics::{FOLDER, Page, read_all};
use ofi_xdp_tests::bed::{BRIEF, Bed, PATIENCE, THOROUGH, Transfer};
use ofi_xdp_tests::interrupt;
use ofi_xdp_tests::process::Program;
use ofi_xdp_tests::topology::{LinkOptions, Side};
use ofi_xdp_tests::way::way;

const DRILL: &str = env!("CARGO_BIN_EXE_drill");

/// Runs a thorough transfer in a mode, with `extra` arguments.
fn thorough(mode: &str, extra: &[&str]) -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    let variables = [way(mode)];
    let arguments = [THOROUGH, extra].concat();
    let transfer = Transfer {
        arguments: &arguments,
        server: &variables,
        client: &variables,
        ..Transfer::default()
    };
    let done = bed.transfer(&transfer)?;
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
    thorough("auto", &["--untagged"])
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
    thorough("udp", &["--untagged", "--no-inject"])
}

/// Sleeping in `fi_cq_sread`, and in poll(2) on the completion queue's descriptor.
#[test]
fn root_wait_modes() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    for mode in ["auto", "udp"] {
        for wait in ["sread", "fd"] {
            let variables = [way(mode)];
            let arguments = [BRIEF, &["--wait", wait]].concat();
            let transfer = Transfer {
                arguments: &arguments,
                server: &variables,
                client: &variables,
                ..Transfer::default()
            };
            let done = bed.transfer(&transfer).with_context(|| format!("{mode}, {wait}"))?;
            ensure!(done.report.with.wait == wait);
            // A wake-up that is lost shows as a wait of the sleep's full length (20 ms).
            let median = done.report.latency[1].half_rtt_p50_ns;
            ensure!(median < 5_000_000, "{mode}, {wait}: half a round trip takes {median} ns");
        }
    }
    Ok(())
}

#[test]
fn root_two_endpoints_in_one_process() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    let local = bed.hosts().link(0).v4(Side::A).to_string();
    for mode in ["auto", "udp"] {
        let drill = Program::new(DRILL).args(["pair", &local]).envs([way(mode)]);
        let output = bed.program(Side::A, drill)?.run(Duration::from_secs(30))?.success();
        output.with_context(|| format!("mode {mode}"))?;
    }
    bed.wait_detached()
}

/// Two servers and two clients at once, in four processes: two endpoints on each interface. On one
/// queue the second has the kernel's sockets, on two queues both have AF_XDP; they share the
/// program in either case.
#[test]
fn root_two_processes_on_one_interface() -> anyhow::Result<()> {
    for second_queue in ["0", "1"] {
        let Some(bed) = Bed::with(LinkOptions { queues: 2, ..LinkOptions::default() })? else {
            return Ok(());
        };
        // Generic mode on veth knows queue 0 only.
        let queue = [("FI_XDP_MODE", "copy"), ("FI_XDP_QUEUE", second_queue)];
        let first = Transfer { server: &queue[..1], client: &queue[..1], ..Transfer::default() };
        let second = Transfer { v6: true, server: &queue, client: &queue, ..Transfer::default() };
        let servers = (bed.server(&first)?, bed.server(&second)?);
        let clients = (bed.client(&first)?, bed.client(&second)?);
        let name = |which| format!("{which}, the second on queue {second_queue}");
        Bed::complete(servers.0, clients.0).with_context(|| name("the first"))?;
        Bed::complete(servers.1, clients.1).with_context(|| name("the second"))?;
        bed.wait_detached()?;
    }
    Ok(())
}

/// Datagrams of nonsense at the server's port do not disturb a verified transfer.
#[test]
fn root_garbage_is_dropped() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    for mode in ["auto", "udp"] {
        let variables = [way(mode)];
        let arguments =
            ["--verify", "--time", "1200", "--latency", "64,20000", "--stream", "64x64"];
        let transfer = Transfer {
            arguments: &arguments,
            server: &variables,
            client: &variables,
            ..Transfer::default()
        };
        let server = bed.server(&transfer)?;
        let client = bed.client(&transfer)?;
        let local = bed.hosts().link(0).v4(Side::A).to_string();
        // The endpoint's kernel socket has the endpoint's port.
        let port = interrupt::wait_until("the server's UDP port", PATIENCE, || {
            let ss = Program::new("ss").args(["-uanH", "src", &local]);
            let listed = bed.program(Side::A, ss)?.run(PATIENCE)?.success()?.stdout;
            let port = listed
                .split_whitespace()
                .find_map(|word| word.strip_prefix(&local)?.strip_prefix(':')?.parse::<u16>().ok());
            Ok(port)
        })?;
        let target = format!("{local}:{port}");
        let spray = Program::new(DRILL).args(["spray", &target, "2500"]);
        let sprayed = bed.program(Side::B, spray)?.run(PATIENCE)?.success()?.stdout;
        Bed::complete(server, client).with_context(|| format!("mode {mode}"))?;
        println!("mode {mode}: {}", sprayed.trim());
    }
    Ok(())
}

/// While a transfer runs, the pages of both processes say what is seen from outside; afterwards
/// there are none.
#[test]
fn root_statistics_pages_tell_of_a_transfer() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    let transfer =
        Transfer { arguments: &["--latency", "8", "--time", "4000"], ..Transfer::default() };
    let server = bed.server(&transfer)?;
    let client = bed.client(&transfer)?;
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
    let seen = interrupt::wait_until("busy statistics pages", PATIENCE, || {
        let pages = pages(FOLDER)?;
        Ok((pages.len() == 2 && pages.iter().all(busy)).then_some(pages))
    })?;
    let [one, other] = &seen[..] else { unreachable!("two were waited for") };
    ensure!(one.tier == "AF_XDP skb" && one.interface == bed.interface(), "{one:?}");
    ensure!(one.peers[0].address == other.endpoint, "{one:?} is no peer of {other:?}");
    ensure!(
        one.process == "perf" && one.drops.keys().all(|reason| reason == "duplicate packet"),
        "{one:?}"
    );
    Bed::complete(server, client)?;
    ensure!(pages(FOLDER)?.is_empty(), "a page outlived its endpoint");
    Ok(())
}
