// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the provider is told which way its packets go.

/// The variable for a way that a test names: `udp`, which is a tier, or a mode of AF_XDP.
#[must_use]
pub fn way(name: &str) -> (&'static str, &str) {
    if name == "udp" { ("FI_XDP_TIER", name) } else { ("FI_XDP_MODE", name) }
}
