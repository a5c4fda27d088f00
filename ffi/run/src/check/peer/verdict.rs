// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings about a measured path, and the command for each obstacle.
//!
//! In: the state of the port, a measurement. Out: findings. Called by `peer`. Bound: a finding a
//! property. Nothing here reads or waits.

use std::fmt::Display;
use std::net::IpAddr;

use ofi_xdp_perf::cli::PORT;
use ofi_xdp_perf::report::{Datagrams, PerfReport};

use super::firewall::{Firewall, Packets};
use super::measure::{Failed, Measured, PathState};
use super::port::{Ends, PortState};
use crate::check::finding::{Finding, PEER};

/// The part of retransmitted packets above which a path loses packets.
const LOSS_MAX: f64 = 0.001;

/// The command `what`, to be given on the other host.
fn there(what: impl Display, address: &str) -> String {
    format!("{what}  # on {}", host(address))
}

/// HOST:PORT without the port.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// The port of HOST:PORT.
fn port_of(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(PORT)
}

/// The TCP port of `xdp-perf` at `address`.
pub(super) fn port(address: &str, port: &PortState, firewall: Firewall) -> Finding {
    let finding = |value: String| Finding::good(PEER, "control port", value);
    match port {
        PortState::Open { took, .. } => {
            finding(format!("{address} accepts, after {}", time(took.as_nanos() as f64)))
        }
        PortState::Refused => {
            let server = match port_of(address) {
                PORT => "xdp-perf".to_owned(),
                other => format!("xdp-perf --listen '[::]:{other}'"),
            };
            finding(format!("nobody listens at {address}")).failure(there(server, address))
        }
        PortState::Unanswered { ours } => {
            let value =
                format!("no answer from {address}: the host is down, or a firewall drops TCP");
            let admit = |ours: IpAddr| firewall.admit(Packets::Tcp(port_of(address)), ours);
            let ping = || format!("ping -c 3 {}", host(address));
            finding(value).failure(ours.map_or_else(ping, |ours| there(admit(ours), address)))
        }
        PortState::Unknown(why) => finding(format!("{address} has no address: {why}"))
            .failure(format!("getent ahosts {}", host(address))),
        PortState::Unreachable(why) => finding(format!("no way to {address}: {why}"))
            .failure(format!("ip route get {}", host(address))),
    }
}

/// The findings about a path with an open control port.
pub(super) fn measured(
    measured: &Measured,
    address: &str,
    ends: Ends,
    firewall: Firewall,
) -> Vec<Finding> {
    let datagrams = match &measured.datagrams {
        Ok(datagrams) => *datagrams,
        Err(why) => return vec![no_session(why, address)],
    };
    let report = measured.traffic.as_ref();
    let passes = report.is_some_and(|report| report.is_ok());
    let mut findings = vec![udp_ports(datagrams, passes, address, ends, firewall)];
    match report {
        Some(Ok(report)) => findings.extend(speed(report, measured.path.as_ref())),
        Some(Err(why)) => findings.push(no_traffic(why, datagrams, address)),
        None => {}
    }
    let path = measured.path.as_ref().filter(|_| passes);
    findings.extend(path.into_iter().flat_map(|path| [path_mtu(path, address), loss(path)]));
    findings
}

/// The server accepts a connection, and there is no session.
fn no_session(why: &Failed, address: &str) -> Finding {
    let finding = |value: String| Finding::good(PEER, "session", value);
    let why = match why {
        Failed::Missing => {
            return finding("xdp-perf is neither beside xdp-run nor in PATH".to_owned())
                .failure("cargo xtask install");
        }
        Failed::Message(why) => why.as_str(),
    };
    let program = || {
        let port = port_of(address);
        there(format!("ss --tcp --listening --processes 'sport = :{port}'"), address)
    };
    match why {
        why if why.contains("install one") => {
            finding(why.to_owned()).failure(there("xdp-perf --version", address))
        }
        why if why.contains("says nothing") || why.contains("no end within") => {
            let value = "accepted, then silence: another program, or xdp-perf has a client";
            finding(value.to_owned()).failure(program())
        }
        why if why.contains("is gone") || why.contains("not understood") => {
            finding(format!("another program answers at {address}")).failure(program())
        }
        why if why.contains("cannot send a datagram") => {
            finding(why.to_owned()).failure("sudo nft list chain inet filter output")
        }
        why if why.contains("the server failed") => {
            finding(why.to_owned()).failure(there("xdp-run --check", address))
        }
        why => finding(why.to_owned()).failure("FI_LOG_LEVEL=warn fi_info -p xdp"),
    }
}

/// Kernel datagrams each way. `passes`: packets of the provider do.
fn udp_ports(
    datagrams: Datagrams,
    passes: bool,
    address: &str,
    ends: Ends,
    firewall: Firewall,
) -> Finding {
    let Datagrams { sent, to_server, to_client } = datagrams;
    let finding = |value: String| Finding::good(PEER, "UDP ports", value);
    if to_server > 0 && to_client > 0 {
        let value = format!("open: {to_server} of {sent} datagrams there, {to_client} back");
        let is_whole = to_server == sent && to_client == sent;
        let drops = "nstat --zeros UdpRcvbufErrors IpInDiscards";
        return if is_whole { finding(value) } else { finding(value).warning(drops) };
    }
    let admit_there = || there(firewall.admit(Packets::Udp, ends.ours), address);
    let (value, command) = if to_server > 0 {
        ("no datagram comes back: a firewall here drops UDP", {
            firewall.admit(Packets::Udp, ends.theirs)
        })
    } else if to_client > 0 {
        ("no datagram arrives there: a firewall there drops UDP", admit_there())
    } else {
        ("no datagram passes either way: a firewall drops UDP", admit_there())
    };
    if passes {
        return finding(format!("{value}; AF_XDP passes it by")).warning(command);
    }
    finding(value.to_owned()).failure(command)
}

/// The provider's packets do not pass.
fn no_traffic(why: &Failed, datagrams: Datagrams, address: &str) -> Finding {
    let why = match why {
        Failed::Missing => "xdp-perf is gone",
        Failed::Message(why) => why,
    };
    let finding = Finding::good(PEER, "round trip", why);
    if datagrams.to_server == 0 || datagrams.to_client == 0 {
        let again = format!("xdp-run --check --peer {address}  # when the UDP ports are open");
        return finding.failure(again);
    }
    // Datagrams of the kernel pass, so the provider's own path, or its ports, are in question.
    finding.failure(format!("xdp-run --check --peer {address} --tier udp"))
}

fn speed(report: &PerfReport, path: Option<&PathState>) -> Vec<Finding> {
    let by = path.map(|path| format!(", {} on {}", path.tier, path.interface)).unwrap_or_default();
    let mut findings = Vec::new();
    if let Some(latency) = report.latency.first() {
        // The report has half round trips.
        let [p50, p99] = [latency.p50_ns, latency.p99_ns].map(|half| time(2.0 * half as f64));
        let value = format!("{p50} (99 %: {p99}){by}");
        findings.push(Finding::good(PEER, "round trip", value));
    }
    if let Some(small) = report.stream.first() {
        let (rate, size) = (small.message_rate, small.size_bytes);
        let value = format!("{:.3} million messages/s of {size} bytes", rate / 1e6);
        findings.push(Finding::good(PEER, "rate", value));
    }
    if let Some(long) = report.stream.get(1) {
        let (bits, size) = (long.bandwidth * 8.0 / 1e9, long.size_bytes >> 10);
        let value = format!("{bits:.2} Gb/s with {size} KiB");
        findings.push(Finding::good(PEER, "bandwidth", value));
    }
    findings
}

fn path_mtu(path: &PathState, address: &str) -> Finding {
    let PathState { interface, full, passes, .. } = path;
    let finding = |value: String| Finding::good(PEER, "path MTU", value);
    if passes >= full {
        return finding(format!("{passes}, as {interface} sends"));
    }
    let host = host(address);
    finding(format!("{passes} pass, {interface} sends {full}: `tracepath {host}` shows the hop"))
        .warning(format!("sudo ip link set dev {interface} mtu {passes}"))
}

fn loss(path: &PathState) -> Finding {
    let PathState { interface, sent, retransmitted, .. } = path;
    let all = sent.saturating_add(*retransmitted);
    let part = *retransmitted as f64 / all.max(1) as f64;
    let value = format!("{:.3} %: {retransmitted} of {all} packets sent again", 100.0 * part);
    let finding = |value| Finding::good(PEER, "loss", value);
    if path.passes < path.full {
        return finding(format!("{value}, of which longer ones than the path MTU"));
    }
    // One packet alone says nothing about the path.
    if part > LOSS_MAX && *retransmitted > 1 {
        return finding(value)
            .warning(format!("ethtool -S {interface} | grep -i drop  # on both hosts"));
    }
    finding(value)
}

/// A time in µs or ms.
fn time(ns: f64) -> String {
    if ns < 1e6 { format!("{:.1} µs", ns / 1e3) } else { format!("{:.1} ms", ns / 1e6) }
}

#[cfg(test)]
mod tests;
