// SPDX-License-Identifier: MIT OR Apache-2.0
//! Variables of the environment that look like this provider's, and are not.
//!
//! In: the environment. Out: a message with their names, each with the nearest known one. Called
//! once, at load. Bound: [`NAMES_MAX`] names.

use std::collections::BTreeSet;

use crate::sys::notice::Notice;

/// The beginning of every name of a variable of this provider.
pub(crate) const PREFIX: &str = "FI_XDP_";

/// Unknown variables that the message names at most.
const NAMES_MAX: usize = 8;

/// Reports the variables of the environment that begin with [`PREFIX`] and are
/// not in `known`, the variables of the provider.
pub(crate) fn report(known: impl Iterator<Item = String>) {
    static NOTICE: Notice = Notice::new("no such variable: …");
    let known: Vec<String> = known.collect();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    if let Some(message) = message(names, &known) {
        NOTICE.tell(format_args!("{message}"));
    }
}

/// The message about `names`; `None` if all are known.
fn message(names: impl Iterator<Item = String>, known: &[String]) -> Option<String> {
    let unknown = names.filter(|name| name.starts_with(PREFIX) && !known.contains(name));
    // In the order of their names: the environment's own differs from run to run.
    let unknown: BTreeSet<String> = unknown.collect();
    let parts = unknown.iter().take(NAMES_MAX).map(|name| {
        let nearest = nearest(name, known).unwrap_or_default();
        format!("{name} (did you mean {nearest}?)")
    });
    let parts: Vec<String> = parts.collect();
    let message =
        || format!("no such variable: {}; `fi_info -g xdp` lists them all", parts.join(", "));
    (!parts.is_empty()).then(message)
}

/// The known name with the fewest changes.
fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let distance = |one: &&String| strsim::osa_distance(name, one);
    known.iter().min_by_key(distance).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(names: &[&str]) -> Option<String> {
        let known = ["FI_XDP_TIER", "FI_XDP_IFACE", "FI_XDP_MODE"].map(str::to_owned);
        message(names.iter().map(|name| (*name).to_owned()), &known)
    }

    #[test]
    fn a_misspelt_variable_is_named_with_the_nearest_one() {
        let said = said(&["PATH", "FI_XDP_TIRE", "FI_XDP_MODE", "FI_XDP_INTERFACE"]).unwrap();
        let wanted = "no such variable: FI_XDP_INTERFACE (did you mean FI_XDP_IFACE?), \
                      FI_XDP_TIRE (did you mean FI_XDP_TIER?); `fi_info -g xdp` lists them all";
        assert_eq!(said, wanted);
    }

    #[test]
    fn known_and_foreign_variables_are_not_named() {
        assert_eq!(said(&["FI_XDP_TIER", "FI_TCP_IFACE", "HOME", "XDP_TIER"]), None);
    }
}
