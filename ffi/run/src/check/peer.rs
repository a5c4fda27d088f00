// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path to a host on which `xdp-perf` waits: ports both ways, round trip, rate, path MTU, loss.
//!
//! | file | contents |
//! |---|---|
//! | `port` | the TCP port of the other host |
//! | `measure` | two runs of `xdp-perf`, and the statistics page of the second |
//! | `verdict` | findings about a measurement, without any input or output |
//! | `firewall` | the commands that admit packets |
//!
//! In: an address, and the environment of the application. Out: a finding each. Called by `check`.
//! Bounds: those of the parts, less than a minute in all.

mod firewall;
mod measure;
mod port;
mod verdict;

use super::finding::Finding;
use crate::cli::ProviderName;
use crate::environment::Environment;
use firewall::Firewall;

/// The findings about the path to `address`, HOST or HOST:PORT.
pub(super) fn findings(
    address: &str,
    name: ProviderName,
    environment: &Environment,
) -> Vec<Finding> {
    let address = ofi_xdp_perf::cli::with_port(address);
    let (port, firewall) = (port::look(&address), Firewall::here());
    let ends = match &port {
        port::PortState::Open { ends, .. } => *ends,
        _ => return vec![verdict::port(&address, &port, firewall)],
    };
    let measured = measure::measure(&address, name, environment);
    let mut findings = vec![verdict::port(&address, &port, firewall)];
    findings.extend(verdict::measured(&measured, &address, ends, firewall));
    findings
}
