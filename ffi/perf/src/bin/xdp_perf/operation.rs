// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that are measured, and the transport of each.
//!
//! In: a choice of the command line. Out: the transport. Callers: `arguments`, `main`.

use std::fmt;

use clap::ValueEnum;
use ofi_xdp_perf::plan::Fetch;
use ofi_xdp_perf::transport::{FabricConfig, RmaConfig};
use serde::{Deserialize, Serialize};

/// An operation of libfabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Operation {
    /// Untagged messages (`fi_send`)
    Message,
    /// Tagged messages (`fi_tsend`); untagged ones where the provider has no others
    Tagged,
    /// Writes to the server's memory, with remote CQ data (`fi_writedata`)
    Write,
    /// Reads from the server's memory (`fi_read`)
    Read,
    /// Additions to numbers of 8 bytes in the server's memory (`fi_fetch_atomic`)
    Atomic,
}

impl Operation {
    /// The operation on the server's memory, if it brings bytes from there.
    pub(crate) const fn fetch(self) -> Option<Fetch> {
        match self {
            Self::Message | Self::Tagged | Self::Write => None,
            Self::Read => Some(Fetch::Read),
            Self::Atomic => Some(Fetch::Add),
        }
    }

    /// Its name in tables.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Message | Self::Tagged => "message",
            Self::Write => "write",
            Self::Read => "read",
            Self::Atomic => "fetch-and-add",
        }
    }
}

/// The word of the command line.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "message",
            Self::Tagged => "tagged",
            Self::Write => "write",
            Self::Read => "read",
            Self::Atomic => "atomic",
        })
    }
}

/// The transport of a session, as the client chooses it for both sides.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PerfConfig {
    /// Messages.
    Messages(FabricConfig),
    /// One-sided operations.
    OneSided(RmaConfig),
}
