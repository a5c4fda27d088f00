// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C by the processor's instruction, on three parts of the input in parallel.
//!
//! The instruction takes eight bytes a cycle and has a latency of three cycles. A multiplication
//! combines the three sums (V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32
//! Instruction", Intel 2011).

use crate::power::{shift_power, times_x};
use crate::serial::serial;
use std::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u64, _mm_cvtsi32_si128, _mm_cvtsi128_si64,
};

/// Minimum number of 8-byte words of a part: fewer do not pay for the multiplications.
const RUN_MIN: usize = 8;
/// Maximum number of 8-byte words of a part: half the size of [`POWERS`].
const RUN_MAX: usize = 64;

/// For each number of words, the power of x that moves a value before as many words of zeros.
static POWERS: [u32; 2 * RUN_MAX + 1] = powers();

const fn powers() -> [u32; 2 * RUN_MAX + 1] {
    let mut powers = [0; 2 * RUN_MAX + 1];
    let mut power = shift_power(64);
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

/// Continues `crc` with `bytes`, like [`crate::crc32c`].
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
        state = c ^ _mm_crc32_u64(0, shifted(a, 2 * len) ^ shifted(b, len));
        words = behind;
    }
    serial(u64::from(!serial(state, words.as_flattened())), rest)
}

/// A value moved before `words` words of zeros, as a product that the instruction reduces later.
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn shifted(state: u64, words: usize) -> u64 {
    let state = _mm_cvtsi32_si128((state as u32).cast_signed());
    let power = _mm_cvtsi32_si128(POWERS[words].cast_signed());
    _mm_cvtsi128_si64(_mm_clmulepi64_si128(state, power, 0)).cast_unsigned()
}
