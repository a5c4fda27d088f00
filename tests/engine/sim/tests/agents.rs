// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random runs of connection managers. `OFI_XDP_SEEDS` is the number of runs, `OFI_XDP_SEED` the
//! first one.

use ofi_xdp_sim::agents::{Outcomes, run};

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn connections_end_at_both_sides() {
    let (first, seeds) = (variable("OFI_XDP_SEED", 0), variable("OFI_XDP_SEEDS", 300));
    let (mut sums, mut failed) = (Outcomes::default(), Vec::new());
    for seed in first..first + seeds {
        match run(seed) {
            Ok(outcomes) => sums.add(outcomes),
            Err(violation) => failed.push(format!("seed {seed}: {violation}")),
        }
    }
    println!("{sums:?}");
    assert!(failed.is_empty(), "{} of {seeds} failed:\n{}", failed.len(), failed.join("\n"));
    if seeds >= 100 {
        let all = [sums.up, sums.rejected, sums.gone, sums.failed, sums.timed_out];
        assert!(all.iter().all(|&count| count >= seeds / 10), "each end comes: {sums:?}");
    }
}
