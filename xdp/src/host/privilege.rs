// SPDX-License-Identifier: MIT OR Apache-2.0
//! Capabilities for `AF_XDP`: which ones are missing, and how to grant them.
//!
//! In: the calling thread's capabilities and user namespace. Out: an error that names the missing
//! ones. Callers: each port that opens, and the expected tier. Bound: two system calls.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use caps::{CapSet, Capability};

use crate::error::Missing;

/// Inode number of the initial user namespace (linux/nsfs.h, `USER_NS_INIT_INO`).
const INITIAL: u64 = 0xEFFF_FFFD;

/// The error of a process that lacks `capabilities`.
fn lacking(capabilities: &[&str]) -> Missing {
    let program = std::env::current_exe().unwrap_or_else(|_| "PROGRAM".into());
    Missing(format!(
        "AF_XDP needs {}; grant them with `sudo setcap \
         cap_net_raw,cap_net_admin,cap_bpf+ep {}` or run xdp-broker",
        capabilities.join(", "),
        program.display()
    ))
}

/// The error of a process in a user namespace.
fn in_user_namespace() -> Missing {
    let text = "AF_XDP needs capabilities outside of this user namespace; run xdp-broker there";
    Missing(text.to_owned())
}

/// Checks the calling thread's capabilities for an `AF_XDP` port (capabilities(7)). They are
/// `CAP_NET_RAW` for the socket, `CAP_BPF` or `CAP_SYS_ADMIN` for the program and its maps,
/// `CAP_NET_ADMIN` for attaching it. Capabilities in a user namespace do not count, because bpf(2)
/// asks for those of the initial one (`capable`).
pub(crate) fn check() -> Result<(), Missing> {
    // Without this file the attempt itself will show whether capabilities suffice.
    if fs::metadata("/proc/self/ns/user").is_ok_and(|metadata| metadata.ino() != INITIAL) {
        return Err(in_user_namespace());
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
    if missing.is_empty() { Ok(()) } else { Err(lacking(&missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_names_capability_and_command() {
        let text = lacking(&["CAP_BPF"]).to_string();
        assert!(text.starts_with("AF_XDP needs CAP_BPF; grant them with `sudo setcap "), "{text}");
    }
}
