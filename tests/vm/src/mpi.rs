// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPI jobs between two cards with zero-copy: MPICH from its wheel, as in `cargo xtask mpi`. Unlike
//! there, the cards are on a PCI bus, and the wheel's hwloc does not find the devices of that bus.
//!
//! The image has MPICH's launcher and the compiled programs of `tests/interop/mpi/programs` in
//! `/ofi/mpi` (`xtask/src/vm/image.rs`). Bound: each job's limit.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{bail, ensure};
use ofi_xdp_harness::carried::{Carried, LOGGING};
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::tier::XdpMode;
use ofi_xdp_harness::topology::Side;
use ofi_xdp_mpi::implementation::{Mpi, Request};
use ofi_xdp_mpi::program::{MpiProgram, verified};
use ofi_xdp_mpi::transport::Transport;

use crate::cards::{Cards, Test};
use crate::report;

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("zerocopy_an_mpi_job_on_two_ranks", collectives),
    ("slow_zerocopy_mpi_in_every_mode", modes),
];

/// MPICH's launcher; its proxy is in the same folder.
const LAUNCHER: &str = "/ofi/mpi/bin/mpiexec.hydra";
/// The replacement of ssh.
const REMOTE_SHELL: &str = "/ofi/mpi/host.sh";
/// The hosts' `/etc/hosts`.
const HOSTS_FILE: &str = "/tmp/hosts";

fn collectives(cards: &Cards) -> anyhow::Result<()> {
    job(cards, "collectives", Duration::from_secs(100))
}

fn modes(cards: &Cards) -> anyhow::Result<()> {
    job(cards, "modes", Duration::from_secs(900))
}

/// Runs a program on two ranks, one on each host. Checks its output and the provider's counters.
fn job(cards: &Cards, name: &'static str, limit: Duration) -> anyhow::Result<()> {
    let fixture = &cards.zerocopy;
    let mut listed = Vec::new();
    let mut names = String::from("127.0.0.1 localhost\n");
    let mut addresses = Vec::new();
    for side in [Side::A, Side::B] {
        let address = v4(fixture.hosts().link(0).v4(side))?;
        listed.push(format!("{address}={}", fixture.hosts().host(side).name()));
        // The names of `host.sh`.
        names.push_str(&format!("{address} host{}\n", address.octets()[3]));
        addresses.push(address);
    }
    std::fs::write(HOSTS_FILE, names)?;
    let program = MpiProgram { name, ranks: 2, limit, silence: limit, quick: true };
    let xdp = XdpMode::Auto;
    let fixed = [("FI_PROVIDER", "xdp"), ("FI_XDP_IFACE", "link0"), ("FI_XDP_MODE", xdp.as_str())];
    let provider = ("FI_PROVIDER_PATH", "/ofi/provider");
    let variables = fixed.into_iter().chain([provider]).chain(LOGGING);
    let variables: Vec<(String, String)> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let request = Request {
        hosts: &addresses,
        ranks: program.ranks,
        transport: Transport::Xdp(xdp),
        one_sided: false,
        remote_shell: Path::new(REMOTE_SHELL),
        variables: &variables,
        command: &[format!("/ofi/mpi/{name}")],
    };
    let words = Mpi::Mpich.command(Path::new(LAUNCHER), &request);
    let output = Program::new(REMOTE_SHELL)
        .arg(addresses[0].to_string())
        .arg(words.join(" "))
        .envs([("OFI_XDP_HOSTS", listed.join(" "))])
        .envs([("OFI_XDP_HOSTS_FILE", HOSTS_FILE)])
        .run(limit)?
        .success()?;
    report::file(&format!("mpi-{name}.txt"), &format!("{}{}", output.stdout, output.stderr))?;
    ensure!(verified(&program, &output.stdout), "it did not say that it verified everything");
    let carried = Carried::from_log(&format!("{}{}", output.stdout, output.stderr));
    println!("  {carried:?}");
    carried.prove(program.ranks, xdp)?;
    // Packets before the kernel knows the neighbour go through its sockets.
    ensure!(carried.through_udp < 50, "{} packets went through the kernel", carried.through_udp);
    Ok(())
}

fn v4(address: IpAddr) -> anyhow::Result<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(_) => bail!("the link has no IPv4 address"),
    }
}
