// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `AF_XDP` may not do without, and how to get it.
//!
//! The thread's capabilities come in, a complaint that names the missing ones goes out, once for
//! each port that opens. One system call.

use std::fmt;

use caps::{CapSet, Capability};

/// Capabilities that are missing, and the command that grants them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Missing(Vec<&'static str>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = std::env::current_exe().unwrap_or_else(|_| "PROGRAM".into());
        write!(
            f,
            "AF_XDP needs {}; grant them with `sudo setcap \
             cap_net_raw,cap_net_admin,cap_bpf+ep {}` or run xdp-broker",
            self.0.join(", "),
            program.display()
        )
    }
}

/// Complains when the calling thread lacks what opening an `AF_XDP` port takes (capabilities(7)):
/// `CAP_NET_RAW` for the socket, `CAP_BPF` (or `CAP_SYS_ADMIN`) for the program and its maps,
/// `CAP_NET_ADMIN` for attaching it.
pub(crate) fn check() -> Result<(), Missing> {
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
    if missing.is_empty() { Ok(()) } else { Err(Missing(missing)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_complaint_names_capability_and_command() {
        let text = Missing(vec!["CAP_BPF"]).to_string();
        assert!(text.starts_with("AF_XDP needs CAP_BPF; grant them with `sudo setcap "), "{text}");
    }
}
