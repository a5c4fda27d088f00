// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path of the provider's packets: one observed session of `xdp` before the measurements.

use std::time::Duration;

use anyhow::ensure;

use super::environment::Session;
use super::{Candidate, Environment};
use ofi_xdp_harness::interrupt;
use ofi_xdp_harness::kernel::{Attachment, Host};
use ofi_xdp_harness::topology::Side;

/// Duration of the observed session.
const SESSION_MS: u64 = 900;
/// Time limit for the first packets.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a session of `candidate`, an `xdp`, and prints its tier, mode, driver and queue. Returns
/// the tier of its packets: `zerocopy`, `copy`, `skb` or `udp`.
///
/// # Errors
/// When the session fails.
pub fn describe_path(environment: &Environment, candidate: &Candidate) -> anyhow::Result<String> {
    let arguments = ["--latency", "8", "--time", &SESSION_MS.to_string()].map(String::from);
    let logging = [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "xdp")];
    let Session { mut client, server } = environment.start(candidate, &arguments, &logging)?;
    let interface = environment.interface(candidate);
    let host = match environment {
        Environment::Hosts(hosts) => Host(Some(hosts.host(Side::B))),
        Environment::Machine { .. } => Host(None),
    };
    let driver = host.driver(interface).unwrap_or_else(|_| String::from("unknown"));

    // A session on the UDP tier never attaches a program: then the end of the session ends the
    // search.
    let attached = interrupt::wait_until("the xdp session", START_TIMEOUT, || {
        Ok(match host.attachment(interface)? {
            Some(attachment) => Some(Some(attachment)),
            None if !client.is_running()? => Some(None),
            None => None,
        })
    })?;
    let seen = match &attached {
        Some(attachment) => Some(watch(host, attachment)?),
        None => None,
    };
    let output = client.finish(START_TIMEOUT)?.success()?;
    if let Some(server) = server {
        server.finish(START_TIMEOUT)?.success()?;
    }

    println!("interface  {interface}, driver {driver}");
    let line = output.stderr.lines().find(|line| reported_tier(line).is_some());
    if let Some((_, line)) = line.and_then(|line| line.split_once("> ")) {
        println!("provider   {line}");
    }
    let reported = line.and_then(reported_tier);
    let tier = judge(attached.as_ref(), seen.flatten(), reported)?;
    println!();
    Ok(tier.to_owned())
}

/// The tier of the packets: the provider's log, unless an observation contradicts it.
fn judge(
    attached: Option<&Attachment>,
    redirected: Option<(u64, u64)>,
    reported: Option<&'static str>,
) -> anyhow::Result<&'static str> {
    let Some(Attachment { mode, program, name }) = attached else {
        println!("kernel     no XDP program attached");
        let tier = reported.unwrap_or("udp");
        ensure!(tier == "udp", "the provider says AF_XDP {tier}, but nothing is attached");
        return Ok(tier);
    };
    println!("kernel     XDP program {name} (id {program}) attached in {mode} mode");
    let tier = reported.unwrap_or(if mode == "generic" { "skb" } else { "copy" });
    if let Some((first, second)) = redirected {
        println!("kernel     frames redirected: {first}, and 200 ms later {second}");
        ensure!(tier == "udp" || second > first, "the XDP program redirects nothing");
    }
    Ok(tier)
}

/// The tier in a line of the provider's log: `… AF_XDP skb on …`, `… kernel UDP on …`.
fn reported_tier(line: &str) -> Option<&'static str> {
    let tiers = [
        ("AF_XDP zerocopy on ", "zerocopy"),
        ("AF_XDP copy on ", "copy"),
        ("AF_XDP skb on ", "skb"),
        ("kernel UDP on ", "udp"),
    ];
    tiers.into_iter().find_map(|(text, tier)| line.contains(text).then_some(tier))
}

/// Redirected frames, read twice at an interval of 200 ms during a session; `None` without
/// `bpftool`.
fn watch(host: Host<'_>, attachment: &Attachment) -> anyhow::Result<Option<(u64, u64)>> {
    std::thread::sleep(Duration::from_millis(100));
    let first = host.redirected(attachment).ok();
    std::thread::sleep(Duration::from_millis(200));
    let second = host.redirected(attachment).ok();
    interrupt::check()?;
    Ok(first.zip(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_is_in_the_log() {
        let line =
            "libfabric:7:1::xdp:core:open():1<info> 198.18.0.2:9: AF_XDP skb on link0 (veth)";
        assert_eq!(reported_tier(line), Some("skb"));
        assert_eq!(
            reported_tier("198.18.0.2:9: kernel UDP on link0 (veth, MTU 1500)"),
            Some("udp")
        );
        assert_eq!(reported_tier("no AF_XDP on link0: whatever"), None);
    }
}
