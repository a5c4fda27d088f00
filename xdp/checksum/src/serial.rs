// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C by the processor's instruction, serially: three cycles a step.

use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};

/// Continues the register `state` with a few bytes: 8 bytes a step, and at most three steps more.
/// Returns the checksum.
#[inline]
#[target_feature(enable = "sse4.2")]
pub(crate) fn serial(state: u64, bytes: &[u8]) -> u32 {
    let (blocks, mut rest) = bytes.as_chunks::<32>();
    let mut state = blocks.iter().fold(state, |state, block| steps(state, block.as_chunks().0));
    // Of each shorter length there is at most one.
    if let Some((half, behind)) = rest.split_first_chunk::<16>() {
        state = steps(state, half.as_chunks().0);
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk() {
        state = steps(state, &[*word]);
        rest = behind;
    }
    // The instruction leaves the upper half zero.
    let mut state = state as u32;
    if let Some((half, behind)) = rest.split_first_chunk() {
        state = _mm_crc32_u32(state, u32::from_le_bytes(*half));
        rest = behind;
    }
    if let Some((pair, behind)) = rest.split_first_chunk() {
        state = _mm_crc32_u16(state, u16::from_le_bytes(*pair));
        rest = behind;
    }
    !rest.first().map_or(state, |&byte| _mm_crc32_u8(state, byte))
}

/// A step for each word.
#[inline]
#[target_feature(enable = "sse4.2")]
fn steps(state: u64, words: &[[u8; 8]]) -> u64 {
    words.iter().fold(state, |state, word| _mm_crc32_u64(state, u64::from_le_bytes(*word)))
}
