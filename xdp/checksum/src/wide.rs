// SPDX-License-Identifier: MIT OR Apache-2.0
//! Folding by carry-less multiplication, 64 bytes an instruction.
//!
//! A block is multiplied to stand before one that comes later, and added to it (V. Gopal et al.,
//! "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). Four
//! sums run side by side, for a multiplication's result comes four cycles later.

use crate::in_turn::in_turn;
use crate::power::ahead;
use std::arch::x86_64::{
    __m512i, _mm_crc32_u64, _mm_extract_epi64, _mm_ternarylogic_epi64, _mm_xor_si128,
    _mm512_castsi512_si128, _mm512_clmulepi64_epi128, _mm512_extracti32x4_epi32, _mm512_set_epi64,
    _mm512_setzero_si512, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};
use zerocopy::transmute;

/// Bytes of a block: what a register holds.
const BLOCK: usize = 64;
/// Sums that run side by side.
const SUMS: usize = 4;
/// The ternary operation that adds three values.
const XOR3: i32 = 0x96;

/// The factors that move the two halves of a lane of 16 bytes ahead by so many bytes; the first
/// half stands before the second already.
const fn factors(bytes: u32) -> [u64; 2] {
    [ahead(8 * bytes + 64) as u64, ahead(8 * bytes) as u64]
}

/// Those that move a block before the next one.
const TO_NEXT: [u64; 2] = factors(BLOCK as u32);
/// Those that move one of the sums before the block that it gets next.
const TO_ITS_OWN: [u64; 2] = factors((SUMS * BLOCK) as u32);

/// What [`crate::crc32c`] does.
#[target_feature(enable = "avx512vl,vpclmulqdq,sse4.2")]
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<BLOCK>();
    let state = match blocks {
        [] => u64::from(!crc),
        [first, others @ ..] => reduced(folded(!crc, first, others)),
    };
    !in_turn(state, rest)
}

/// A block that has the same remainder as all of them, the first of which stands behind `state`.
#[inline]
#[target_feature(enable = "avx512vl,vpclmulqdq")]
fn folded(state: u32, first: &[u8; BLOCK], others: &[[u8; BLOCK]]) -> __m512i {
    let begun = _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, i64::from(state));
    let (mut sum, mut blocks) = (_mm512_xor_si512(load(first), begun), others);
    if let Some(([one, two, three], behind)) = blocks.split_first_chunk::<{ SUMS - 1 }>() {
        let mut sums = [sum, load(one), load(two), load(three)];
        let (turns, behind) = behind.as_chunks::<SUMS>();
        for turn in turns {
            for (sum, block) in sums.iter_mut().zip(turn) {
                *sum = moved(*sum, [TO_ITS_OWN; 4], load(block));
            }
        }
        let [first, others @ ..] = sums;
        sum = first;
        for other in others {
            sum = moved(sum, [TO_NEXT; 4], other);
        }
        blocks = behind;
    }
    for block in blocks {
        sum = moved(sum, [TO_NEXT; 4], load(block));
    }
    sum
}

/// A block in a register.
#[inline]
#[target_feature(enable = "avx512vl")]
fn load(block: &[u8; BLOCK]) -> __m512i {
    transmute!(*block)
}

/// A block, each lane moved ahead by its factors, and added to another one.
#[inline]
#[target_feature(enable = "avx512vl,vpclmulqdq")]
fn moved(block: __m512i, factors: [[u64; 2]; 4], onto: __m512i) -> __m512i {
    let [[a, b], [c, d], [e, f], [g, h]] = factors.map(|lane| lane.map(u64::cast_signed));
    let factors = _mm512_set_epi64(h, g, f, e, d, c, b, a);
    let (first, second) = (
        _mm512_clmulepi64_epi128(block, factors, 0x00),
        _mm512_clmulepi64_epi128(block, factors, 0x11),
    );
    _mm512_ternarylogic_epi64(first, second, onto, XOR3)
}

/// The remainder of a block: its lanes moved before the last one, and two steps of the instruction.
#[inline]
#[target_feature(enable = "avx512vl,vpclmulqdq,sse4.2")]
fn reduced(block: __m512i) -> u64 {
    const TO_LAST: [[u64; 2]; 4] = [factors(48), factors(32), factors(16), [0; 2]];
    let lanes = moved(block, TO_LAST, _mm512_setzero_si512());
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
