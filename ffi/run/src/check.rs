// SPDX-License-Identifier: MIT OR Apache-2.0
//! `xdp-run --check`: the state of each interface, of the host and of the path to another one, and
//! commands that better it.
//!
//! In: the command line. Out: a table, or JSON, and whether the tier that was asked for is to be
//! had, as exit status. Called by `main`. Bound: the offers, five programs for each interface, two
//! for a peer.

mod bounded;
mod cores;
mod expected;
mod finding;
mod host;
mod interrupts;
mod netfilter;
mod nic;
mod peer;
mod table;

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{RunArguments, WantedTier};
use crate::environment::Environment;
use crate::offers::{self, Offer};
use finding::{Finding, PEER};

/// Prints the findings in an environment that asks for everything.
pub(crate) fn run(cli: &RunArguments, environment: &Environment) -> Result<ExitCode> {
    let every = environment.clone().with("FI_XDP_TIER", WantedTier::Auto.text());
    let found = offers::in_environment(&every, cli.name)?;
    let program = cli.program.first().map_or("PROGRAM", |program| program.to_str().unwrap_or("?"));
    let named = named_for(&found, program, &std::env::current_exe()?);
    let mut findings = findings(&named, cli.name.text(), program);
    // The path is that of the application: in its own environment.
    let peer = cli.peer.iter().flat_map(|peer| peer::findings(peer, cli.name, environment));
    findings.extend(peer);
    let mut out = std::io::stdout();
    let text = if cli.json {
        serde_json::to_string_pretty(&findings)? + "\n"
    } else {
        let has_colours = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        table::text(&findings, has_colours)
    };
    // A closed output is not a failure.
    let _ = out.write_all(text.as_bytes());
    let wanted = cli.tier.unwrap_or(WantedTier::Auto);
    let has = found.iter().any(|offer| satisfies(offer, wanted));
    match wanted {
        _ if has => {}
        WantedTier::Auto => eprintln!("xdp-run: no offer: see ✗ above"),
        wanted => eprintln!("xdp-run: --tier {} is not to be had", wanted.text()),
    }
    let is_reached = !findings.iter().any(|it| it.subject == PEER && it.is_failure());
    Ok(if has && is_reached { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The findings about each domain, once, and then about the host.
fn findings(offers: &[Offer], name: &str, program: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for offer in offers {
        if !seen.contains(&offer.domain.as_str()) {
            seen.push(&offer.domain);
            findings.extend(nic::findings(offer, program));
        }
    }
    findings.extend(host::findings(offers.len(), name, program));
    let passthrough = offers.iter().flat_map(|one| &one.lines).find(|it| is_passthrough(it));
    findings.extend(passthrough.map(|line| Finding::good(host::SUBJECT, "hardware", line.clone())));
    findings
}

/// The offers with the user's `program` in commands: the provider names the program that asked
/// (`ours`) there.
fn named_for(offers: &[Offer], program: &str, ours: &Path) -> Vec<Offer> {
    let ours = ours.display().to_string();
    let named = |offer: &Offer| Offer {
        domain: offer.domain.clone(),
        lines: offer.lines.iter().map(|line| line.replace(&ours, program)).collect(),
    };
    offers.iter().map(named).collect()
}

/// Whether an offer is of the tier. Every interface has kernel sockets.
fn satisfies(offer: &Offer, wanted: WantedTier) -> bool {
    match wanted {
        WantedTier::Auto => true,
        WantedTier::Udp => !offer.is_passthrough(),
        WantedTier::AfXdp => offer.value("tier") == Some("af_xdp"),
        WantedTier::Passthrough => offer.is_passthrough(),
    }
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
    fn commands_have_the_users_program() {
        let advice = "not better because: AF_XDP needs CAP_BPF; grant them with `sudo setcap \
                      cap_bpf+ep /usr/bin/xdp-run` or run xdp-broker";
        let offers = [offer("nosuch0", &["tier: udp", advice]), offer("nosuch0", &["tier: udp"])];
        let named = named_for(&offers, "./app", Path::new("/usr/bin/xdp-run"));
        let found = findings(&named, "xdp", "./app");
        let tiers: Vec<_> = found.iter().filter(|it| it.check == "tier").collect();
        assert_eq!(tiers.len(), 1, "one for a domain: {tiers:?}");
        assert_eq!(tiers[0].remedy(), Some("sudo setcap cap_bpf+ep ./app"));
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
        let bare = offer("lo", &[]);
        assert!(satisfies(&bare, WantedTier::Udp) && !satisfies(&bare, WantedTier::Passthrough));
        let tiers = [&xdp, &hardware, &bare].map(Offer::tier);
        assert_eq!(tiers, ["af_xdp, copy", "passthrough", "unknown"]);
    }
}
