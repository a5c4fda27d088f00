// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mixing function: for hash tables of keys that no peer chooses, and for the spread of timers.
//! With a secret it serves for values that no peer sees. It is not cryptographic: values that a
//! peer must not guess come from [`secret`](super::secret).

/// Spreads every bit of `value` over the whole result (the finalizer of `SplitMix64`; Steele, Lea
/// and Flood, "Fast splittable pseudorandom number generators", 2014).
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}
