// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other machine's part: servers for all candidates, until a signal ends it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, bail};

use super::candidate::{Candidate, PORTS, candidates};
use super::environment::PORT;
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::netns::ip;
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::{Program, RunningProgram};
use ofi_xdp_harness::tier::XdpMode;

/// Serves at the first address of the interface `nic`, with the provider in `mode`, until a signal
/// ends it.
///
/// # Errors
/// When the interface has no address, or a server ends.
pub fn serve(nic: &str, mode: XdpMode) -> anyhow::Result<()> {
    let address = first_address(nic)?;
    let all = candidates(mode);
    let mut servers = Vec::new();
    for offset in PORTS {
        if let Some(candidate) = all.iter().find(|c| c.port_offset == offset) {
            servers.push(start(candidate, nic, SocketAddr::new(address, PORT + offset))?);
        }
    }
    println!("serving at {address}, interface {nic}; on the other machine:");
    println!("  cargo xtask run --nic <interface> --peer {address}");
    println!("Ctrl-C ends it.");
    // bound: a signal
    loop {
        interrupt::check()?;
        for server in &mut servers {
            if !server.is_running()? {
                bail!("a server has ended: {}", server.stderr().trim());
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn start(candidate: &Candidate, nic: &str, listen: SocketAddr) -> anyhow::Result<RunningProgram> {
    let mut server = Program::new(paths::program(candidate.program)?)
        .args(["--listen", &listen.to_string(), "--core", "0"])
        .envs(candidate.variables(Some(nic))?)
        .start()?;
    server.wait_for("listening at", Duration::from_secs(5))?;
    Ok(server)
}

/// The interface's first global address, IPv4 before IPv6.
fn first_address(nic: &str) -> anyhow::Result<IpAddr> {
    let text = ip(&["-json", "address", "show", "dev", nic, "scope", "global"])?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    let entries = json.pointer("/0/addr_info").and_then(serde_json::Value::as_array);
    let mut addresses: Vec<IpAddr> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.get("local")?.as_str()?.parse().ok())
        .collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.first().copied().with_context(|| format!("interface {nic} has no address"))
}
