// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tiers that `FI_XDP_TIER` chooses among.
//!
//! In: the variable's text. Out: a [`Choice`], by which `getinfo` decides which tiers it may offer.

use std::fmt;
use std::str::FromStr;

/// Which tiers may be offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Choice {
    /// Every tier, the best first.
    #[default]
    Auto,
    /// Hardware providers only.
    Passthrough,
    /// Interfaces with AF_XDP only. An endpoint that gets no AF_XDP socket (its queue is in use)
    /// falls back to kernel sockets, with a warning.
    AfXdp,
    /// Kernel UDP sockets only.
    Udp,
}

impl Choice {
    const ALL: [Self; 4] = [Self::Auto, Self::Passthrough, Self::AfXdp, Self::Udp];

    const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Passthrough => "passthrough",
            Self::AfXdp => "af_xdp",
            Self::Udp => "udp",
        }
    }

    /// Whether hardware providers may be offered.
    pub(crate) const fn has_passthrough(self) -> bool {
        matches!(self, Self::Auto | Self::Passthrough)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no tier.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no tier `{0}`: use auto, passthrough, af_xdp or udp")]
pub(crate) struct UnknownTier(String);

impl FromStr for Choice {
    type Err = UnknownTier;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|tier| tier.name() == text);
        named.ok_or_else(|| UnknownTier(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_come_back_from_their_names() {
        for tier in Choice::ALL {
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        let error = "xdp".parse::<Choice>().unwrap_err().to_string();
        assert_eq!(error, "there is no tier `xdp`: use auto, passthrough, af_xdp or udp");
    }
}
