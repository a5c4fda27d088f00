// SPDX-License-Identifier: MIT OR Apache-2.0
//! The provider's variables for the choice of a tier.

use clap::ValueEnum;

/// The provider's parameters `FI_XDP_MODE` and `FI_XDP_TIER`: see [`tier_variable`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum XdpMode {
    /// The best that works.
    Auto,
    /// AF_XDP, zero-copy.
    Zerocopy,
    /// AF_XDP, native mode of the driver, copying.
    Copy,
    /// AF_XDP, generic mode.
    Skb,
    /// Kernel UDP sockets.
    Udp,
}

impl XdpMode {
    /// The value of the parameters.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Zerocopy => "zerocopy",
            Self::Copy => "copy",
            Self::Skb => "skb",
            Self::Udp => "udp",
        }
    }
}

/// The variable for a tier by name: `udp` and `passthrough` are tiers, all other names are modes of
/// AF_XDP.
#[must_use]
pub fn tier_variable(name: &str) -> (&'static str, &str) {
    if ["udp", "passthrough"].contains(&name) {
        ("FI_XDP_TIER", name)
    } else {
        ("FI_XDP_MODE", name)
    }
}
