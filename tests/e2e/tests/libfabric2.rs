// SPDX-License-Identifier: MIT OR Apache-2.0
//! One library for every libfabric: a client on Debian 13's libfabric 2, a server on the installed
//! one.

use std::path::Path;

use anyhow::{Context, ensure};
use ofi_xdp_harness::tier::tier_variable;
use ofi_xdp_harness::two_hosts::{Transfer, TwoHostFixture};

// Finds that libfabric; the provider's own tests have fetched it, without root.
#[path = "../../../ffi/tests/support/mod.rs"]
mod support;

#[test]
fn root_a_libfabric_2_client_reaches_a_libfabric_1_server() -> anyhow::Result<()> {
    let Some(fixture) = TwoHostFixture::new()? else { return Ok(()) };
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
        let variables = [tier_variable(mode)];
        let transfer = Transfer {
            through: &[&loader, "--library-path", &libraries],
            server: &variables,
            client: &variables,
            ..Transfer::default()
        };
        let done = fixture.transfer(&transfer).with_context(|| format!("mode {mode}"))?;
        ensure!(done.report.libfabric.starts_with("2."), "it ran on {}", done.report.libfabric);
    }
    fixture.wait_detached()
}
