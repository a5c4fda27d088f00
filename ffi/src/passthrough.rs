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

    /// The one at `place` alone.
    pub(crate) fn only(&self, place: usize) -> Self {
        Self(self.0.get(place).cloned().into_iter().collect())
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
    /// The place of the provider in the list.
    pub(crate) place: usize,
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
    for (place, name) in providers.0.iter().enumerate() {
        if missing(name) {
            let _ = write!(absent, "{}{name}", if absent.is_empty() { "" } else { ", " });
        } else if filter.excludes(name) {
            plan.skipped.push(format!("{name}: excluded by FI_PROVIDER"));
        } else if filter.stranded(name).is_some() {
            // What is layered over it comes with the lower provider itself, and can be opened.
            plan.skipped.push(format!("{name}: FI_PROVIDER hides the lower one; list that"));
        } else if let Some(question) = question(place, name, names) {
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
fn question(place: usize, provider: &str, names: Names<'_>) -> Option<Question> {
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
    Some(Question { place, provider, fabric, domain })
}

impl Question {
    /// The same to `layers` over this provider, which then passes through to the one below: see
    /// [`Route`].
    pub(crate) fn rerouted(&self, layers: &str) -> Self {
        let mut parts = self.provider.split(';');
        let bottom = parts.next().unwrap_or_default();
        let excluded = parts.filter(|part| part.starts_with('^'));
        let names = [OURS, layers].into_iter().chain(excluded);
        let own = |name: &Option<String>| name.as_ref().map(|name| shown(bottom, name));
        Self {
            place: self.place,
            provider: names.collect::<Vec<_>>().join(";"),
            fabric: own(&self.fabric),
            domain: own(&self.domain),
        }
    }
}

/// How libfabric can open what the application knows as a provider's.
///
/// A utility provider that opens looks for what it is layered over as an application would, so it
/// does not find what `FI_PROVIDER` hides. It finds us: it is layered over this provider then, and
/// this provider passes through to the one below, by the name that it has for that. For the
/// application `verbs;ofi_rxm:mlx5_0`, it is `xdp;ofi_rxm` with a domain `verbs:mlx5_0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The provider, for libfabric.
    pub(crate) provider: String,
    /// What is passed through to below it.
    below: Option<String>,
}

impl Route {
    /// For what the application knows as `provider`'s.
    pub(crate) fn to(provider: &str, filter: &Filter) -> Self {
        match provider.split_once(';').filter(|(bottom, _)| filter.hides(bottom)) {
            None => Self { provider: provider.to_owned(), below: None },
            Some((bottom, layers)) => {
                Self { provider: format!("{OURS};{layers}"), below: Some(bottom.to_owned()) }
            }
        }
    }

    /// What libfabric calls it there.
    pub(crate) fn own(&self, own: &str) -> String {
        self.below.as_ref().map_or_else(|| own.to_owned(), |below| shown(below, own))
    }

    /// Back: the name that the application sees for what libfabric says is `provider`'s `own`.
    pub(crate) fn shown(provider: &str, own: &str) -> String {
        let rerouted = provider.split_once(';').filter(|(bottom, _)| *bottom == OURS);
        match rerouted.and_then(|(_, layers)| Some((layers, own.split_once(':')?))) {
            None => shown(provider, own),
            Some((layers, (below, own))) => shown(&format!("{below};{layers}"), own),
        }
    }
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

    /// The layers of `provider` if they are over one that is hidden. libfabric offers that to those
    /// who ask for what is hidden, but cannot open it: see [`Route`].
    pub(crate) fn stranded<'a>(&self, provider: &'a str) -> Option<&'a str> {
        let (bottom, layers) = provider.split_once(';')?;
        self.hides(bottom).then_some(layers)
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
