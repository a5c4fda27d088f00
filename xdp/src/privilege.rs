// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `AF_XDP` may not do without, and how to get it.
//!
//! The thread's capabilities and its user namespace come in, a complaint that names what is missing
//! goes out, once for each port that opens. Two system calls.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use caps::{CapSet, Capability};

/// The number of the machine's own user namespace (linux/nsfs.h, `USER_NS_INIT_INO`).
const INITIAL: u64 = 0xEFFF_FFFD;

/// What is missing, and how to get it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing(String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Missing {
    /// Of a process that lacks `capabilities`.
    fn capabilities(capabilities: &[&str]) -> Self {
        let program = std::env::current_exe().unwrap_or_else(|_| "PROGRAM".into());
        Self(format!(
            "AF_XDP needs {}; grant them with `sudo setcap \
             cap_net_raw,cap_net_admin,cap_bpf+ep {}` or run xdp-broker",
            capabilities.join(", "),
            program.display()
        ))
    }

    /// Of a process in a user namespace.
    fn outside() -> Self {
        let text = "AF_XDP needs capabilities outside of this user namespace; run xdp-broker there";
        Self(text.to_owned())
    }
}

/// Complains when the calling thread lacks what opening an `AF_XDP` port takes (capabilities(7)):
/// `CAP_NET_RAW` for the socket, `CAP_BPF` (or `CAP_SYS_ADMIN`) for the program and its maps,
/// `CAP_NET_ADMIN` for attaching it. Those of a user namespace, where anybody may be root, are not
/// meant: for the program bpf(2) asks for the machine's own (`capable`).
pub(crate) fn check() -> Result<(), Missing> {
    // Where that cannot be told, trying will tell.
    if fs::metadata("/proc/self/ns/user").is_ok_and(|facts| facts.ino() != INITIAL) {
        return Err(Missing::outside());
    }
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    let mut missing = Vec::new();
    if !has(Capability::CAP_NET_RAW) {
        missing.push("CAP_NET_RAW");
    }
    if !has(Capability::CAP_NET_ADMIN) {
        missing.push("CAP_NET_ADMIN");
    }
    if !has(Capability::CAP_BPF) && !has(Capability::CAP_SYS_ADMIN) {
        missing.push("CAP_BPF");
    }
    if missing.is_empty() { Ok(()) } else { Err(Missing::capabilities(&missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_names_capability_and_command() {
        let text = Missing::capabilities(&["CAP_BPF"]).to_string();
        assert!(text.starts_with("AF_XDP needs CAP_BPF; grant them with `sudo setcap "), "{text}");
    }
}
