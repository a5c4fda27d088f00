// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware providers of `FI_XDP_PASSTHROUGH`, and the names of their objects.
//!
//! In: the text of the variable, and names that the application sees (`verbs:mlx5_0`). Out: the
//! list of providers, and the two parts of a name. Bound: [`PROVIDERS_MAX`] providers.

use crate::sys::personality::{self, Personality};

/// The default list: providers of hardware with its own reliable transport, the best first.
const HARDWARE: &str = "efa verbs cxi psm3 opx ucx";
/// Most providers in the list.
const PROVIDERS_MAX: usize = 16;
/// This provider's name in this process.
pub(crate) fn ours() -> &'static str {
    personality::current().name().to_str().unwrap_or_default()
}

/// The hardware providers of `FI_XDP_PASSTHROUGH`, as hints name them (`verbs`, `verbs;ofi_rxm`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Providers(Vec<String>);

impl Default for Providers {
    fn default() -> Self {
        Self::parse(HARDWARE)
    }
}

impl Providers {
    /// Parses the text of the variable: names with blanks or commas between them, or `none`. A
    /// repeated name is left out, and one that contains this provider.
    pub(crate) fn parse(text: &str) -> Self {
        let mut names: Vec<String> = Vec::new();
        for name in text.split([' ', '\t', ',']).filter(|name| !name.is_empty()) {
            let known = names.iter().any(|known| known.eq_ignore_ascii_case(name));
            // It never queries itself.
            let ours = parts(name).any(is_ours);
            let none = name.eq_ignore_ascii_case("none");
            if !known && !ours && !none && names.len() < PROVIDERS_MAX {
                names.push(name.to_owned());
            }
        }
        Self(names)
    }

    /// Whether passthrough is off.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, the best provider first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The list of the provider at `index` only.
    pub(crate) fn only(&self, index: usize) -> Self {
        Self(self.0.get(index).cloned().into_iter().collect())
    }

    /// The parts of a name that the application sees; `None` if it is not from passthrough.
    pub(crate) fn split<'a>(&self, shown: &'a str) -> Option<ShownName<'a>> {
        let (provider, own) = shown.split_once(':')?;
        self.0.iter().any(|listed| covers(listed, provider)).then_some(ShownName { provider, own })
    }
}

/// Whether `provider` is the provider `listed`, or is layered over it.
pub(crate) fn covers(listed: &str, provider: &str) -> bool {
    let Some((front, rest)) = provider.split_at_checked(listed.len()) else { return false };
    front.eq_ignore_ascii_case(listed) && (rest.is_empty() || rest.starts_with(';'))
}

/// Whether a provider is this one, under any of its names in this process.
fn is_ours(name: &str) -> bool {
    [Personality::Xdp, personality::current()].into_iter().any(|one| one.is_called(name))
}

/// The layers in the name of a provider.
pub(crate) fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split(';')
}

/// The parts of a name that the application sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ShownName<'a> {
    /// The provider, with the utility providers layered over it.
    pub(crate) provider: &'a str,
    /// The provider's own name.
    pub(crate) own: &'a str,
}

/// The name that the application sees for `provider`'s object `own`.
pub(crate) fn shown(provider: &str, own: &str) -> String {
    format!("{provider}:{own}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_names_without_ours_and_without_repetition() {
        let list = |text| Providers::parse(text).0;
        assert_eq!(list(HARDWARE), ["efa", "verbs", "cxi", "psm3", "opx", "ucx"]);
        assert_eq!(list("tcp, verbs;ofi_rxm ,TCP  sockets"), ["tcp", "verbs;ofi_rxm", "sockets"]);
        assert_eq!(list("xdp tcp;xdp XDP;ofi_rxm"), [""; 0], "it would ask itself");
        assert_eq!(list("none"), [""; 0]);
        let names: Vec<String> = (0..40).map(|number| format!("p{number}")).collect();
        assert_eq!(list(&names.join(" ")).len(), PROVIDERS_MAX);
    }

    #[test]
    fn names_come_apart_as_they_were_put_together() {
        let providers = Providers::parse("verbs tcp;ofi_rxm");
        let shown = shown("verbs;ofi_rxm", "IB-0xfe80:1");
        let name = providers.split(&shown).unwrap();
        assert_eq!(name, ShownName { provider: "verbs;ofi_rxm", own: "IB-0xfe80:1" });
        assert!(providers.split("TCP;ofi_rxm:lo").is_some());
        // Not listed, not layered over a listed one, a common prefix only, or an own network.
        for foreign in ["tcp:lo", "verbsx:lo", "verb:lo", "lo", "2001:db8::/64", "198.18.0.0/24"] {
            assert_eq!(providers.split(foreign), None, "{foreign}");
        }
    }
}
