// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum (RFC 1071).
//!
//! In: bytes, in even-sized pieces and one last piece of any size. Out: the ones' complement of
//! their ones' complement sum. Callers: the IPv4 and UDP headers. Bound: one pass, 4 bytes at a
//! time; a 64-bit sum of 32-bit words cannot overflow below 2^32 of them.

/// An unfinished checksum.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct InternetChecksum(u64);

impl InternetChecksum {
    /// Adds `bytes`; an odd last byte counts like one with a zero behind it.
    #[inline]
    pub(super) fn add(self, bytes: &[u8]) -> Self {
        let (words, tail) = bytes.as_chunks::<4>();
        // RFC 1071 §2 (B): the sum is the same in either byte order, up to a swap of the result. §2
        // (C): wider words may be added, and folded at the end.
        let sum = words
            .iter()
            .fold(self.0, |sum, quad| sum.wrapping_add(u64::from(u32::from_ne_bytes(*quad))));
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(tail) {
            *to = *from;
        }
        Self(sum.wrapping_add(u64::from(u32::from_ne_bytes(last))))
    }

    /// The checksum of all added bytes, in wire order.
    #[inline]
    pub(super) fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        // bound: 64 bits fold to 16 in at most 4 rounds, the later ones adding single carries.
        for _ in 0..4 {
            sum = (sum & 0xffff).wrapping_add(sum >> 16);
        }
        let [low, high, ..] = sum.to_le_bytes();
        (!u16::from_le_bytes([low, high])).to_ne_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// RFC 1071 §4.1, in steps of 16 bits.
    fn naive(bytes: &[u8]) -> [u8; 2] {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([pair[0], low]));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        u16::try_from(!sum & 0xffff).unwrap().to_be_bytes()
    }

    #[test]
    fn rfc_1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(InternetChecksum::default().add(&bytes).finish(), (!0xddf2_u16).to_be_bytes());
    }

    #[test]
    fn no_carry_is_lost() {
        let ones = [0xff; 65_536];
        for length in [0, 1, 2, 3, 4, 5, 1471, 1472, 65_535, 65_536] {
            assert_eq!(
                InternetChecksum::default().add(&ones[..length]).finish(),
                naive(&ones[..length])
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn equals_the_naive_sum(words: Vec<u16>, bytes: Vec<u8>) {
            let first: Vec<u8> = words.iter().flat_map(|quad| quad.to_be_bytes()).collect();
            let mut all = first.clone();
            all.extend_from_slice(&bytes);
            proptest::prop_assert_eq!(
                InternetChecksum::default().add(&first).add(&bytes).finish(),
                naive(&all)
            );
        }
    }
}
