// SPDX-License-Identifier: MIT OR Apache-2.0
//! The provider under the system's own, unmodified libfabric and its tools.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ofi_xdp_harness::carried::{Carried, LOGGING};
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::{Output, Program};
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::topology::{LinkOptions, Side};
use ofi_xdp_harness::two_hosts::{BRIEF, TIMEOUT, Transfer, TwoHostFixture};

#[test]
fn fi_info_shows_the_provider() -> anyhow::Result<()> {
    let shown = Program::new("fi_info")
        .args(["-p", "xdp", "-v"])
        .envs([("FI_PROVIDER_PATH", paths::provider()?)])
        .run(TIMEOUT)?
        .success()?
        .stdout;
    for wanted in ["prov_name: xdp", "type: FI_EP_RDM", "FI_TAGGED", "FI_MSG"] {
        ensure!(shown.contains(wanted), "fi_info does not show {wanted:?}:\n{shown}");
    }
    Ok(())
}

#[test]
fn fi_info_lists_the_parameters() -> anyhow::Result<()> {
    let shown = Program::new("fi_info")
        .args(["-g", "xdp"])
        .envs([("FI_PROVIDER_PATH", paths::provider()?)])
        .run(TIMEOUT)?
        .success()?
        .stdout;
    let names = [
        "TIER",
        "PASSTHROUGH",
        "IFACE",
        "MODE",
        "QUEUE",
        "STEER",
        "BROKER",
        "PEER_TIMEOUT",
        "SPIN",
        "PCI",
    ];
    for name in names {
        ensure!(shown.contains(&format!("FI_XDP_{name}")), "FI_XDP_{name} is not listed:\n{shown}");
    }
    Ok(())
}

/// `fi_pingpong -p xdp` between the hosts, with a mode for each side.
fn fi_pingpong(
    fixture: &TwoHostFixture,
    modes: [&str; 2],
    (endpoint, messages): (&str, &str),
) -> anyhow::Result<[Output; 2]> {
    let tool = |mode| {
        Program::new("fi_pingpong")
            .args(["-p", "xdp", "-e", endpoint, "-c", "-m", messages, "-I", "400"])
            .envs([tier_variable(mode)])
            .envs((mode == "passthrough").then_some(("FI_XDP_PASSTHROUGH", "tcp")))
    };
    let server = fixture.program(Side::A, tool(modes[0]))?.start()?;
    // The server prints nothing when it listens.
    std::thread::sleep(Duration::from_millis(700));
    let address = fixture.hosts().link(0).v4(Side::A).to_string();
    let client = fixture.program(Side::B, tool(modes[1]).arg(address))?.start()?;
    let client = client.finish(Duration::from_secs(30))?.success()?;
    let server = server.finish(TIMEOUT)?.success()?;
    ensure!(client.stdout.contains("64"), "no figures:\n{}", client.stdout);
    Ok([server, client])
}

#[test]
fn root_fi_pingpong_over_af_xdp() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for messages in ["msg", "tagged"] {
        fi_pingpong(&fixture, ["auto", "auto"], ("rdm", messages))
            .with_context(|| messages.to_owned())?;
    }
    fixture.wait_detached()
}

#[test]
fn root_fi_pingpong_over_udp() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    fi_pingpong(&fixture, ["udp", "udp"], ("rdm", "msg")).map(drop)
}

#[test]
fn root_fi_pingpong_between_af_xdp_and_udp() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    fi_pingpong(&fixture, ["auto", "udp"], ("rdm", "tagged"))?;
    fi_pingpong(&fixture, ["udp", "auto"], ("rdm", "tagged"))?;
    Ok(())
}

/// Connected endpoints, with each pair of tiers. The AF_XDP socket of the first connection is gone
/// before the next one begins.
#[test]
fn root_fi_pingpong_over_connected_endpoints() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for modes in [["auto", "auto"], ["udp", "udp"], ["auto", "udp"], ["udp", "auto"]] {
        for messages in ["msg", "tagged"] {
            fi_pingpong(&fixture, modes, ("msg", messages))
                .with_context(|| format!("{modes:?}, {messages}"))?;
        }
    }
    fixture.wait_detached()
}

/// Connected endpoints of another provider, for which `tcp` stands in.
#[test]
fn root_fi_pingpong_over_connected_endpoints_of_passthrough() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    fi_pingpong(&fixture, ["passthrough"; 2], ("msg", "msg")).map(drop)
}

/// The two ping-pong examples, each as a server for the other.
#[test]
fn root_pingpong_in_rust_and_in_c() -> anyhow::Result<()> {
    examples("pingpong", "round trips", "messages answered")
}

/// The two connected examples, each as a server for the other.
#[test]
fn root_connected_in_rust_and_in_c() -> anyhow::Result<()> {
    examples("connected", "bytes written", "written with data 0x123456789abcdef: hello")
}

/// The example `name` in Rust and in C, each as a server for the other, between two hosts. Client
/// and server print these words when they succeed.
fn examples(name: &str, of_client: &str, of_server: &str) -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let source = paths::workspace().join(format!("examples/c/{name}.c"));
    let in_c = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-c"));
    let compiler = Program::new("cc").args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"]);
    compiler.arg(&in_c).arg(source).arg("-lfabric").run(Duration::from_secs(60))?.success()?;
    let in_rust = paths::program(name)?;
    let local = |side| fixture.hosts().link(0).v4(side).to_string();
    for (server, client) in [(&in_rust, &in_c), (&in_c, &in_rust)] {
        let server = Program::new(server).args(["xdp", &local(Side::A)]);
        let server = fixture.program(Side::A, server)?.start()?;
        // The server prints nothing more once it waits.
        std::thread::sleep(Duration::from_millis(700));
        let client = Program::new(client).args(["xdp", &local(Side::B), &local(Side::A)]);
        let client = fixture.program(Side::B, client)?.run(Duration::from_secs(40))?.success()?;
        let server = server.finish(TIMEOUT)?.success()?;
        ensure!(client.stdout.contains(of_client), "no success: {}", client.stdout);
        ensure!(server.stdout.contains(of_server), "no success: {}", server.stdout);
    }
    Ok(())
}

/// The XDP program's counter proves that messages go through it, on both hosts.
#[test]
fn root_messages_are_redirected_by_the_program() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let transfer =
        Transfer { arguments: &["--latency", "8", "--time", "1500"], ..Transfer::default() };
    let server = fixture.server(&transfer)?;
    let client = fixture.client(&transfer)?;
    let mut seen = [(0, 0); 2];
    for (side, seen) in [Side::A, Side::B].into_iter().zip(&mut seen) {
        let what = format!("an XDP program that redirects on host {side:?}");
        let first = ofi_xdp_harness::interrupt::wait_until(&what, TIMEOUT, || {
            Ok(fixture.redirected(side)?.filter(|count| *count > 0))
        })?;
        std::thread::sleep(Duration::from_millis(200));
        *seen = (first, fixture.redirected(side)?.context("the program is gone")?);
    }
    let done = TwoHostFixture::complete(server, client)?;
    for (first, second) in seen {
        ensure!(second > first, "only {first}, then {second} frames were redirected");
    }
    let round_trips = done.report.latency[0].round_trips;
    println!("{round_trips} round trips; redirected (first, second) {seen:?}");
    fixture.wait_detached()
}

#[test]
fn root_udp_mode_attaches_nothing() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let udp = [tier_variable("udp")];
    let transfer = Transfer { server: &udp, client: &udp, ..Transfer::default() };
    let server = fixture.server(&transfer)?;
    let mut client = fixture.client(&transfer)?;
    while client.is_running()? {
        for side in [Side::A, Side::B] {
            ensure!(fixture.redirected(side)?.is_none(), "UDP mode attached an XDP program");
        }
    }
    TwoHostFixture::complete(server, client).map(drop)
}

/// `fi_info -v` shows the tier that an endpoint would get, and why it is not a better one.
#[test]
fn root_fi_info_tells_the_tier() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let shown = |tier: &str| {
        let tool = Program::new("fi_info").args(["-p", "xdp", "-v"]).envs([("FI_XDP_TIER", tier)]);
        fixture.program(Side::A, tool)?.run_regardless(TIMEOUT)
    };
    let text = shown("af_xdp")?.success()?.stdout;
    for wanted in [
        "name: link0",
        "driver: veth",
        "tier: af_xdp",
        "mode: skb",
        "queue: ",
        "not better because: veth is a virtual link",
        "no passthrough: FI_XDP_TIER=af_xdp",
    ] {
        ensure!(text.contains(wanted), "no {wanted:?} in:\n{text}");
    }
    ensure!(!text.contains("tier: udp"), "loopback has no AF_XDP:\n{text}");
    let text = shown("auto")?.success()?.stdout;
    let (xdp, loopback) = (text.find("tier: af_xdp"), text.find("fi_sockaddr_in://127.0.0.1:"));
    let ordered = xdp.zip(loopback).is_some_and(|(xdp, loopback)| xdp < loopback);
    ensure!(ordered, "the better one comes first:\n{text}");
    ensure!(!text.contains("tier: udp"), "loopback has no nic beside another one:\n{text}");
    let text = shown("udp")?.success()?.stdout;
    ensure!(!text.contains("tier: af_xdp") && text.contains("tier: udp"), "{text}");
    ensure!(text.contains("not better because: kernel sockets were asked for"), "{text}");
    ensure!(!shown("passthrough")?.stdout.contains("provider: xdp"), "there is no hardware here");
    Ok(())
}

/// A datagram is at most as long as the path to the destination passes.
#[test]
fn root_datagrams_fit_the_path() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    let peer = fixture.hosts().link(0).v4(Side::B).to_string();
    let datagrams = ["-p", "xdp", "-t", "FI_EP_DGRAM", "-v", "-n", &peer];
    let shown = || {
        let tool = Program::new("fi_info").args(datagrams);
        anyhow::Ok(fixture.program(Side::A, tool)?.run(TIMEOUT)?.success()?.stdout)
    };
    let text = shown()?;
    ensure!(text.contains("max_msg_size: 1472"), "the interface is the limit:\n{text}");
    let route = ["route", "replace", &peer, "dev", "link0", "mtu", "1000"];
    fixture.program(Side::A, Program::new("ip").args(route))?.run(TIMEOUT)?.success()?;
    let text = shown()?;
    ensure!(text.contains("max_msg_size: 972"), "the path is the limit:\n{text}");
    Ok(())
}

/// Transfers between all pairs of modes that veth supports.
#[test]
fn root_tiers_understand_each_other() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for (server, client) in [("skb", "udp"), ("udp", "skb"), ("copy", "skb"), ("udp", "copy")] {
        let transfer = Transfer {
            server: &[tier_variable(server)],
            client: &[tier_variable(client)],
            ..Transfer::default()
        };
        fixture.transfer(&transfer).with_context(|| format!("server {server}, client {client}"))?;
    }
    Ok(())
}

#[test]
fn root_ipv6() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    for mode in ["auto", "udp"] {
        let variables = [tier_variable(mode)];
        let transfer = Transfer {
            server: &variables,
            client: &variables,
            v6: true,
            arguments: BRIEF,
            ..Transfer::default()
        };
        fixture.transfer(&transfer).with_context(|| format!("mode {mode}"))?;
    }
    Ok(())
}

/// MTUs below and above the usual one of Ethernet.
#[test]
fn root_other_mtu() -> anyhow::Result<()> {
    for mtu in [1300, 3000] {
        let Some(fixture) = TwoHostFixture::with(LinkOptions { mtu, ..LinkOptions::default() })?
        else {
            return Ok(());
        };
        fixture.transfer(&Transfer::default()).with_context(|| format!("MTU {mtu}"))?;
    }
    Ok(())
}

/// An MTU above one frame: packets take several frames (multi-buffer AF_XDP), and packets of long
/// messages are longer than a frame on average.
#[test]
fn root_jumbo_packets() -> anyhow::Result<()> {
    const LONG: [&str; 5] = ["--verify", "--time", "300", "--stream", "65536x16"];
    for mode in ["copy", "skb"] {
        let link = LinkOptions { mtu: 9000, ..LinkOptions::default() };
        let Some(fixture) = TwoHostFixture::with(link)? else { return Ok(()) };
        let variables = [("FI_XDP_MODE", mode), LOGGING[0], LOGGING[1], LOGGING[2]];
        let transfer = Transfer { server: &variables, client: &variables, ..Transfer::default() };
        fixture.transfer(&transfer).with_context(|| format!("mode {mode}"))?;
        let long = fixture.transfer(&Transfer { arguments: &LONG, ..transfer })?;
        let server = Carried::from_log(&long.server.stderr);
        let client = Carried::from_log(&long.client.stderr);
        ensure!(client.through_udp < 50, "by the kernel: {client:?}");
        let average = server.bytes / client.through_xdp.max(1);
        ensure!(average > 4096, "{average} bytes a packet: {server:?}, {client:?}");
    }
    Ok(())
}

/// Four queues, one socket on queue 0: packets that arrive on other queues reach the endpoint
/// through the kernel's socket.
#[test]
fn root_several_queues() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::with(LinkOptions { queues: 4, ..LinkOptions::default() })?
    else {
        return Ok(());
    };
    fixture.transfer(&Transfer::default()).map(drop)
}
