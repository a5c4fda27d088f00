// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transports of a job: the provider in one of its modes, or TCP for comparison.

use ofi_xdp_harness::tier::XdpMode;

/// The transport of a job's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// The provider, in one of its modes.
    Xdp(XdpMode),
    /// libfabric's own provider over TCP, to compare with.
    Tcp,
}

impl Transport {
    /// The provider's name.
    #[must_use]
    pub const fn provider(self) -> &'static str {
        match self {
            Self::Xdp(_) => "xdp",
            Self::Tcp => "tcp",
        }
    }

    /// For a report.
    #[must_use]
    pub fn label(self) -> String {
        match self {
            Self::Xdp(mode) => format!("xdp/{}", mode.as_str()),
            Self::Tcp => String::from("tcp"),
        }
    }
}
