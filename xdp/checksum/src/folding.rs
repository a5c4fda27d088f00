// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C by folding with carry-less multiplication, 64 bytes an instruction.
//!
//! A block is multiplied, which moves it to the position of a later block, and added to that block
//! (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction",
//! Intel 2009). Four sums run in parallel, because a multiplication has a latency of four cycles.

use crate::power::shift_power;
use crate::serial::serial;
use std::arch::x86_64::{
    __m512i, _mm_crc32_u64, _mm_extract_epi64, _mm_ternarylogic_epi64, _mm_xor_si128,
    _mm512_castsi512_si128, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_set_epi64,
    _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};
use zerocopy::transmute;

/// Bytes of a block: the size of a register.
const BLOCK: usize = 64;
/// Number of parallel sums.
const SUMS: usize = 4;
/// The ternary operation that adds three values.
const XOR3: i32 = 0x96;

/// The factors that move the two halves of a 16-byte lane ahead by `bytes` bytes. The first half
/// already stands before the second.
const fn factors(bytes: u32) -> [u64; 2] {
    [shift_power(8 * bytes + 64) as u64, shift_power(8 * bytes) as u64]
}

/// The factors that move a block before the next one.
const TO_NEXT: [u64; 2] = factors(BLOCK as u32);
/// The factors that move one of the sums before its next block.
const TO_ITS_OWN: [u64; 2] = factors((SUMS * BLOCK) as u32);

/// Continues `crc` with `bytes`, like [`crate::crc32c`].
#[target_feature(enable = "avx512vl,vpclmulqdq,sse4.2")]
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let state = match blocks {
        [] => u64::from(!crc),
        [first, others @ ..] => reduced(folded(!crc, first, others)),
    };
    serial(state, rest)
}

/// A block with the same remainder as all blocks together. The first one stands behind `state`.
#[inline]
#[target_feature(enable = "avx512vl,vpclmulqdq")]
fn folded(state: u32, first: &[u8; BLOCK], others: &[[u8; BLOCK]]) -> __m512i {
    let begun = _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, i64::from(state));
    let (mut sum, mut blocks) = (_mm512_xor_si512(load(first), begun), others);
    if let Some(([one, two, three], rest)) = blocks.split_first_chunk::<{ SUMS - 1 }>() {
        let mut sums = [sum, load(one), load(two), load(three)];
        let (groups, rest) = rest.as_chunks::<SUMS>();
        for group in groups {
            for (sum, block) in sums.iter_mut().zip(group) {
                *sum = shifted(*sum, [TO_ITS_OWN; 4], load(block));
            }
        }
        let [first, others @ ..] = sums;
        sum = first;
        for other in others {
            sum = shifted(sum, [TO_NEXT; 4], other);
        }
        blocks = rest;
    }
    for block in blocks {
        sum = shifted(sum, [TO_NEXT; 4], load(block));
    }
    sum
}

/// A block in a register.
#[inline]
#[target_feature(enable = "avx512vl")]
fn load(block: &[u8; BLOCK]) -> __m512i {
    transmute!(*block)
}

/// A block with each lane moved ahead by its factors, added to `onto`.
#[inline]
#[target_feature(enable = "avx512vl,vpclmulqdq")]
fn shifted(block: __m512i, factors: [[u64; 2]; 4], onto: __m512i) -> __m512i {
    let [[a, b], [c, d], [e, f], [g, h]] = factors.map(|lane| lane.map(u64::cast_signed));
    let factors = _mm512_set_epi64(h, g, f, e, d, c, b, a);
    let (first, second) = (
        _mm512_clmulepi64_epi128(block, factors, 0x00),
        _mm512_clmulepi64_epi128(block, factors, 0x11),
    );
    _mm512_ternarylogic_epi64(first, second, onto, XOR3)
}

/// The remainder of a block: its lanes are moved before the last one, and two steps of the
/// instruction follow.
#[inline]
#[target_feature(enable = "avx512vl,vpclmulqdq,sse4.2")]
fn reduced(block: __m512i) -> u64 {
    const TO_LAST: [[u64; 2]; 4] = [factors(48), factors(32), factors(16), [0; 2]];
    let lanes = shifted(block, TO_LAST, _mm512_setzero_si512());
    let sum = _mm_ternarylogic_epi64(
        _mm512_castsi512_si128(lanes),
        _mm512_extracti32x4_epi32(lanes, 1),
        _mm512_extracti32x4_epi32(lanes, 2),
        XOR3,
    );
    let sum = _mm_xor_si128(sum, _mm512_extracti32x4_epi32(block, 3));
    let [first, second] = [_mm_extract_epi64(sum, 0), _mm_extract_epi64(sum, 1)];
    _mm_crc32_u64(_mm_crc32_u64(0, first.cast_unsigned()), second.cast_unsigned())
}
