// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registration mode of a domain (`domain_attr->mr_mode`).

use crate::sys::abi;

/// How peers name the memory regions of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MrMode {
    /// Offsets are virtual addresses; otherwise they count from 0.
    pub(crate) virtual_address: bool,
    /// The provider chooses the keys; otherwise the application does.
    pub(crate) provider_key: bool,
}

impl MrMode {
    /// The meaning of these bits of `mr_mode`.
    pub(crate) const fn from_bits(mode: u32) -> Self {
        let basic = mode == abi::FI_MR_BASIC;
        Self {
            virtual_address: basic || mode & abi::FI_MR_VIRT_ADDR != 0,
            provider_key: basic || mode & abi::FI_MR_PROV_KEY != 0,
        }
    }
}
