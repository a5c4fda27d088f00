// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C (RFC 3720 §12.1) of packets: what the engine's `Checksum` is in production.
//!
//! In: the value so far, and bytes. Out: the value with them. Long runs go to the `crc-fast` crate,
//! which folds up to 64 bytes an instruction (V. Gopal et al., "Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ", Intel 2009); for the few bytes of a header and a small message its
//! set-up costs more than the sum, so those are done here, eight bytes an instruction, where the
//! processor has SSE 4.2. Bound: one pass.
#![allow(unsafe_code)]

use crc_fast::{CrcAlgorithm, Digest};

/// From this length on folding pays: about 16 ns, where the short way takes three cycles a word.
const LONG: usize = 256;

/// Continues the CRC-32C `crc` of some bytes with `bytes`; 0 is that of none.
#[inline]
#[must_use]
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < LONG && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2, the line above has asked.
        return unsafe { short(crc, bytes) };
    }
    long(crc, bytes)
}

// Apart, for its state is large and the short way needs none.
#[inline(never)]
fn long(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    // A sum of 32 bits in a number of 64.
    digest.finalize() as u32
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let state = words
        .iter()
        .fold(u64::from(!crc), |state, word| _mm_crc32_u64(state, u64::from_le_bytes(*word)));
    let state = rest.iter().fold(state as u32, |state, &byte| _mm_crc32_u8(state, byte));
    !state
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn it_is_the_standard_s_sum() {
        // RFC 3720 §B.4: 32 bytes of zeros, of ones, and ascending.
        assert_eq!(crc32c(0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(0, &[0xff; 32]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(0, &ascending), 0x46dd_794e);
    }

    proptest! {
        #[test]
        fn any_split_gives_what_another_crate_gives(
            bytes in prop::collection::vec(any::<u8>(), 0..9000), at in 0usize..9000,
        ) {
            let whole = crc32c::crc32c(&bytes);
            prop_assert_eq!(crc32c(0, &bytes), whole);
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(crc32c(crc32c(0, head), tail), whole);
        }
    }
}
