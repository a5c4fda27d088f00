// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive window: which packets of one peer have arrived (`docs/PROTOCOL.md` §4.2).
//!
//! A cumulative number and a bitmap of the 256 packets from it on. A packet number is admitted once
//! in an epoch; therefore every record takes effect exactly once.

use crate::collections::serial::Psn;

/// How many packets from the cumulative number on the window spans.
pub const WINDOW_PACKETS: u32 = 256;
/// Words of 64 bits in the bitmap.
pub(crate) const WINDOW_WORDS: usize = 4;

/// The verdict of the window on a packet number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// Not seen yet.
    Fresh,
    /// Seen before.
    Duplicate,
    /// Too far ahead to be remembered.
    Beyond,
}

/// Cumulative number and bitmap. Bit `i` stands for `next + i`; bit 0 is never set between calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ReceiveWindow {
    next: Psn,
    bits: [u64; WINDOW_WORDS],
}

impl ReceiveWindow {
    /// Nothing before `next` is missing, nothing from it on has arrived.
    pub(crate) const fn new(next: Psn) -> Self {
        Self { next, bits: [0; WINDOW_WORDS] }
    }

    /// The lowest number that has not arrived: `ack_psn`.
    pub(crate) const fn next(&self) -> Psn {
        self.next
    }

    /// The number after the highest that has arrived.
    pub(crate) fn end(&self) -> Psn {
        let highest = self.bits.iter().rposition(|&word| word != 0);
        highest.map_or(self.next, |at| {
            let bits = self.bits.get(at).map_or(0, |word| 64 - word.leading_zeros());
            self.next.plus(at as u32 * 64 + bits)
        })
    }

    /// Whether the lowest missing number is not marked as arrived, as must be between calls.
    pub(crate) const fn is_sound(&self) -> bool {
        self.bits[0] & 1 == 0
    }

    /// Whether something beyond a missing packet has arrived.
    #[inline]
    pub(crate) fn has_holes(&self) -> bool {
        let [a, b, c, d] = self.bits;
        a | b | c | d != 0
    }

    /// The verdict on `psn`; changes nothing.
    #[inline]
    pub(crate) fn admission(&self, psn: Psn) -> Admission {
        if psn.is_before(self.next) {
            return Admission::Duplicate;
        }
        let distance = psn.since(self.next);
        match self.bits.get((distance / 64) as usize) {
            None => Admission::Beyond,
            Some(word) if word >> (distance % 64) & 1 == 1 => Admission::Duplicate,
            Some(_) => Admission::Fresh,
        }
    }

    /// Remembers that `psn`, which was [`Admission::Fresh`], has been placed.
    pub(crate) fn insert(&mut self, psn: Psn) {
        let distance = psn.since(self.next);
        if distance == 0 && !self.has_holes() {
            self.next = psn.plus(1);
            return;
        }
        if let Some(word) = self.bits.get_mut((distance / 64) as usize) {
            *word |= 1 << (distance % 64);
        }
        if distance == 0 {
            self.advance();
        }
    }

    /// Moves `next` over all that has arrived without a gap.
    fn advance(&mut self) {
        // bound: WINDOW_WORDS whole words and one part of a word
        loop {
            let [first, ..] = self.bits;
            let run = first.trailing_ones();
            self.shift(run);
            self.next = self.next.plus(run);
            if run < 64 {
                return;
            }
        }
    }

    fn shift(&mut self, by: u32) {
        let [a, b, c, d] = self.bits;
        self.bits = match by {
            0 => [a, b, c, d],
            64 => [b, c, d, 0],
            _ => {
                let up = 64 - by;
                [a >> by | b << up, b >> by | c << up, c >> by | d << up, d >> by]
            }
        };
    }

    /// The bitmap as acknowledgments carry it: bit `i` stands for `next + 1 + i`.
    pub(crate) fn sack(&self) -> [u64; WINDOW_WORDS] {
        let mut shifted = *self;
        shifted.shift(1);
        shifted.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn window_is_a_set_of_numbers(
            base: u32,
            steps in prop::collection::vec(0u32..300, 1..600),
        ) {
            let mut window = ReceiveWindow::new(Psn(base));
            let mut next = 0u64; // distance of the cumulative number from `base`
            let mut above = BTreeSet::new();
            for step in steps {
                // Numbers from a little below the window to a little beyond it.
                let number = (next + u64::from(step)).saturating_sub(20);
                let psn = Psn(base.wrapping_add(number as u32));
                let expected = if number < next || above.contains(&number) {
                    Admission::Duplicate
                } else if number >= next + 256 {
                    Admission::Beyond
                } else {
                    Admission::Fresh
                };
                // Below the start of the sequence there is nothing to compare with.
                prop_assert_eq!(window.admission(psn), expected);
                if expected == Admission::Fresh {
                    window.insert(psn);
                    above.insert(number);
                    while above.remove(&next) {
                        next += 1;
                    }
                }
                prop_assert_eq!(window.next(), Psn(base.wrapping_add(next as u32)));
                prop_assert_eq!(window.has_holes(), !above.is_empty());
                let end = above.last().map_or(next, |last| last + 1);
                prop_assert_eq!(window.end(), Psn(base.wrapping_add(end as u32)));
                let sack = window.sack();
                for bit in 0..255u64 {
                    let set = sack[(bit / 64) as usize] >> (bit % 64) & 1 == 1;
                    prop_assert_eq!(set, above.contains(&(next + 1 + bit)));
                }
            }
        }
    }
}
