// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tests of the virtual machine, and how they are run: one after the other, each told with its
//! time, each failure whole.

use std::time::Instant;

use crate::cards::Cards;
use crate::{conformance, fallback, igb, mpi, trouble, vlan, zerocopy};

/// A test: its name, and what it does with the cards.
pub(crate) type Test = (&'static str, fn(&Cards) -> anyhow::Result<()>);

/// All of them, in the order in which they run: what the others build on comes first.
const TESTS: [&[Test]; 7] = [
    zerocopy::TESTS,
    conformance::TESTS,
    igb::TESTS,
    mpi::TESTS,
    fallback::TESTS,
    vlan::TESTS,
    trouble::TESTS,
];

/// A test whose name begins so takes minutes by emulation, and runs only if it is asked for.
const SLOW: &str = "slow_";

/// Runs the tests whose name contains one of `filter`, or all, slow ones only with `slow`; how many
/// passed, and how many failed.
///
/// # Errors
/// When the machine has not the cards.
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
