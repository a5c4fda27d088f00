// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers of the tests.
#![allow(dead_code, reason = "each test file uses a part")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ofi_xdp_bpf::EndpointAddress;

/// The link-layer address of the tests' interface.
pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// The endpoint at `address` on the tests' interface.
pub(crate) fn endpoint(address: SocketAddr) -> EndpointAddress {
    let broadcast = Some(Ipv4Addr::new(198, 18, 0, 255));
    EndpointAddress { address, broadcast, mac: MAC, any_payload: false }
}

/// Whether to skip a test that needs privilege: only on request, and never silently.
pub(crate) fn skipped(capability: &str) -> bool {
    let unprivileged = !nix::unistd::geteuid().is_root();
    let skip = unprivileged && std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|v| v == "skip");
    if skip {
        println!("SKIPPED: needs {capability}");
    }
    skip
}

/// Waits until `condition` holds, 5 seconds at most.
#[track_caller]
pub(crate) fn eventually(mut condition: impl FnMut() -> bool) {
    let held = (0..500).any(|_| {
        condition() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(held, "did not come true in time");
}
