// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables that a program gets.
//!
//! In: the command line, and this process's environment. Out: variables. The user's own variables
//! stay, unless the command line says otherwise. Called by `main` and `check`. Bound: five
//! variables.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::cli::{ProviderName, WantedTier};

/// The provider's file, as libfabric looks for it.
const LIBRARY: &str = "libxdp-fi.so";

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Environment(Vec<(&'static str, String)>);

impl Environment {
    /// The variables for these wishes.
    pub(crate) fn new(name: ProviderName, tier: Option<WantedTier>, nic: Option<&str>) -> Self {
        let is_set = |variable: &str| std::env::var_os(variable).is_some();
        let mut variables = vec![("FI_XDP_NAME", name.text().to_owned())];
        variables.extend(tier.map(|tier| ("FI_XDP_TIER", tier.text().to_owned())));
        variables.extend(nic.map(|nic| ("FI_XDP_IFACE", nic.to_owned())));
        // Applications that choose by themselves take another provider: this one is last in
        // libfabric's list. Those that look for `tcp` choose by that name.
        if name == ProviderName::Xdp && !is_set("FI_PROVIDER") {
            variables.push(("FI_PROVIDER", name.text().to_owned()));
        }
        let program = std::env::current_exe().ok();
        if let (false, Some(folder)) = (is_set("FI_PROVIDER_PATH"), program.and_then(beside)) {
            variables.push(("FI_PROVIDER_PATH", folder.display().to_string()));
        }
        Self(variables)
    }

    /// Another value for a variable.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.retain(|(known, _)| *known != name);
        self.0.push((name, value.to_owned()));
        self
    }

    /// The variables.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.variables().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// The folder of a provider that was installed under the same prefix as this program, and that
/// libfabric does not find by itself.
fn beside(program: PathBuf) -> Option<PathBuf> {
    let prefix = program.parent().and_then(Path::parent)?;
    let folder = prefix.join("lib/libfabric");
    folder.join(LIBRARY).exists().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_become_variables() {
        let all = Environment::new(ProviderName::Tcp, Some(WantedTier::AfXdp), Some("eth0"));
        let text = all.with("FI_XDP_TIER", "udp").to_string();
        for wanted in ["FI_XDP_NAME=tcp", "FI_XDP_TIER=udp", "FI_XDP_IFACE=eth0"] {
            assert!(text.split(' ').any(|one| one == wanted), "{wanted} is missing from {text}");
        }
        assert!(!text.contains("FI_PROVIDER="), "an application looks for tcp itself: {text}");
    }

    #[test]
    fn a_provider_under_the_same_prefix_is_found() {
        let prefix = std::env::temp_dir().join(format!("xdp-run-{}", std::process::id()));
        let program = prefix.join("bin/xdp-run");
        assert_eq!(beside(program.clone()), None);
        let folder = prefix.join("lib/libfabric");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(LIBRARY), "").unwrap();
        assert_eq!(beside(program), Some(folder));
        std::fs::remove_dir_all(prefix).unwrap();
    }
}
