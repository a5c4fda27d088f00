// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zero-copy, according to the provider, to the kernel and to the bytes.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::cards::{Cards, Test};
use crate::report;
use ofi_xdp_harness::process::{Output, Program};
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{TIMEOUT, Transfer, Transferred, TwoHostFixture};

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("zerocopy_both_ends_bind_and_the_kernel_agrees", both_ends_bind),
    ("zerocopy_fi_info_says_what_drivers_offer", fi_info),
    ("zerocopy_fi_pingpong", fi_pingpong),
    ("zerocopy_thirty_two_mebibytes_arrive_whole", mebibytes),
    ("slow_zerocopy_one_gibibyte_arrives_whole", one_gibibyte),
];

/// Time limit of a tool of libfabric.
const TOOL_TIMEOUT: Duration = Duration::from_secs(40);

/// The variables that make the provider log its actions.
pub(crate) const LOG_INFO: [(&str, &str); 2] = [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "xdp")];

/// The provider's log line about an opened port.
pub(crate) fn opened(output: &Output) -> anyhow::Result<&str> {
    let line = output.stderr.lines().find(|line| line.contains(" on link0 ("));
    line.with_context(|| format!("{} does not say how packets travel", output.label))
}

/// A counter in the line that the provider logs when an endpoint closes.
pub(crate) fn counter(output: &Output, name: &str) -> anyhow::Result<u64> {
    let line = output.stderr.lines().rev().find(|line| line.contains("PortStats"));
    let line = line.with_context(|| format!("{} told no counters", output.label))?;
    let (_, rest) = line.split_once(&format!("{name}: ")).with_context(|| format!("no {name}"))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

/// The AF_XDP sockets of a host, according to the kernel's socket diagnosis.
pub(crate) fn sockets(fixture: &TwoHostFixture, side: Side) -> anyhow::Result<String> {
    let ss = Program::new("ss").args(["--no-header", "--xdp", "--extended"]);
    Ok(ss.inside(fixture.hosts().host(side))?.run(TIMEOUT)?.success()?.stdout)
}

fn both_ends_bind(cards: &Cards) -> anyhow::Result<()> {
    let fixture = &cards.zerocopy;
    let transfer = Transfer { server: &LOG_INFO, client: &LOG_INFO, ..Transfer::default() };
    let server = fixture.server(&transfer)?;
    let mut client = fixture.client(&transfer)?;
    let line = client.wait_for(" on link0 (", TIMEOUT)?;
    ensure!(line.contains("AF_XDP zerocopy"), "instead: {line}");
    ensure!(line.contains("the kernel agrees: no copies"), "XDP_OPTIONS says nothing: {line}");
    // The kernel's output while both sockets exist.
    for side in [Side::A, Side::B] {
        let sockets = sockets(fixture, side)?;
        println!("  {side:?}: {}", sockets.trim());
        ensure!(sockets.contains("zc:1"), "the kernel does not say zero-copy: {sockets}");
        let program =
            fixture.kernel(side).attachment(fixture.interface())?.context("no program")?;
        ensure!(program.mode == "native", "the program is in mode {}", program.mode);
    }
    let done = TwoHostFixture::complete(server, client)?;
    report::file("zerocopy.log", &done.client.stderr)?;
    // The control connection made the neighbours known.
    let received = done.client.stderr.contains("self-test: a neighbour's answer came in");
    ensure!(received, "the self-test received nothing: {}", done.client.stderr);
    all_over_zero_copy(&done)
}

/// Both ends logged zero-copy, and every packet took it, except packets before the kernel knew the
/// neighbour.
pub(crate) fn all_over_zero_copy(done: &Transferred) -> anyhow::Result<()> {
    all_over(done, "virtio_net")
}

/// The counters of both ends prove zero-copy with this driver.
pub(crate) fn all_over(done: &Transferred, driver: &str) -> anyhow::Result<()> {
    let wanted = format!("AF_XDP zerocopy on link0 ({driver}");
    for output in [&done.server, &done.client] {
        let line = opened(output)?;
        ensure!(line.contains(&wanted), "instead: {line}");
        ensure!(!line.contains("not better because"), "it is not the best: {line}");
        let (xsk, udp) = (counter(output, "xsk_received")?, counter(output, "udp_received")?);
        println!("  {}: {xsk} packets by zero-copy, {udp} by the kernel", output.label);
        ensure!(xsk > 100 && udp < 50, "{xsk} packets came by AF_XDP and {udp} did not");
        ensure!(counter(output, "xsk_transmitted")? > 100, "nothing was sent by AF_XDP");
    }
    Ok(())
}

fn fi_info(cards: &Cards) -> anyhow::Result<()> {
    let drivers = [(&cards.zerocopy, "zero-copy"), (&cards.e1000e, "none; generic mode")];
    for (fixture, wanted) in drivers {
        let tool = Program::new("fi_info").args(["-p", "xdp", "-v"]);
        let tool = fixture.program(Side::A, tool.envs([("FI_XDP_IFACE", "link0")]))?;
        let text = tool.run(TOOL_TIMEOUT)?.success()?.stdout;
        let line = text.lines().find(|line| line.contains("driver offers: "));
        let line = line.context("fi_info says nothing of the driver")?.trim();
        println!("  {line}");
        ensure!(line.contains(wanted), "instead of {wanted}: {line}");
    }
    Ok(())
}

fn fi_pingpong(cards: &Cards) -> anyhow::Result<()> {
    let done = pingpong(&cards.zerocopy, &["-S", "16384"])?;
    for output in &done {
        let line = opened(output)?;
        ensure!(line.contains("AF_XDP zerocopy"), "instead: {line}");
    }
    println!("{}", done[1].stdout.trim_end());
    Ok(())
}

/// libfabric's own ping-pong between the two hosts, every byte checked (`-c`). Returns both
/// outputs, the server's first.
pub(crate) fn pingpong(
    fixture: &TwoHostFixture,
    arguments: &[&str],
) -> anyhow::Result<[Output; 2]> {
    let ip = fixture.hosts().link(0).v4(Side::A);
    let program = || {
        Program::new("fi_pingpong")
            .args(["-p", "xdp", "-e", "rdm", "-c", "-I", "10"])
            .args(arguments)
            .envs(LOG_INFO)
            .envs([("FI_XDP_IFACE", "link0")])
    };
    let server = fixture.program(Side::A, program())?.start()?;
    wait_for_listener(fixture, SocketAddr::new(ip, 47592))?;
    let client = fixture.program(Side::B, program().arg(ip.to_string()))?.start()?;
    let client = client.finish(TOOL_TIMEOUT)?.success()?;
    let server = server.finish(TIMEOUT)?.success()?;
    Ok([server, client])
}

/// Waits until a server listens at a TCP port on host A.
fn wait_for_listener(fixture: &TwoHostFixture, address: SocketAddr) -> anyhow::Result<()> {
    let wanted = format!(":{}", address.port());
    ofi_xdp_harness::interrupt::wait_until("a listener", TIMEOUT, || {
        let ss = Program::new("ss").args(["--no-header", "-ltn"]);
        let text = ss.inside(fixture.hosts().host(Side::A))?.run(TIMEOUT)?.success()?.stdout;
        Ok(text.contains(&wanted).then_some(()))
    })
}

/// A size within the stage's time by emulation on a busy machine.
fn mebibytes(cards: &Cards) -> anyhow::Result<()> {
    transfer(&cards.zerocopy, 32, Duration::from_secs(100))
}

fn one_gibibyte(cards: &Cards) -> anyhow::Result<()> {
    transfer(&cards.zerocopy, 1024, Duration::from_secs(1500))
}

/// Moves `count` messages of a mebibyte; perf checks every byte.
fn transfer(fixture: &TwoHostFixture, count: u64, timeout: Duration) -> anyhow::Result<()> {
    let (number, time) = (count.to_string(), timeout.as_millis().to_string());
    let arguments = ["--verify", "--warm-up", "0", "--timeout", "60000", "--stream", "1048576x4"];
    let bounds = ["--count", &number, "--time", &time];
    let arguments: Vec<&str> = arguments.into_iter().chain(bounds).collect();
    let variables = &LOG_INFO;
    let transfer = Transfer {
        arguments: &arguments,
        server: variables,
        client: variables,
        ..Transfer::default()
    };
    let (server, client) = (fixture.server(&transfer)?, fixture.client(&transfer)?);
    let done = TwoHostFixture::complete_within(server, client, timeout + TIMEOUT)?;
    for output in [&done.client, &done.server] {
        let closing = output.stderr.lines().filter_map(|line| line.split_once("closing: "));
        closing.for_each(|(_, counters)| println!("  {}: {counters}", output.label));
    }
    let stream = done.report.stream.first().context("no stream was measured")?;
    println!("  {} MiB in {:.1} s", stream.messages, stream.seconds);
    ensure!(stream.messages >= count, "{} messages arrived", stream.messages);
    all_over_zero_copy(&done)
}
