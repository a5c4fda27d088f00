// SPDX-License-Identifier: MIT OR Apache-2.0
//! One library for every libfabric: a client on Debian 13's libfabric 2, a server on the system's
//! own.

use std::path::Path;

use anyhow::{Context, ensure};
use ofi_xdp_tests::bed::{Bed, Transfer};
use ofi_xdp_tests::way::way;

// Knows where that libfabric is; the provider's own tests have fetched it, without root.
#[path = "../../ffi/tests/support/mod.rs"]
mod support;

#[test]
fn root_a_libfabric_2_client_reaches_a_libfabric_1_server() -> anyhow::Result<()> {
    let Some(bed) = Bed::new()? else { return Ok(()) };
    let Some(root) = support::fetched() else {
        support::skipped(
            "libfabric 2 is fetched by `cargo xtask test libfabric_2`: it is not there",
        );
        return Ok(());
    };
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    ensure!(libraries.is_dir(), "{} is no folder", libraries.display());
    let loader = libraries.join("ld-linux-x86-64.so.2");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let (loader, libraries) = (text(&loader), text(&libraries));
    for mode in ["auto", "udp"] {
        let variables = [way(mode)];
        let transfer = Transfer {
            through: &[&loader, "--library-path", &libraries],
            server: &variables,
            client: &variables,
            ..Transfer::default()
        };
        let done = bed.transfer(&transfer).with_context(|| format!("mode {mode}"))?;
        ensure!(done.report.libfabric.starts_with("2."), "it ran on {}", done.report.libfabric);
    }
    bed.wait_detached()
}
