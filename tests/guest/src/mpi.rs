// SPDX-License-Identifier: MIT OR Apache-2.0
//! MPI jobs between two cards with zero-copy: MPICH from its wheel, as `cargo xtask mpi` runs it.
//! Unlike there the cards are on a PCI bus, whose devices the wheel's hwloc does not find.
//!
//! The image has MPICH's launcher and the compiled programs of `tests/mpi` in `/ofi/mpi`
//! (`xtask/src/vm/image.rs`). Bound: each job's limit.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{bail, ensure};
use ofi_xdp_tests::lab::XdpMode;
use ofi_xdp_tests::mpi::implementation::{Mpi, Request};
use ofi_xdp_tests::mpi::job::Transport;
use ofi_xdp_tests::mpi::program::{MpiProgram, verified};
use ofi_xdp_tests::mpi::proof::{Carried, LOGGING};
use ofi_xdp_tests::process::Program;
use ofi_xdp_tests::topology::Side;

use crate::cards::Cards;
use crate::report;
use crate::suite::Test;

/// The tests of this file.
pub(crate) const TESTS: &[Test] = &[
    ("zerocopy_an_mpi_job_on_two_ranks", collectives),
    ("slow_zerocopy_mpi_in_every_mode", modes),
];

/// MPICH's launcher; its other half is beside it.
const LAUNCHER: &str = "/ofi/mpi/bin/mpiexec.hydra";
/// What takes the place of ssh.
const REMOTE_SHELL: &str = "/ofi/mpi/host.sh";
/// The hosts' `/etc/hosts`.
const HOSTS_FILE: &str = "/tmp/hosts";

fn collectives(cards: &Cards) -> anyhow::Result<()> {
    job(cards, "collectives", Duration::from_secs(100))
}

fn modes(cards: &Cards) -> anyhow::Result<()> {
    job(cards, "modes", Duration::from_secs(900))
}

/// Runs a program on two ranks, one a host, and holds it to what it says and to what the provider
/// counted.
fn job(cards: &Cards, name: &'static str, limit: Duration) -> anyhow::Result<()> {
    let bed = &cards.zerocopy;
    let mut listed = Vec::new();
    let mut names = String::from("127.0.0.1 localhost\n");
    let mut addresses = Vec::new();
    for side in [Side::A, Side::B] {
        let address = v4(bed.hosts().link(0).v4(side))?;
        listed.push(format!("{address}={}", bed.hosts().host(side).name()));
        // As `host.sh` names them.
        names.push_str(&format!("{address} host{}\n", address.octets()[3]));
        addresses.push(address);
    }
    std::fs::write(HOSTS_FILE, names)?;
    let program = MpiProgram { name, ranks: 2, limit, quick: true };
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
    // What the kernel has yet to learn of its neighbours goes through its sockets.
    ensure!(carried.through_udp < 50, "{} packets went through the kernel", carried.through_udp);
    Ok(())
}

fn v4(address: IpAddr) -> anyhow::Result<Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Ok(address),
        IpAddr::V6(_) => bail!("the link has no IPv4 address"),
    }
}
