// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage: whether parts that arrive in any order cover a range once, without gap and overlap, in
//! eight bytes for each range.
//!
//! A secret function gives each offset a value. A part counts as the value of its end less that of
//! its beginning. The sum of all parts must be that of the whole range. In the sum of a cover all
//! inner offsets cancel. Any other set of parts leaves values over: its sum is right with a chance
//! of 2^-64. Sources: Blum et al., "Checking the correctness of memories", Algorithmica 12, 1994
//! (offline memory checking); Clarke et al., ASIACRYPT 2003 (multiset hashes). All operations are
//! O(1).

use super::mix::mix;

/// The secret function of an engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coverage {
    keys: [u64; 2],
}

/// The sum of the parts that have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Covered(u64);

impl Coverage {
    /// The function with these keys.
    pub(crate) const fn new(keys: [u64; 2]) -> Self {
        Self { keys }
    }

    /// Adds the part from `offset` on with `len` bytes.
    #[inline]
    pub(crate) fn add(&self, covered: &mut Covered, offset: u64, len: u64) {
        covered.0 = covered.0.wrapping_add(self.part(offset, offset.wrapping_add(len)));
    }

    /// Whether the parts cover the first `len` bytes, each once.
    #[inline]
    pub(crate) fn is_complete(&self, covered: Covered, len: u64) -> bool {
        covered.0 == self.part(0, len)
    }

    const fn part(&self, from: u64, to: u64) -> u64 {
        self.value(to).wrapping_sub(self.value(from))
    }

    const fn value(&self, offset: u64) -> u64 {
        let [one, other] = self.keys;
        mix(mix(offset ^ one).wrapping_add(other))
    }
}

#[cfg(test)]
mod tests {
    use super::mix;
    use super::{Coverage, Covered};
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    fn covers(coverage: &Coverage, parts: &[(u64, u64)], len: u64) -> bool {
        let mut covered = Covered::default();
        for &(offset, len) in parts {
            coverage.add(&mut covered, offset, len);
        }
        coverage.is_complete(covered, len)
    }

    proptest! {
        #[test]
        fn parts_in_any_order_cover_a_range(
            keys in any::<[u64; 2]>(),
            lens in prop::collection::vec(1u64..5, 1..12),
            order in any::<u64>(),
        ) {
            let coverage = Coverage::new(keys);
            let mut parts = Vec::new();
            let mut end = 0;
            for len in lens {
                parts.push((end, len));
                end += len;
            }
            parts.sort_by_key(|part| mix(order ^ part.0));
            prop_assert!(covers(&coverage, &parts, end));
        }

        #[test]
        fn parts_that_leave_a_gap_or_overlap_do_not(
            keys in any::<[u64; 2]>(),
            parts in prop::collection::vec((0u64..16, 1u64..5), 1..10),
        ) {
            let coverage = Coverage::new(keys);
            let mut times = [0u32; 32];
            for &(offset, len) in &parts {
                for at in offset..offset + len {
                    times[at as usize] += 1;
                }
            }
            let end = times.iter().position(|&times| times != 1).unwrap();
            let once = end > 0 && times[end..].iter().all(|&times| times == 0);
            let total = parts.iter().map(|part| part.1).sum();
            prop_assert_eq!(covers(&coverage, &parts, total), once && end as u64 == total);
        }
    }
}
