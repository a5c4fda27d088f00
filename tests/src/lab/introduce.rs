// SPDX-License-Identifier: MIT OR Apache-2.0
//! Before the measurements: one session of `xdp`, watched from outside. Which way do its packets
//! really take?

use std::time::Duration;

use anyhow::ensure;

use super::field::Session;
use super::{Contestant, Field};
use crate::interrupt;
use crate::kernel::{Attachment, Host};
use crate::topology::Side;

/// How long the watched session sends.
const SESSION_MS: u64 = 900;
/// How long it may take to be on its way.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// Runs a session of `contestant`, an `xdp`, and prints which tier, mode, driver and queue it used.
/// Returns the way its packets took: `zerocopy`, `copy`, `skb` or `udp`.
///
/// # Errors
/// When the session fails.
pub fn introduce(field: &Field, contestant: &Contestant) -> anyhow::Result<String> {
    let arguments = ["--latency", "8", "--time", &SESSION_MS.to_string()].map(String::from);
    let logging = [("FI_LOG_LEVEL", "info"), ("FI_LOG_PROV", "xdp")];
    let Session { mut client, server } = field.start(contestant, &arguments, &logging)?;
    let interface = field.interface(contestant);
    let host = match field {
        Field::Hosts(hosts) => Host(Some(hosts.host(Side::B))),
        Field::Machine { .. } => Host(None),
    };
    let driver = host.driver(interface).unwrap_or_else(|_| String::from("unknown"));

    // A session on the UDP tier never attaches: then the end of the session ends the search.
    let attached = interrupt::wait_until("the xdp session", START_PATIENCE, || {
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
    let output = client.finish(START_PATIENCE)?.success()?;
    if let Some(server) = server {
        server.finish(START_PATIENCE)?.success()?;
    }

    println!("interface  {interface}, driver {driver}");
    let line = output.stderr.lines().find(|line| way_told(line).is_some());
    if let Some((_, line)) = line.and_then(|line| line.split_once("> ")) {
        println!("provider   {line}");
    }
    let told = line.and_then(way_told);
    let way = judge(attached.as_ref(), seen.flatten(), told)?;
    println!();
    Ok(way.to_owned())
}

/// The way that packets took: what the provider told, unless what was seen contradicts it.
fn judge(
    attached: Option<&Attachment>,
    redirected: Option<(u64, u64)>,
    told: Option<&'static str>,
) -> anyhow::Result<&'static str> {
    let Some(Attachment { mode, program, name }) = attached else {
        println!("kernel     no XDP program attached");
        let way = told.unwrap_or("udp");
        ensure!(way == "udp", "the provider says AF_XDP {way}, but nothing is attached");
        return Ok(way);
    };
    println!("kernel     XDP program {name} (id {program}) attached in {mode} mode");
    let way = told.unwrap_or(if mode == "generic" { "skb" } else { "copy" });
    if let Some((first, second)) = redirected {
        println!("kernel     frames redirected: {first}, and 200 ms later {second}");
        ensure!(way == "udp" || second > first, "the XDP program redirects nothing");
    }
    Ok(way)
}

/// The way that a line of the provider's log tells of: `… AF_XDP skb on …`, `… kernel UDP on …`.
fn way_told(line: &str) -> Option<&'static str> {
    let ways = [
        ("AF_XDP zerocopy on ", "zerocopy"),
        ("AF_XDP copy on ", "copy"),
        ("AF_XDP skb on ", "skb"),
        ("kernel UDP on ", "udp"),
    ];
    ways.into_iter().find_map(|(text, way)| line.contains(text).then_some(way))
}

/// Frames redirected, twice, 200 ms apart, while a session runs; `None` without `bpftool`.
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
        assert_eq!(way_told(line), Some("skb"));
        assert_eq!(way_told("198.18.0.2:9: kernel UDP on link0 (veth, MTU 1500)"), Some("udp"));
        assert_eq!(way_told("no AF_XDP on link0: whatever"), None);
    }
}
