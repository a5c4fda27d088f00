// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random runs. `OFI_XDP_SEEDS` is their number, `OFI_XDP_SEED` the first seed.

use ofi_xdp_sim::swarm::{Sums, one};

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn a_swarm_breaks_nothing() {
    let (first, seeds) = (variable("OFI_XDP_SEED", 0), variable("OFI_XDP_SEEDS", 300));
    let mut sums = Sums::default();
    let mut failed = Vec::new();
    for seed in first..first + seeds {
        match one(seed) {
            Ok(report) => sums.add(&report),
            Err(violation) => failed.push(format!("seed {seed}: {violation}")),
        }
    }
    assert!(failed.is_empty(), "{} of {seeds} failed:\n{}", failed.len(), failed.join("\n"));
    if seeds >= 2_000 {
        let missing: Vec<_> = sums.coverage.missing().collect();
        assert!(missing.is_empty(), "never taken: {missing:?}");
    }
}
