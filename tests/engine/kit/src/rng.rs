// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers that a seed repeats: one stream for each concern.
//!
//! In: the run's seed and the name of a concern. Out: a stream that no other concern disturbs, so
//! that turning a fault class off leaves the application's choices alone and shrinking works.

/// The golden ratio's odd fraction (Steele, Lea, Flood, 2014).
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of `SplitMix64`.
#[must_use]
pub const fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// `SplitMix64`, and its state.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The stream of `concern` in the run of `seed`.
    #[must_use]
    pub fn new(seed: u64, concern: &str) -> Self {
        let state = concern.bytes().fold(mix(seed ^ GAMMA), |s, byte| mix(s ^ u64::from(byte)));
        Self(state)
    }

    /// 64 random bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// A number below `n`, or 0 for `n` = 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }

    /// An index into `len` things.
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number in `low..=high`.
    pub const fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, percent: f64) -> bool {
        self.chance(percent / 100.0)
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number in `low..=high`, each order of magnitude equally likely.
    pub fn magnitude(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.max(1) as f64, high.max(1) as f64);
        (low * (high / low).powf(self.unit())) as u64
    }

    /// A time until the next of events that come every `mean` on average: half of it to half more.
    pub const fn interval(&mut self, mean: u64) -> u64 {
        self.within(mean / 2, mean + mean / 2)
    }

    /// One of `choices`.
    pub const fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Folds bytes into a hash, eight at a time.
#[must_use]
pub fn hash(state: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let fold = |s: u64, w: u64| (s.rotate_left(23) ^ w).wrapping_mul(GAMMA);
    let state = words.iter().fold(state, |s, word| fold(s, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(fold(fold(state, u64::from_le_bytes(last)), bytes.len() as u64))
}

/// Word `index` of the contents that belong to `id`.
const fn word(id: u64, index: u64) -> u64 {
    if index == 0 { id } else { mix(id.wrapping_mul(GAMMA).wrapping_add(index)) }
}

/// Writes the bytes from `offset` on of the contents that belong to `id`. The first eight bytes of
/// all contents are the id itself.
pub fn fill_pattern(id: u64, offset: u64, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        let position = offset + at as u64;
        let bytes = word(id, position / 8).to_le_bytes();
        let skip = (position % 8) as usize;
        let len = (8 - skip).min(into.len() - at);
        into[at..at + len].copy_from_slice(&bytes[skip..skip + len]);
        at += len;
    }
}

/// Where `bytes` first differ from the contents of `id` that begin at `offset`.
#[must_use]
pub fn differs_at(id: u64, offset: u64, bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        let position = offset + at as u64;
        let expected = word(id, position / 8).to_le_bytes();
        let skip = (position % 8) as usize;
        let len = (8 - skip).min(bytes.len() - at);
        let pairs = bytes[at..at + len].iter().zip(&expected[skip..]);
        if let Some(wrong) = pairs.into_iter().position(|(is, should)| is != should) {
            return Some(at + wrong);
        }
        at += len;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_concern_has_a_stream_of_its_own() {
        let mut net = Rng::new(1, "net");
        assert_eq!(net.next(), Rng::new(1, "net").next());
        assert_ne!(net.next(), Rng::new(1, "app").next());
        assert!((0..1000).all(|_| (3..=5).contains(&net.within(3, 5))));
    }

    #[test]
    fn patterns_are_the_same_from_any_offset() {
        let mut whole = [0; 100];
        fill_pattern(7, 0, &mut whole);
        for at in 0..100 {
            let mut part = vec![0; 100 - at];
            fill_pattern(7, at as u64, &mut part);
            assert_eq!(part, whole[at..]);
            assert_eq!(differs_at(7, at as u64, &part), None);
        }
        whole[50] ^= 1;
        assert_eq!(differs_at(7, 0, &whole), Some(50));
    }
}
