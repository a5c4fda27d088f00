// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C (RFC 3720 §12.1) of packets: what the engine's `Checksum` is in production.
//!
//! In: the value so far, and bytes. Out: the value with them. The processor's instruction for it
//! (SSE 4.2) takes eight bytes a cycle, but its result three cycles later: so longer runs are done
//! as three, side by side, which a multiplication puts together (V. Gopal et al., "Fast CRC
//! Computation for iSCSI Polynomial Using CRC32 Instruction", Intel 2011). With AVX-512 the
//! `crc-fast` crate folds 64 bytes an instruction, which long runs are worth; without it, its
//! folding takes twice the time of three runs. It is also for processors of other kinds. Bound: one
//! pass.
#![allow(unsafe_code)]

use crc_fast::{CrcAlgorithm, Digest};

/// From this length on folding pays where it is wide: its set-up takes about 16 ns.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 256;

/// Continues the CRC-32C `crc` of some bytes with `bytes`; 0 is that of none.
#[inline]
#[must_use]
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2")
        && is_x86_feature_detected!("pclmulqdq")
        && (bytes.len() < LONG || !folds_widely())
    {
        // SAFETY: the processor has SSE 4.2 and PCLMULQDQ, the lines above have asked.
        return unsafe { three_runs::crc32c(crc, bytes) };
    }
    folded(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
fn folds_widely() -> bool {
    is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq")
}

// Apart, for its state is large and the other way needs none.
#[inline(never)]
fn folded(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    // A sum of 32 bits in a number of 64.
    digest.finalize() as u32
}

#[cfg(target_arch = "x86_64")]
mod three_runs {
    use std::arch::x86_64::{
        _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64,
    };

    /// The polynomial, lowest power in the highest bit, as all values here.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    /// Words of a run at least: fewer are not worth the multiplications.
    const RUN_MIN: usize = 8;
    /// Words of a run at most: what [`POWERS`] has room for, twice.
    const RUN_MAX: usize = 64;

    /// For each number of words, the power of x that moves a value before so many words of zeros:
    /// x^(64 words - 33). Of the 33, 32 are the instruction's own, and one is lost where a product
    /// of two values has 63 bits.
    static POWERS: [u32; 2 * RUN_MAX + 1] = powers();

    const fn powers() -> [u32; 2 * RUN_MAX + 1] {
        let mut powers = [0; 2 * RUN_MAX + 1];
        let mut power = 1; // x^31
        let mut words = 1;
        while words < powers.len() {
            powers[words] = power;
            let mut bit = 0;
            while bit < 64 {
                power = power >> 1 ^ if power & 1 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            words += 1;
        }
        powers
    }

    /// What [`super::crc32c`] does.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub(super) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
        let (mut words, rest) = bytes.as_chunks::<8>();
        let mut state = u64::from(!crc);
        while words.len() >= 3 * RUN_MIN {
            let len = (words.len() / 3).min(RUN_MAX);
            let (first, behind) = words.split_at(len);
            let (second, behind) = behind.split_at(len);
            let (third, behind) = behind.split_at(len);
            let (mut a, mut b, mut c) = (state, 0, 0);
            for ((one, two), three) in first.iter().zip(second).zip(third) {
                a = _mm_crc32_u64(a, u64::from_le_bytes(*one));
                b = _mm_crc32_u64(b, u64::from_le_bytes(*two));
                c = _mm_crc32_u64(c, u64::from_le_bytes(*three));
            }
            state = c ^ _mm_crc32_u64(0, moved(a, 2 * len) ^ moved(b, len));
            words = behind;
        }
        let state =
            words.iter().fold(state, |state, word| _mm_crc32_u64(state, u64::from_le_bytes(*word)));
        let state = rest.iter().fold(state as u32, |state, &byte| _mm_crc32_u8(state, byte));
        !state
    }

    /// A value before so many words of zeros, as a product that the instruction has yet to reduce.
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn moved(state: u64, words: usize) -> u64 {
        let state = _mm_cvtsi32_si128((state as u32).cast_signed());
        let power = _mm_cvtsi32_si128(POWERS[words].cast_signed());
        _mm_cvtsi128_si64(_mm_clmulepi64_si128(state, power, 0)).cast_unsigned()
    }
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
            // Also the way that this processor may not take.
            prop_assert_eq!(folded(0, &bytes), whole);
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(crc32c(crc32c(0, head), tail), whole);
        }
    }
}
