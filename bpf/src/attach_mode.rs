// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attach mode of the XDP program: native or generic.
//!
//! In: the mode that the port asks for. Out: the flags of `BPF_LINK_CREATE`, and a name for
//! messages. Callers: `redirect.rs`, `attached.rs`. Bound: two values.

use std::fmt;

use libbpf_rs::libbpf_sys;

/// Where in the receive path the program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachMode {
    /// In the driver, before the kernel builds an skb.
    Native,
    /// In the network core, on the skb: works with every driver.
    Generic,
}

impl AttachMode {
    pub(crate) const fn flags(self) -> u32 {
        match self {
            Self::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Self::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }
}

impl fmt::Display for AttachMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
