// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times of single operations, collected at the cost of a store each.
//!
//! In: times. Out: their histogram, and the median of each block. Caller: the client. Bound:
//! [`BLOCK`] times, and a histogram of constant size.

use hdrhistogram::Histogram;

use crate::report::histogram;

/// Times that are kept before they enter the histogram, which costs more than a store.
const BLOCK: usize = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Samples {
    block: Vec<u64>,
    histogram: Histogram<u64>,
    /// 2 where a half of each time counts, as of round trips.
    divisor: u64,
}

impl Samples {
    pub(super) fn new(divisor: u64) -> Self {
        Self { block: Vec::with_capacity(BLOCK), histogram: histogram(), divisor }
    }

    /// Adds a time, in ns. Returns whether the block is full: then [`Self::fold`] is due.
    #[inline]
    pub(super) fn push(&mut self, time_ns: u64) -> bool {
        self.block.push(time_ns);
        self.block.len() >= BLOCK
    }

    /// Enters the block into the histogram. Returns its median, in ns.
    pub(super) fn fold(&mut self) -> Option<u64> {
        for time in &self.block {
            self.histogram.saturating_record(time / self.divisor);
        }
        let middle = self.block.len() / 2;
        let median = (!self.block.is_empty())
            .then(|| *self.block.select_nth_unstable(middle).1 / self.divisor);
        self.block.clear();
        median
    }

    /// The histogram of all times.
    pub(super) fn finish(mut self) -> Histogram<u64> {
        self.fold();
        self.histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_times_enter_the_histogram() {
        let mut samples = Samples::new(2);
        assert_eq!(samples.fold(), None);
        let full = (0..BLOCK as u64).filter(|time| samples.push(2 * time)).count();
        assert_eq!(full, 1);
        assert_eq!(samples.fold(), Some(BLOCK as u64 / 2));
        assert!(!samples.push(10));
        assert_eq!(samples.finish().len(), BLOCK as u64 + 1);
    }
}
