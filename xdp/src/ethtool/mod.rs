// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests to the driver of an interface by ioctl(2), `SIOCETHTOOL` (linux/ethtool.h).
//!
//! In: typed requests. Out: the kernel's answer, in the request. Callers: `steering`, which changes
//! rules, and `host/card_hash.rs`, which reads the card's hash. Rules have no netlink form
//! (Documentation/networking/ethtool-netlink.rst, "Request translation"), nor have hash fields
//! before Linux 6.17. To read needs no privilege (net/ethtool/ioctl.c, `dev_ethtool`). The kernel
//! socket asks for the MTU of its interface by the same call. Bounds: those of the requests.
//!
//! | file | contents |
//! |---|---|
//! | `ioctl.rs` | an interface, and the system call |
//! | `rules.rs` | `struct ethtool_rxnfc`: rules, and the fields that are hashed |
//! | `hash.rs` | `struct ethtool_rxfh`: key and indirection table |

pub(crate) mod hash;
pub(crate) mod ioctl;
pub(crate) mod rules;

use std::io;

use hash::HashRequest;
use rules::RuleRequest;

/// A driver that takes requests: that of an interface, or the stand-in of a test.
pub(crate) trait Device {
    /// Executes `request`, and writes the answer into it.
    fn call(&self, request: &mut RuleRequest) -> io::Result<()>;

    /// Executes `request`, and writes the answer into it.
    fn read_hash(&self, request: &mut HashRequest) -> io::Result<()>;
}

#[cfg(test)]
mod tests;
