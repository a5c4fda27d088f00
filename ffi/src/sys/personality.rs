// SPDX-License-Identifier: MIT OR Apache-2.0
//! The name under which the provider presents itself (`FI_XDP_NAME`).
//!
//! Some applications accept providers from a list of names. Under the name `tcp` the library takes
//! the place of libfabric's own provider of that name: libfabric keeps the one with the higher
//! version. The name is chosen once, when libfabric loads the library: by the variable, else by the
//! folder of the library.
//!
//! In: the text of the variable, the path of the library. Out: the name, and what depends on it.
//! Called at load, and by `getinfo`. Bound: one choice in a process.

use std::ffi::CStr;
use std::path::Path;
use std::sync::OnceLock;

use crate::sys::abi::{self, make_version};
use crate::sys::process;

/// A name, and the shape of the offers that belongs to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Personality {
    /// The provider's own name and protocol.
    #[default]
    Xdp,
    /// Name, protocols and offers of libfabric's `tcp`.
    Tcp,
}

/// The folder whose copy of the library is `tcp` without the variable.
const TCP_FOLDER: &str = "libfabric-as-tcp";
/// A minor version above those of built-in providers, which are ten times libfabric's revision.
const MINOR: u32 = 1_000;

/// The choice of this process: a name, or the text that is none.
static CHOSEN: OnceLock<Result<Personality, UnknownName>> = OnceLock::new();

/// The text names no personality.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("FI_XDP_NAME={0}: there is no such name: use xdp or tcp")]
pub(crate) struct UnknownName(String);

impl Personality {
    /// Every name.
    pub(crate) const ALL: [Self; 2] = [Self::Xdp, Self::Tcp];

    /// The name of the provider.
    pub(crate) const fn name(self) -> &'static CStr {
        match self {
            Self::Xdp => c"xdp",
            Self::Tcp => c"tcp",
        }
    }

    /// Whether `name` is the provider's, in any case.
    pub(crate) fn is_called(self, name: &str) -> bool {
        self.name().to_bytes().eq_ignore_ascii_case(name.as_bytes())
    }

    /// The version of the provider. That of `tcp` is above the built-in one's, which begins with
    /// 100 times libfabric's major version plus its minor one: libfabric prefers this library.
    pub(crate) const fn version(self, libfabric: u32) -> u32 {
        match self {
            Self::Xdp => process::VERSION,
            Self::Tcp => make_version((libfabric >> 16) * 100 + (libfabric & 0xffff), MINOR),
        }
    }

    /// Whether libfabric may layer utility providers over this one unasked. libfabric lists the
    /// reliable datagram offers of `tcp` in front of `tcp;ofi_rxm`, and behind everything else if
    /// there is none.
    pub(crate) const fn is_layered(self) -> bool {
        matches!(self, Self::Tcp)
    }

    /// The choice by the variable's text, else by the path of the library.
    fn choose(name: Option<&str>, library: Option<&Path>) -> Result<Self, UnknownName> {
        if let Some(name) = name {
            let named = Self::ALL.into_iter().find(|one| one.name().to_bytes() == name.as_bytes());
            return named.ok_or_else(|| UnknownName(name.to_owned()));
        }
        let folder = library.and_then(Path::parent).and_then(Path::file_name);
        Ok(if folder.is_some_and(|name| name == TCP_FOLDER) { Self::Tcp } else { Self::Xdp })
    }
}

/// Chooses the name. Called once, at load.
pub(crate) fn choose(name: Option<&str>, library: Option<&Path>) -> Personality {
    let chosen = CHOSEN.get_or_init(|| Personality::choose(name, library));
    chosen.clone().unwrap_or_default()
}

/// The name in this process; the own one before the choice, and after a wrong one.
pub(crate) fn current() -> Personality {
    CHOSEN.get().and_then(|chosen| chosen.clone().ok()).unwrap_or_default()
}

/// The error of a wrong `FI_XDP_NAME`.
pub(crate) fn error() -> Option<&'static UnknownName> {
    CHOSEN.get().and_then(|chosen| chosen.as_ref().err())
}

/// The provider's version in this process.
pub(crate) fn version() -> u32 {
    current().version(abi::version())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_chooses_before_the_folder() {
        let as_tcp = Path::new("/usr/lib/libfabric-as-tcp/libxdp-fi.so");
        let usual = Path::new("/usr/lib/libfabric/libxdp-fi.so");
        let choose = |name, library| Personality::choose(name, Some(library));
        assert_eq!(choose(None, usual), Ok(Personality::Xdp));
        assert_eq!(choose(None, as_tcp), Ok(Personality::Tcp));
        assert_eq!(choose(Some("tcp"), usual), Ok(Personality::Tcp));
        assert_eq!(choose(Some("xdp"), as_tcp), Ok(Personality::Xdp));
        assert_eq!(Personality::choose(None, None), Ok(Personality::Xdp));
        let error = choose(Some("verbs"), usual).unwrap_err().to_string();
        assert_eq!(error, "FI_XDP_NAME=verbs: there is no such name: use xdp or tcp");
    }

    #[test]
    fn tcp_is_newer_than_the_built_in_one() {
        // Built-in versions: libfabric 1.17.1 and 2.6.9.
        for (libfabric, built_in) in [
            (make_version(1, 17), make_version(117, 10)),
            (make_version(2, 6), make_version(206, 90)),
        ] {
            assert!(Personality::Tcp.version(libfabric) > built_in);
            assert_eq!(Personality::Xdp.version(libfabric), process::VERSION);
        }
    }
}
