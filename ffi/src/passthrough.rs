// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passthrough: which hardware providers are asked, and what their objects are called.
//!
//! In: the list of `FI_XDP_PASSTHROUGH`, the filter `FI_PROVIDER`, the names in an application's
//! hints. Out: the providers to ask with what names, why not the others, and the names that the
//! application sees: the provider, a colon, the provider's own name (`verbs:mlx5_0`, and for a
//! utility provider over it `verbs;ofi_rxm:mlx5_0`). A name says it all: nothing is remembered
//! between `fi_getinfo` and the calls that open what it offered. Called by `shim/passthrough`.
//! Bounds: [`PROVIDERS_MAX`] providers.

use std::fmt::Write as _;

use crate::tier::Choice;

/// Providers that drive hardware that does by itself what this provider does in software, the best
/// first.
pub(crate) const HARDWARE: &str = "efa verbs cxi psm3 opx ucx";
/// Most providers in the list.
pub(crate) const PROVIDERS_MAX: usize = 16;
/// This provider, which is never asked by itself.
const OURS: &str = "xdp";

/// The hardware providers of `FI_XDP_PASSTHROUGH`, as hints name them (`verbs`, `verbs;ofi_rxm`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Providers(Vec<String>);

impl Default for Providers {
    fn default() -> Self {
        Self::parse(HARDWARE)
    }
}

impl Providers {
    /// From the variable's text: names with blanks or commas between them, or `none`. A name that
    /// is there already, or that has this provider in it, is left out.
    pub(crate) fn parse(text: &str) -> Self {
        let mut names: Vec<String> = Vec::new();
        for name in text.split([' ', '\t', ',']).filter(|name| !name.is_empty()) {
            let known = names.iter().any(|known| known.eq_ignore_ascii_case(name));
            let ours = parts(name).any(|part| part.eq_ignore_ascii_case(OURS));
            let none = name.eq_ignore_ascii_case("none");
            if !known && !ours && !none && names.len() < PROVIDERS_MAX {
                names.push(name.to_owned());
            }
        }
        Self(names)
    }

    /// A name that the application saw, taken apart; `None` if it is none of passthrough's.
    pub(crate) fn split<'a>(&self, shown: &'a str) -> Option<Name<'a>> {
        let (provider, own) = shown.split_once(':')?;
        self.0.iter().any(|listed| covers(listed, provider)).then_some(Name { provider, own })
    }
}

/// Whether what `listed` offers may come from `provider`: itself, or something layered over it.
fn covers(listed: &str, provider: &str) -> bool {
    let Some((front, rest)) = provider.split_at_checked(listed.len()) else { return false };
    front.eq_ignore_ascii_case(listed) && (rest.is_empty() || rest.starts_with(';'))
}

/// The layers of a provider's name.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(';')
}

/// A name as the application sees it, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name<'a> {
    /// The provider, with what is layered over it.
    pub(crate) provider: &'a str,
    /// What the provider calls it.
    pub(crate) own: &'a str,
}

/// The name that the application sees for what `provider` calls `own`.
pub(crate) fn shown(provider: &str, own: &str) -> String {
    format!("{provider}:{own}")
}

/// The names in hints, as the application wrote them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names<'a> {
    pub(crate) provider: Option<&'a str>,
    pub(crate) fabric: Option<&'a str>,
    pub(crate) domain: Option<&'a str>,
}

/// A provider to ask, and the names for its hints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Question {
    /// With what it may not be layered with behind it, if hints said so (`verbs;^ofi_mrail`).
    pub(crate) provider: String,
    pub(crate) fabric: Option<String>,
    pub(crate) domain: Option<String>,
}

/// Whom to ask, and why not the others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) questions: Vec<Question>,
    /// In words, for people.
    pub(crate) skipped: Vec<String>,
}

/// Plans the questions. `registered` are the providers that the running libfabric has.
pub(crate) fn plan(
    choice: Choice,
    providers: &Providers,
    filter: &Filter,
    registered: &[String],
    names: Names<'_>,
) -> Plan {
    let mut plan = Plan::default();
    if !choice.has_passthrough() {
        plan.skipped.push(format!("FI_XDP_TIER={choice}"));
        return plan;
    }
    if providers.0.is_empty() {
        plan.skipped.push("FI_XDP_PASSTHROUGH=none".to_owned());
    }
    let missing = |name: &str| {
        !parts(name).all(|part| registered.iter().any(|known| known.eq_ignore_ascii_case(part)))
    };
    let mut absent = String::new();
    for name in &providers.0 {
        if missing(name) {
            let _ = write!(absent, "{}{name}", if absent.is_empty() { "" } else { ", " });
        } else if filter.excludes(name) {
            plan.skipped.push(format!("{name}: excluded by FI_PROVIDER"));
        } else if let Some(question) = question(name, names) {
            plan.questions.push(question);
        } else {
            plan.skipped.push(format!("{name}: the hints name something else"));
        }
    }
    if !absent.is_empty() {
        plan.skipped.push(format!("{absent}: not in this libfabric"));
    }
    plan
}

/// The question to `provider`; `None` if hints name a fabric or a domain that is not its own.
fn question(provider: &str, names: Names<'_>) -> Option<Question> {
    let own = |shown: Option<&str>| match shown {
        None => Some(None),
        Some(shown) => {
            let (from, own) = shown.split_once(':')?;
            covers(provider, from).then(|| Some(own.to_owned()))
        }
    };
    let (fabric, domain) = (own(names.fabric)?, own(names.domain)?);
    let excluded = names.provider.into_iter().flat_map(parts).filter(|part| part.starts_with('^'));
    let provider = std::iter::once(provider).chain(excluded).collect::<Vec<_>>().join(";");
    Some(Question { provider, fabric, domain })
}

/// `FI_PROVIDER`: `a,b` names the providers to show, `^a,b` those to exclude.
///
/// A list of providers to show hides the others from applications; this provider still asks them,
/// as utility providers ask what they are layered over. A provider that is excluded by its name is
/// asked by nobody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    excluded: Vec<String>,
    /// Empty: all of them.
    shown: Vec<String>,
}

impl Filter {
    /// From the variable's text.
    pub(crate) fn parse(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default();
        let names = |text: &str| {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            names.map(str::to_owned).collect()
        };
        match text.strip_prefix('^') {
            None => Self { excluded: Vec::new(), shown: names(text) },
            Some(excluded) => Self { excluded: names(excluded), shown: Vec::new() },
        }
    }

    /// Whether `provider`, of one layer, can be seen by libfabric's `fi_getinfo` only when it is
    /// asked for what is hidden.
    pub(crate) fn hides(&self, provider: &str) -> bool {
        !self.shown.is_empty() && !self.shown.iter().any(|shown| covers(provider, shown))
    }

    /// Whether `provider` has a layer over one that is hidden. libfabric offers that, to those who
    /// ask for what is hidden, but cannot open it: when a utility provider opens, it looks for
    /// what it is layered over as an application would.
    pub(crate) fn cannot_open(&self, provider: &str) -> bool {
        let (bottom, layers) = provider.split_once(';').unwrap_or((provider, ""));
        layers.split(';').any(|layer| !layer.is_empty()) && self.hides(bottom)
    }

    /// Whether `provider`, or a layer of it, may not be used.
    pub(crate) fn excludes(&self, provider: &str) -> bool {
        self.excluded.iter().any(|name| {
            name.eq_ignore_ascii_case(provider)
                || parts(provider).any(|part| part.eq_ignore_ascii_case(name))
        })
    }
}

#[cfg(test)]
mod tests;
