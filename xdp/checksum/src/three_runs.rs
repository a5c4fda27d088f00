// SPDX-License-Identifier: MIT OR Apache-2.0
//! Three runs of the processor's instruction, side by side.
//!
//! It takes eight bytes a cycle, but its result three cycles later; a multiplication puts the runs
//! together (V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction",
//! Intel 2011).

use crate::in_turn::in_turn;
use crate::power::{ahead, times_x};
use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64,
};

/// Words of a run at least: fewer are not worth the multiplications.
const RUN_MIN: usize = 8;
/// Words of a run at most: what [`POWERS`] has room for, twice.
const RUN_MAX: usize = 64;

/// For each number of words, the power of x that moves a value before so many words of zeros.
static POWERS: [u32; 2 * RUN_MAX + 1] = powers();

const fn powers() -> [u32; 2 * RUN_MAX + 1] {
    let mut powers = [0; 2 * RUN_MAX + 1];
    let mut power = ahead(64);
    let mut words = 1;
    while words < powers.len() {
        powers[words] = power;
        let mut bit = 0;
        while bit < 64 {
            power = times_x(power);
            bit += 1;
        }
        words += 1;
    }
    powers
}

/// What [`crate::crc32c`] does.
#[target_feature(enable = "sse4.2,pclmulqdq")]
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
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
    !in_turn(in_turn(state, words.as_flattened()).into(), rest)
}

/// A value before so many words of zeros, as a product that the instruction has yet to reduce.
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn moved(state: u64, words: usize) -> u64 {
    let state = _mm_cvtsi32_si128((state as u32).cast_signed());
    let power = _mm_cvtsi32_si128(POWERS[words].cast_signed());
    _mm_cvtsi128_si64(_mm_clmulepi64_si128(state, power, 0)).cast_unsigned()
}
