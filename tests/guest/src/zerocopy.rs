// SPDX-License-Identifier: MIT OR Apache-2.0
//! Zero-copy is what it says: the provider, the kernel and the bytes agree.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::cards::Cards;
use crate::report;
use crate::suite::Test;
use ofi_xdp_tests::bed::{Bed, PATIENCE, Transfer, Transferred};
use ofi_xdp_tests::process::{Output, Program};
use ofi_xdp_tests::topology::Side;

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("zerocopy_both_ends_bind_and_the_kernel_agrees", both_ends_bind),
    ("zerocopy_fi_info_says_what_drivers_offer", fi_info),
    ("zerocopy_fi_pingpong", fi_pingpong),
    ("zerocopy_thirty_two_mebibytes_arrive_whole", mebibytes),
    ("slow_zerocopy_one_gibibyte_arrives_whole", one_gibibyte),
];

/// How long a tool of libfabric may take.
const TOOL_PATIENCE: Duration = Duration::from_secs(40);

/// The variables that make the provider tell what it does.
pub(crate) const TALKATIVE: [(&str, &str); 2] = [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "xdp")];

/// What the provider said of the port that it opened.
pub(crate) fn opened(output: &Output) -> anyhow::Result<&str> {
    let line = output.stderr.lines().find(|line| line.contains(" on link0 ("));
    line.with_context(|| format!("{} does not say how packets travel", output.label))
}

/// A number of the counters that the provider tells when an endpoint closes.
pub(crate) fn counter(output: &Output, name: &str) -> anyhow::Result<u64> {
    let line = output.stderr.lines().rev().find(|line| line.contains("PortStats"));
    let line = line.with_context(|| format!("{} told no counters", output.label))?;
    let (_, rest) = line.split_once(&format!("{name}: ")).with_context(|| format!("no {name}"))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

/// The AF_XDP sockets of a host, as the kernel's socket diagnosis has them.
pub(crate) fn sockets(bed: &Bed, side: Side) -> anyhow::Result<String> {
    let ss = Program::new("ss").args(["--no-header", "--xdp", "--extended"]);
    Ok(ss.inside(bed.hosts().host(side))?.run(PATIENCE)?.success()?.stdout)
}

fn both_ends_bind(cards: &Cards) -> anyhow::Result<()> {
    let bed = &cards.zerocopy;
    let transfer = Transfer { server: &TALKATIVE, client: &TALKATIVE, ..Transfer::default() };
    let server = bed.server(&transfer)?;
    let mut client = bed.client(&transfer)?;
    let line = client.wait_for(" on link0 (", PATIENCE)?;
    ensure!(line.contains("AF_XDP zerocopy"), "instead: {line}");
    ensure!(line.contains("the kernel agrees: no copies"), "XDP_OPTIONS says nothing: {line}");
    // The kernel's own words, while both are there.
    for side in [Side::A, Side::B] {
        let sockets = sockets(bed, side)?;
        println!("  {side:?}: {}", sockets.trim());
        ensure!(sockets.contains("zc:1"), "the kernel does not say zero-copy: {sockets}");
        let program = bed.kernel(side).attachment(bed.interface())?.context("no program")?;
        ensure!(program.mode == "native", "the program is in mode {}", program.mode);
    }
    let done = Bed::complete(server, client)?;
    report::file("zerocopy.log", &done.client.stderr)?;
    // They know each other from the control connection.
    let heard = done.client.stderr.contains("self-test: a neighbour's answer came in");
    ensure!(heard, "the self-test heard nobody: {}", done.client.stderr);
    all_over_zero_copy(&done)
}

/// Both ends said zero-copy, and every packet went that way but those that make the kernel learn
/// the neighbour.
pub(crate) fn all_over_zero_copy(done: &Transferred) -> anyhow::Result<()> {
    all_over(done, "virtio_net")
}

/// The same, of this driver.
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
    for (bed, wanted) in drivers {
        let tool = Program::new("fi_info").args(["-p", "xdp", "-v"]);
        let tool = bed.program(Side::A, tool.envs([("FI_XDP_IFACE", "link0")]))?;
        let text = tool.run(TOOL_PATIENCE)?.success()?.stdout;
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

/// libfabric's own ping-pong between the two hosts, every byte checked (`-c`); both outputs, the
/// server's first.
pub(crate) fn pingpong(bed: &Bed, arguments: &[&str]) -> anyhow::Result<[Output; 2]> {
    let ip = bed.hosts().link(0).v4(Side::A);
    let program = || {
        Program::new("fi_pingpong")
            .args(["-p", "xdp", "-e", "rdm", "-c", "-I", "10"])
            .args(arguments)
            .envs(TALKATIVE)
            .envs([("FI_XDP_IFACE", "link0")])
    };
    let server = bed.program(Side::A, program())?.start()?;
    wait_for_listener(bed, SocketAddr::new(ip, 47592))?;
    let client = bed.program(Side::B, program().arg(ip.to_string()))?.start()?;
    let client = client.finish(TOOL_PATIENCE)?.success()?;
    let server = server.finish(PATIENCE)?.success()?;
    Ok([server, client])
}

/// Waits until somebody listens at a TCP port on host A.
fn wait_for_listener(bed: &Bed, address: SocketAddr) -> anyhow::Result<()> {
    let wanted = format!(":{}", address.port());
    ofi_xdp_tests::interrupt::wait_until("a listener", PATIENCE, || {
        let ss = Program::new("ss").args(["--no-header", "-ltn"]);
        let text = ss.inside(bed.hosts().host(Side::A))?.run(PATIENCE)?.success()?.stdout;
        Ok(text.contains(&wanted).then_some(()))
    })
}

/// What fits in the stage's time by emulation on a busy machine.
fn mebibytes(cards: &Cards) -> anyhow::Result<()> {
    transfer(&cards.zerocopy, 32, Duration::from_secs(100))
}

fn one_gibibyte(cards: &Cards) -> anyhow::Result<()> {
    transfer(&cards.zerocopy, 1024, Duration::from_secs(1500))
}

/// Moves so many messages of a mebibyte; perf checks every byte.
fn transfer(bed: &Bed, count: u64, patience: Duration) -> anyhow::Result<()> {
    let (number, time) = (count.to_string(), patience.as_millis().to_string());
    let arguments = ["--verify", "--warm-up", "0", "--patience", "60000", "--stream", "1048576x4"];
    let bounds = ["--count", &number, "--time", &time];
    let arguments: Vec<&str> = arguments.into_iter().chain(bounds).collect();
    let variables = &TALKATIVE;
    let transfer = Transfer {
        arguments: &arguments,
        server: variables,
        client: variables,
        ..Transfer::default()
    };
    let (server, client) = (bed.server(&transfer)?, bed.client(&transfer)?);
    let done = Bed::complete_within(server, client, patience + PATIENCE)?;
    for output in [&done.client, &done.server] {
        let closing = output.stderr.lines().find_map(|line| line.split_once("closing: "));
        println!("  {}: {}", output.label, closing.unwrap_or_default().1);
    }
    let stream = done.report.stream.first().context("no stream was measured")?;
    println!("  {} MiB in {:.1} s", stream.messages, stream.seconds);
    ensure!(stream.messages >= count, "{} messages arrived", stream.messages);
    all_over_zero_copy(&done)
}
