// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of tests, which run one after the other, with their times and their failures.

use std::time::Instant;

use crate::cards::{Cards, Test};
use crate::{conformance, fallback, igb, mpi, trouble, vlan, zerocopy};

/// All tests, in the order in which they run: basic ones first.
const TESTS: [&[Test]; 7] = [
    zerocopy::TESTS,
    conformance::TESTS,
    igb::TESTS,
    mpi::TESTS,
    fallback::TESTS,
    vlan::TESTS,
    trouble::TESTS,
];

/// Prefix of tests that take minutes by emulation, and run only on request.
const SLOW: &str = "slow_";

/// Runs the tests with a name that contains one of `filter`, or all, slow ones only with `slow`.
/// Returns the numbers of passed and failed tests.
///
/// # Errors
/// When a card is missing.
pub(crate) fn run(filter: &[String], slow: bool) -> anyhow::Result<(u64, u64)> {
    let cards = Cards::deal()?;
    let (mut passed, mut failed) = (0, 0);
    let named = |name: &str| filter.iter().any(|text| name.contains(text.as_str()));
    let wanted =
        |name: &str| (slow || !name.starts_with(SLOW)) && (filter.is_empty() || named(name));
    for (name, test) in TESTS.into_iter().flatten().filter(|(name, _)| wanted(name)) {
        let start = Instant::now();
        let outcome = test(&cards);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                passed += 1;
                println!("PASS {name} ({seconds:.1} s)");
            }
            Err(error) => {
                failed += 1;
                println!("FAIL {name} ({seconds:.1} s)\n  {error:#}");
            }
        }
    }
    Ok((passed, failed))
}
