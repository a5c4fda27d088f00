// SPDX-License-Identifier: MIT OR Apache-2.0
//! Routed hosts: the address of an endpoint is on the loopback interface, and other hosts have a
//! route to it by a card. Its packets come by the AF_XDP socket of that card.

use std::path::Path;

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use ofi_xdp_harness::interrupt::wait_until;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::topology::Side;
use ofi_xdp_harness::two_hosts::{TIMEOUT, TwoHostFixture};
use ofi_xdp_statistics::{FOLDER, Page, read_all};

const MISBEHAVE: &str = env!("CARGO_BIN_EXE_misbehave");

/// The addresses of both hosts, by IP version.
const ADDRESSES: [[&str; 2]; 2] =
    [["198.18.200.1", "198.18.200.2"], ["fd00:200::1", "fd00:200::2"]];

/// Gives each host its addresses, and a default route to the other one.
fn route(fixture: &TwoHostFixture) -> anyhow::Result<()> {
    let link = fixture.hosts().link(0);
    for (side, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
        let host = fixture.hosts().host(side);
        let [v4, v6] = ADDRESSES.map(|both| both[side as usize]);
        host.ip(&["address", "add", &format!("{v4}/32"), "dev", "lo"])?;
        host.ip(&["-6", "address", "add", &format!("{v6}/128"), "dev", "lo", "nodad"])?;
        let (via, via6) = (link.v4(other).to_string(), link.v6(other).to_string());
        host.ip(&["route", "add", "default", "via", &via, "src", v4])?;
        host.ip(&["-6", "route", "add", "default", "via", &via6, "src", v6])?;
    }
    Ok(())
}

/// The statistics page of a process; `None` before it has one.
fn page_of(process: &RunningProgram) -> anyhow::Result<Option<Page>> {
    let pid = process.pid().as_raw().cast_unsigned();
    Ok(read_all(Path::new(FOLDER))?.into_iter().find(|page| page.pid == pid))
}

fn converse(fixture: &TwoHostFixture, [a, b]: [&str; 2]) -> anyhow::Result<()> {
    let start = |side, arguments: &[&str]| {
        let variables = [("FI_XDP_MODE", "skb"), ("FI_LOG_LEVEL", "warn")];
        fixture.program(side, Program::new(MISBEHAVE).args(arguments).envs(variables))?.start()
    };
    let mut echo = start(Side::A, &["echo", a])?;
    let line = echo.wait_for("name ", TIMEOUT)?;
    let name = line.strip_prefix("name ").context("no name")?.to_owned();
    let client = start(Side::B, &["converse", b, &name])?;
    for process in [&echo, &client] {
        let page = wait_until("1,000 packets by AF_XDP", TIMEOUT, || {
            let received = |page: &Page| page.counters.get("xsk_received").copied().unwrap_or(0);
            Ok(page_of(process)?.filter(|page| received(page) >= 1000))
        });
        let page = page.with_context(|| format!("{:?}", page_of(process)))?;
        ensure!(page.tier == "AF_XDP skb", "{}: {}", page.tier, page.why_not_better);
        let by_kernel = page.counters.get("udp_received").copied().unwrap_or(0);
        ensure!(by_kernel < 100, "{by_kernel} packets by the kernel");
    }
    client.signal(Signal::SIGTERM)?;
    let output = client.finish(TIMEOUT)?.success()?;
    let line = output.stdout.lines().find(|line| line.starts_with("verified "));
    println!("{a}: {}", line.context("the client said nothing")?);
    echo.signal(Signal::SIGKILL)
}

#[test]
fn root_an_address_of_the_loopback_interface_has_the_card_of_its_route() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
    route(&fixture)?;
    ADDRESSES.into_iter().try_for_each(|both| converse(&fixture, both))
}
