// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings about one interface: driver, queues, interrupts, MTU, offloads, other XDP programs,
//! firewall, tier.
//!
//! In: an offer of the provider, sysfs, and the answers of `ip` and `ethtool`. Out: a finding each.
//! Called by `check`. Bound: five programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use super::bounded::answer;
use super::finding::Finding;
use super::{expected, interrupts, netfilter};
use crate::offers::Offer;

/// The smallest MTU of IPv6 (RFC 8200 §5), on which a path is relied for full packets.
const MTU_MIN: u32 = 1280;
/// The MTU above which packets take several frames of 4 KiB.
const MTU_FRAME: u32 = 3800;
/// The names of the provider's XDP program (`bpf/src/bpf/redirect.bpf.c`), the second one if
/// `xdp-broker` has attached it.
const OWN_PROGRAMS: [&str; 2] = ["ofi_xdp", "ofi_xdp_lent"];
/// Offloads with which drivers refuse XDP: the driver's name and that of the command.
const MERGING: [(&str, &str); 2] = [("large-receive-offload", "lro"), ("rx-gro-hw", "rx-gro-hw")];

/// The findings. A hardware provider and loopback have a tier alone. `program` stands in commands.
pub(super) fn findings(offer: &Offer, program: &str) -> Vec<Finding> {
    let name = &offer.domain;
    let folder = Path::new("/sys/class/net").join(name);
    if offer.value("tier").is_none() || !folder.exists() || name == "lo" {
        return vec![tier(offer)];
    }
    let queues = receive_queues(&folder);
    let mut found = vec![driver(offer, &folder)];
    if folder.join("device").exists() {
        let hash = || output("ethtool", &["--show-nfc", name, "rx-flow-hash", "udp4"]);
        let fields = if queues > 1 { hash() } else { None };
        found.push(spread(name, queues, fields.as_deref()));
        found.push(interrupts::finding(name, &folder, queues, program));
        found.push(offloads(name, output("ethtool", &["--show-features", name]).as_deref()));
    } else {
        found.push(Finding::good(name, "queues", queues.to_string()));
        found.push(Finding::good(name, "offloads", "of a virtual link"));
    }
    found.push(mtu(name, number(&folder, "mtu"), offer.value("mode")));
    found.push(programs(name, output("ip", &["-json", "link", "show", "dev", name]).as_deref()));
    found.push(netfilter::finding(offer));
    found.push(tier(offer));
    found.extend(expected::finding(offer));
    found
}

fn driver(offer: &Offer, folder: &Path) -> Finding {
    let link: Option<PathBuf> = fs::read_link(folder.join("device/driver")).ok();
    let name = link.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy());
    let name = name.unwrap_or_else(|| "virtual link".into());
    let offers = offer.value("driver offers").unwrap_or("nothing known of XDP");
    Finding::good(&offer.domain, "driver", format!("{name}, XDP: {offers}"))
}

/// Whether the device tells UDP ports apart, and so its queues (`fields`, if it has several and
/// tells).
fn spread(name: &str, queues: u32, fields: Option<&str>) -> Finding {
    let finding = |more: &str| Finding::good(name, "queues", format!("{queues}{more}"));
    match fields {
        _ if queues <= 1 => finding(""),
        Some(fields) if fields.contains("src port") => finding(", chosen by UDP ports too"),
        Some(_) => finding(", chosen without UDP ports: packets miss the endpoint's queue")
            .warning(format!("sudo ethtool --config-nfc {name} rx-flow-hash udp4 sdfn")),
        None => finding(", and no hash is known: packets may miss the endpoint's queue")
            .warning(format!("sudo ethtool --set-channels {name} combined 1")),
    }
}

/// Whether the device merges packets. A setting that cannot be changed ("fixed") is the driver's
/// own matter.
fn offloads(name: &str, features: Option<&str>) -> Finding {
    let finding = |value: String| Finding::good(name, "offloads", value);
    let Some(features) = features else {
        return finding("unknown: ethtool is missing".to_owned())
            .warning("sudo apt install ethtool");
    };
    let is_on = |feature: &str| {
        let mut lines = features.lines().map(str::trim);
        lines.any(|line| line.strip_prefix(feature).is_some_and(|rest| rest == ": on"))
    };
    let on: Vec<_> = MERGING.iter().filter(|(feature, _)| is_on(feature)).collect();
    if on.is_empty() {
        return finding("none that XDP excludes".to_owned());
    }
    let names: Vec<&str> = on.iter().map(|(feature, _)| *feature).collect();
    let off: Vec<String> = on.iter().map(|(_, short)| format!("{short} off")).collect();
    finding(format!("{}: several drivers refuse XDP with it", names.join(", ")))
        .warning(format!("sudo ethtool --features {name} {}", off.join(" ")))
}

fn mtu(name: &str, mtu: u32, mode: Option<&str>) -> Finding {
    let finding = |more: &str| Finding::good(name, "MTU", format!("{mtu}{more}"));
    let command = format!("sudo ip link set dev {name} mtu 1500");
    if mtu < MTU_MIN {
        finding(": below the 1280 of IPv6").failure(command)
    } else if mtu > MTU_FRAME && mode == Some("zerocopy") {
        finding(": packets take several frames, which few drivers do with zero-copy")
            .warning(command)
    } else {
        finding("")
    }
}

/// The XDP program of an interface, in the answer of `ip -json link`.
fn programs(name: &str, answer: Option<&str>) -> Finding {
    let finding = |value: String| Finding::good(name, "XDP program", value);
    let links: Option<Vec<serde_json::Value>> =
        answer.and_then(|text| serde_json::from_str(text).ok());
    let Some(links) = links else {
        return finding("unknown: `ip` does not tell".to_owned())
            .warning("sudo apt install iproute2");
    };
    let Some(xdp) = links.first().and_then(|link| link.get("xdp")) else {
        return finding("none".to_owned());
    };
    // A device has one for each mode.
    let own = |one: &&serde_json::Value| {
        one["prog"]["name"].as_str().is_some_and(|name| OWN_PROGRAMS.contains(&name))
    };
    let attached = xdp["attached"].as_array().map_or_else(|| slice::from_ref(xdp), Vec::as_slice);
    let Some(other) = attached.iter().find(|one| !own(one)) else {
        return finding("the provider's".to_owned());
    };
    let id = other["prog"]["id"].as_u64().unwrap_or(0);
    match other["prog"]["name"].as_str() {
        Some(program) => finding(format!("{program} ({id}), so AF_XDP is not to be had"))
            .warning(format!("sudo ip link set dev {name} {} off", kind(other))),
        None => finding(format!("{id}, with a name that root alone may read"))
            .warning(format!("sudo xdp-run --check --nic {name}")),
    }
}

/// The keyword of ip-link(8) for the mode of an attached program (`XDP_ATTACHED_*`,
/// `linux/if_link.h`).
fn kind(xdp: &serde_json::Value) -> &'static str {
    match xdp["mode"].as_u64() {
        Some(2) => "xdpgeneric",
        Some(3) => "xdpoffload",
        _ => "xdpdrv",
    }
}

/// The expected tier. The provider's reason against a better one has the command between
/// backticks; a reason without a command is the device's own.
fn tier(offer: &Offer) -> Finding {
    let tier = offer.tier();
    let Some(reason) = offer.value("not better because") else {
        return Finding::good(&offer.domain, "tier", tier);
    };
    let finding = |reason| Finding::good(&offer.domain, "tier", format!("{tier}: {reason}"));
    if let (Some((cause, _)), Some(command)) = (reason.split_once(';'), reason.split('`').nth(1)) {
        return finding(cause).warning(command);
    }
    let finding = finding(reason);
    if reason.starts_with("AF_XDP needs") {
        return finding.warning("sudo systemctl enable --now xdp-broker.socket");
    }
    if reason.ends_with("was asked for") {
        return finding.warning("unset FI_XDP_MODE");
    }
    finding
}

fn receive_queues(folder: &Path) -> u32 {
    let entries = fs::read_dir(folder.join("queues")).into_iter().flatten().flatten();
    let received = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("rx-"));
    u32::try_from(received.count()).unwrap_or(u32::MAX)
}

/// A number in sysfs, 0 if it cannot be read.
fn number(folder: &Path, name: &str) -> u32 {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// The answer of a program that succeeds.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    answer(program, arguments).text().map(str::to_owned)
}

#[cfg(test)]
mod tests;
