// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-run --check`: the tier of each interface, why it is no better one, and how to get it.
//!
//! In: the command line. Out: a paragraph for each interface, and whether the tier that was asked
//! for is to be had, as exit status. Called by `main`. Bound: the offers.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::cli::{RunArguments, WantedTier};
use crate::environment::Environment;
use crate::offers::{self, Offer};

/// Prints the offers of an environment that asks for everything.
pub(crate) fn run(cli: &RunArguments, environment: &Environment) -> Result<ExitCode> {
    let every = environment.clone().with("FI_XDP_TIER", WantedTier::Auto.text());
    let found = offers::in_environment(&every, cli.name)?;
    ensure!(!found.is_empty(), "{}", cli.nothing());
    let program = cli.program.first().map_or("PROGRAM", |program| program.to_str().unwrap_or("?"));
    let ours = std::env::current_exe()?;
    print!("{}", report(&found, program, &ours));
    let wanted = cli.tier.unwrap_or(WantedTier::Auto);
    let has = found.iter().any(|offer| satisfies(offer, wanted));
    if !has {
        eprintln!("xdp-run: --tier {} is not to be had", wanted.text());
    }
    Ok(if has { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether an offer is of the tier. Every interface has kernel sockets.
fn satisfies(offer: &Offer, wanted: WantedTier) -> bool {
    let tier = offer.value("tier");
    match wanted {
        WantedTier::Auto => true,
        WantedTier::Udp => tier.is_some(),
        WantedTier::AfXdp => tier == Some("af_xdp"),
        WantedTier::Passthrough => tier.is_none(),
    }
}

/// A paragraph for each domain. The provider names the program that asked (`ours`) in commands: the
/// user's `program` stands there.
fn report(offers: &[Offer], program: &str, ours: &Path) -> String {
    let mut text = String::new();
    let mut seen: Vec<&str> = Vec::new();
    for offer in offers {
        if seen.contains(&offer.domain.as_str()) {
            continue;
        }
        seen.push(&offer.domain);
        let _ = writeln!(text, "{}: {}", offer.domain, offer.tier());
        for (key, shown) in [("not better because", "no better: "), ("driver offers", "driver: ")] {
            if let Some(reason) = offer.value(key) {
                let reason = reason.replace(&ours.display().to_string(), program);
                let _ = writeln!(text, "    {shown}{reason}");
            }
        }
    }
    if let Some(line) = offers.iter().flat_map(|one| &one.lines).find(|it| is_passthrough(it)) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn is_passthrough(line: &str) -> bool {
    line.starts_with("no passthrough") || line.starts_with("passthrough")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(domain: &str, lines: &[&str]) -> Offer {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        Offer { domain: domain.to_owned(), lines }
    }

    #[test]
    fn the_report_has_the_reason_and_the_users_program() {
        let advice = "not better because: AF_XDP needs CAP_BPF; grant them with `sudo setcap \
                      cap_bpf+ep /usr/bin/xdp-run` or run xdp-broker";
        let lines = ["tier: udp", advice, "no passthrough: efa: not in this libfabric"];
        let offers = [offer("eth0", &lines), offer("eth0", &lines), offer("lo", &["tier: udp"])];
        let wanted = "eth0: udp\n    no better: AF_XDP needs CAP_BPF; grant them with `sudo setcap \
                      cap_bpf+ep ./app` or run xdp-broker\nlo: udp\n\
                      no passthrough: efa: not in this libfabric\n";
        assert_eq!(report(&offers, "./app", Path::new("/usr/bin/xdp-run")), wanted);
    }

    #[test]
    fn a_tier_is_there_or_not() {
        let udp = offer("lo", &["tier: udp"]);
        let xdp = offer("eth0", &["tier: af_xdp", "mode: copy"]);
        let hardware = offer("verbs:mlx5_0", &[]);
        assert!(satisfies(&udp, WantedTier::Udp) && !satisfies(&udp, WantedTier::AfXdp));
        assert!(satisfies(&xdp, WantedTier::AfXdp) && satisfies(&xdp, WantedTier::Udp));
        assert!(
            satisfies(&hardware, WantedTier::Passthrough)
                && !satisfies(&xdp, WantedTier::Passthrough)
        );
        assert_eq!((xdp.tier(), hardware.tier()), ("af_xdp, copy".into(), "passthrough".into()));
    }
}
