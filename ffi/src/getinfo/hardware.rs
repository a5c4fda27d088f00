// SPDX-License-Identifier: MIT OR Apache-2.0
//! Passthrough: the queries to hardware providers, and the names of their objects.
//!
//! In: the list of `FI_XDP_PASSTHROUGH`, the filter `FI_PROVIDER`, and the names in an
//! application's hints. Out: the providers to query, with names; the reasons why others are
//! skipped; and the names that the application sees. Such a name is the provider, a colon, and the
//! provider's own name: `verbs:mlx5_0`, and `verbs;ofi_rxm:mlx5_0` for a utility provider over it.
//! The name is complete: no state is kept between `fi_getinfo` and the calls that open an offer.
//! Called by `c_api/passthrough`. Bound: the list of providers.

use std::fmt::Write as _;

use crate::sys::providers::{Providers, covers, ours, parts, shown};
use crate::sys::tier::Choice;

/// The names in hints, as the application wrote them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names<'a> {
    pub(crate) provider: Option<&'a str>,
    pub(crate) fabric: Option<&'a str>,
    pub(crate) domain: Option<&'a str>,
}

/// A query to a provider, with the names for its hints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProviderQuery {
    /// The index of the provider in the list.
    pub(crate) index: usize,
    /// Its name, followed by the utility providers that hints exclude (`verbs;^ofi_mrail`).
    pub(crate) provider: String,
    pub(crate) fabric: Option<String>,
    pub(crate) domain: Option<String>,
}

/// The queries, and the reasons why other providers are skipped.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ProviderQueries {
    pub(crate) queries: Vec<ProviderQuery>,
    /// The reasons, as text.
    pub(crate) skipped: Vec<String>,
}

/// The queries to send. `registered` are the providers of the running libfabric.
pub(crate) fn queries(
    choice: Choice,
    providers: &Providers,
    filter: &Filter,
    registered: &[String],
    names: Names<'_>,
) -> ProviderQueries {
    let mut queries = ProviderQueries::default();
    if !choice.has_passthrough() {
        queries.skipped.push(format!("FI_XDP_TIER={choice}"));
        return queries;
    }
    if providers.is_empty() {
        queries.skipped.push("FI_XDP_PASSTHROUGH=none".to_owned());
    }
    let missing = |name: &str| {
        !parts(name).all(|part| registered.iter().any(|known| known.eq_ignore_ascii_case(part)))
    };
    let mut absent = String::new();
    for (index, name) in providers.names().enumerate() {
        if missing(name) {
            let _ = write!(absent, "{}{name}", if absent.is_empty() { "" } else { ", " });
        } else if filter.excludes(name) {
            queries.skipped.push(format!("{name}: excluded by FI_PROVIDER"));
        } else if filter.stranded(name).is_some() {
            // The lower provider, if listed, offers its layers itself, and can open them.
            queries.skipped.push(format!("{name}: FI_PROVIDER hides the lower one; list that"));
        } else if let Some(query) = query(index, name, names) {
            queries.queries.push(query);
        } else {
            queries.skipped.push(format!("{name}: the hints name something else"));
        }
    }
    if !absent.is_empty() {
        queries.skipped.push(format!("{absent}: not in this libfabric"));
    }
    queries
}

/// The query to `provider`; `None` if hints name a fabric or a domain of another one.
fn query(index: usize, provider: &str, names: Names<'_>) -> Option<ProviderQuery> {
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
    Some(ProviderQuery { index, provider, fabric, domain })
}

impl ProviderQuery {
    /// The query to `layers` over this provider, which then passes through to the provider below:
    /// see [`ProviderRoute`].
    pub(crate) fn rerouted(&self, layers: &str) -> Self {
        let mut parts = self.provider.split(';');
        let bottom = parts.next().unwrap_or_default();
        let excluded = parts.filter(|part| part.starts_with('^'));
        let names = [ours(), layers].into_iter().chain(excluded);
        let own = |name: &Option<String>| name.as_ref().map(|name| shown(bottom, name));
        Self {
            index: self.index,
            provider: names.collect::<Vec<_>>().join(";"),
            fabric: own(&self.fabric),
            domain: own(&self.domain),
        }
    }
}

/// The names by which libfabric opens an object that passthrough offers.
///
/// A utility provider that opens an object searches the provider below it like an application. So
/// it does not find a provider that `FI_PROVIDER` hides. Therefore it is layered over this provider
/// instead, which passes through to the hidden one. The application's `verbs;ofi_rxm:mlx5_0` is
/// then `xdp;ofi_rxm` with the domain `verbs:mlx5_0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProviderRoute {
    /// The provider, for libfabric.
    pub(crate) provider: String,
    /// The hidden provider below it.
    below: Option<String>,
}

impl ProviderRoute {
    /// The route to a provider that the application knows as `provider`.
    pub(crate) fn to(provider: &str, filter: &Filter) -> Self {
        match provider.split_once(';').filter(|(bottom, _)| filter.hides(bottom)) {
            None => Self { provider: provider.to_owned(), below: None },
            Some((bottom, layers)) => {
                Self { provider: format!("{};{layers}", ours()), below: Some(bottom.to_owned()) }
            }
        }
    }

    /// libfabric's name of an object on this route.
    pub(crate) fn own(&self, own: &str) -> String {
        self.below.as_ref().map_or_else(|| own.to_owned(), |below| shown(below, own))
    }

    /// The inverse: the name that the application sees for `provider`'s object `own`.
    pub(crate) fn shown(provider: &str, own: &str) -> String {
        let rerouted = provider.split_once(';').filter(|(bottom, _)| *bottom == ours());
        match rerouted.and_then(|(_, layers)| Some((layers, own.split_once(':')?))) {
            None => shown(provider, own),
            Some((layers, (below, own))) => shown(&format!("{below};{layers}"), own),
        }
    }
}

/// `FI_PROVIDER`: `a,b` lists the providers to show, `^a,b` those to exclude.
///
/// A list of providers to show hides the others from applications. This provider still queries
/// them, like utility providers query the providers below them. An excluded provider is not
/// queried.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    excluded: Vec<String>,
    /// Empty: all of them.
    shown: Vec<String>,
}

impl Filter {
    /// Parses the text of the variable.
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

    /// Whether `fi_getinfo` lists `provider`, of one layer, only in a query for hidden providers.
    pub(crate) fn hides(&self, provider: &str) -> bool {
        !self.shown.is_empty() && !self.shown.iter().any(|shown| covers(provider, shown))
    }

    /// The layers of `provider` if the provider below them is hidden. libfabric lists such a
    /// provider in a query for hidden ones, but cannot open it: see [`ProviderRoute`].
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
