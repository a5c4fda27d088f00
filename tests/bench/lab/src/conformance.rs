// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conformance suite between two hosts, over AF_XDP.
//!
//! In: the suite's program and its arguments. Out: its exit status, and the proof that AF_XDP
//! sockets carried the packets. The suite's own process is on one host and opens every second
//! endpoint on the other. A queue of an interface has one AF_XDP socket. So tests run one after the
//! other, and of several endpoints on one host all but one have kernel sockets. Bound: [`LIMIT`].

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use ofi_xdp_harness::carried::{Carried, LOGGING};
use ofi_xdp_harness::netns;
use ofi_xdp_harness::paths;
use ofi_xdp_harness::process::Program;
use ofi_xdp_harness::topology::{LinkOptions, Side, TwoHosts};

/// Time limit; a run takes four minutes on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs the suite at `program`, and shows its output as it comes.
///
/// # Errors
/// Without privilege; when the suite does not end in time, or AF_XDP did not carry most packets.
pub fn run(program: &Path, arguments: &[OsString]) -> anyhow::Result<ExitStatus> {
    netns::sweep()?;
    let hosts = TwoHosts::new(&[LinkOptions::default()])?;
    let (a, b, link) = (hosts.host(Side::A), hosts.host(Side::B), hosts.link(0));
    let log = std::env::temp_dir().join(format!("{}.log", a.name()));
    let other = format!("{}={}", b.name(), link.v4(Side::B));
    let suite = Program::new(program)
        .inside(a)?
        .args(["--node", &link.v4(Side::A).to_string(), "--other", &other, "--jobs", "1"])
        .arg("--log")
        .arg(&log)
        .args(arguments)
        .envs(LOGGING)
        .envs([("FI_XDP_IFACE", link.interface.as_str()), ("FI_XDP_MODE", "skb")])
        .envs([("FI_PROVIDER_PATH", paths::provider()?)]);
    let status = suite.shown().run(LIMIT)?.status;
    let carried = Carried::from_log(&fs::read_to_string(&log).context("the suite's log")?);
    fs::remove_file(&log)?;
    let Carried { endpoints, through_xdp, through_udp, .. } = carried;
    println!(
        "{endpoints} endpoints: {through_xdp} packets through AF_XDP, {through_udp} through kernel \
         sockets"
    );
    if !names_provider(arguments) {
        prove(&carried)?;
    }
    Ok(status)
}

/// Whether the tests run on a provider of the user's choice: other providers log no counters.
fn names_provider(arguments: &[OsString]) -> bool {
    arguments.iter().any(|one| one.to_string_lossy().starts_with("--provider"))
}

/// Fails unless there were endpoints, and AF_XDP carried most of their packets.
fn prove(carried: &Carried) -> anyhow::Result<()> {
    if carried.endpoints == 0 {
        bail!("no endpoint said what it carried: over AF_XDP, choose tests that move packets");
    }
    // Exceptions: packets before the neighbour's link-layer address is known, and packets between
    // endpoints of one host.
    ensure!(carried.through_xdp > carried.through_udp, "most packets went around AF_XDP");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_an_endpoint_proves_nothing() {
        let carried = |endpoints, through_xdp, through_udp| Carried {
            endpoints,
            through_xdp,
            through_udp,
            ..Carried::default()
        };
        assert!(prove(&carried(2, 9, 3)).is_ok());
        assert!(prove(&carried(2, 3, 9)).is_err());
        assert!(prove(&carried(0, 0, 0)).is_err());
    }

    #[test]
    fn another_provider_proves_nothing_of_ours() {
        let names = |one: &str| names_provider(&["--filter".into(), one.into()]);
        assert!(names("--provider") && names("--provider=tcp") && !names("fi_msg::"));
    }
}
