// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pseudorandom numbers and a mixing function: for jitter, sequence bases, tokens, cookies and
//! hashing.
//!
//! The generator does not withstand analysis. `docs/PROTOCOL.md` §5.3 lists the uses that rest on
//! it.

/// Spreads every bit of `value` over the whole result (the finalizer of `SplitMix64`; Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// Absorbs `words`, in order, into `state`.
pub(crate) fn mix_all(state: u64, words: &[u64]) -> u64 {
    words
        .iter()
        .fold(mix(state), |state, &word| mix(state.rotate_left(23) ^ word).wrapping_add(word))
}

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}
