// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the programs that send tagged messages want of a provider.
//!
//! In: its name, and the local address. Out: the hints. Callers: the programs.

use std::net::IpAddr;

use ofi_xdp_libfabric::{Kind, Want};

/// A reliable endpoint at `local` that sends tagged messages and nothing else.
#[must_use]
pub const fn tagged_messages(provider: &str, local: IpAddr, port: Option<u16>) -> Want<'_> {
    Want {
        provider,
        kind: Kind::Rdm,
        tagged: true,
        rma: false,
        atomic: false,
        auto_progress: false,
        source: Some(local),
        port,
        destination: None,
    }
}
