// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offers of the provider in an environment.
//!
//! In: an environment. Out: an [`Offer`] for each address and type of endpoint. A child asks for
//! them ([`here`]), because libfabric reads the environment once in a process, and a provider that
//! crashes ends the child alone. Called by `main` and `check`. Bound: the offers.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use ofi_xdp_libfabric::raw::{Info, abi, getinfo};
use serde::{Deserialize, Serialize};

use crate::cli::ProviderName;
use crate::environment::Environment;

/// An offer to an application.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// The domain: an interface, or a hardware provider with its own.
    pub(crate) domain: String,
    /// The lines of the provider about tiers (`fi_info -v`).
    pub(crate) lines: Vec<String>,
}

impl Offer {
    /// The value of one of the lines, `tier: udp`.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }

    /// Whether it is that of a hardware provider.
    pub(crate) fn is_passthrough(&self) -> bool {
        is_passthrough(&self.domain)
    }

    /// The tier, with the mode.
    pub(crate) fn tier(&self) -> String {
        match (self.value("tier"), self.value("mode")) {
            (Some(tier), Some(mode)) => format!("{tier}, {mode}"),
            (Some(tier), None) => tier.to_owned(),
            (None, _) if self.is_passthrough() => "passthrough".to_owned(),
            (None, _) => "unknown".to_owned(),
        }
    }
}

/// The offers of the provider `name` in the environment of this process.
pub(crate) fn here(name: &str) -> Result<Vec<Offer>> {
    let mut offers = asked(name, None)?;
    for offer in &mut offers {
        // The offers of the best kind of interface alone have the lines, unless another is named.
        if offer.lines.is_empty() && !offer.is_passthrough() {
            let of_one = asked(name, Some(&offer.domain))?;
            let with_lines = of_one.into_iter().find(|one| !one.lines.is_empty());
            offer.lines = with_lines.map_or_else(Vec::new, |one| one.lines);
        }
    }
    // Those of libfabric's own `tcp` have none.
    offers.retain(|offer| name == "xdp" || !offer.lines.is_empty());
    Ok(offers)
}

/// The offers of the provider `name`, of one domain or of all.
fn asked(name: &str, domain: Option<&str>) -> Result<Vec<Offer>> {
    let hints = Info::empty();
    hints.set_provider_name(name);
    if let Some(domain) = domain {
        hints.set_domain_name(domain);
    }
    let is_its = |info: &&Info| info.provider_name() == name;
    match getinfo(abi::VERSION, None, None, 0, Some(&hints)) {
        Ok(offers) => Ok(offers.iter().filter(is_its).map(offer).collect()),
        Err(error) if error.0 == abi::FI_ENODATA => Ok(Vec::new()),
        Err(error) => Err(error).context("fi_getinfo"),
    }
}

fn offer(info: &Info) -> Offer {
    Offer { domain: info.domain_name(), lines: lines(info) }
}

/// Whether `domain` is that of a hardware provider: the name of the provider is in front of a
/// colon, which no name of an interface has (`dev_valid_name`, net/core/dev.c).
fn is_passthrough(domain: &str) -> bool {
    domain.contains(':')
}

/// The lines below the heading `xdp:` of an offer's text.
fn lines(info: &Info) -> Vec<String> {
    let text = info.text();
    let rest = text.lines().map(str::trim).skip_while(|line| *line != "xdp:").skip(1);
    rest.take_while(|line| line.contains(": ")).map(str::to_owned).collect()
}

/// The offers of the provider in `environment`. Its messages are shown.
pub(crate) fn in_environment(environment: &Environment, name: ProviderName) -> Result<Vec<Offer>> {
    let program = std::env::current_exe().context("the path of this program")?;
    let mut child = Command::new(program);
    child.args(["--offers", name.text()]).envs(environment.variables());
    child.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = child.output().context("the child that asks for offers")?;
    ensure!(output.status.success(), "the child that asks for offers ended ({})", output.status);
    serde_json::from_slice(&output.stdout).context("the child's answer")
}
