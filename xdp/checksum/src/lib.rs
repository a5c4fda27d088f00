// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C (RFC 3720 §12.1) of packets: what the engine's `Checksum` is in production.
//!
//! In: the value so far, and bytes. Out: the value with them. A packet is too short for what
//! libraries do for long runs: of 1,436 bytes at any address `crc-fast` takes 50 ns where `wide`
//! takes 26, of 60 bytes 9 and 6 (AVX-512, Zen 5), for here no byte is done alone until the last
//! few. Processors with SSE 4.2 only have `three_runs`, those of other kinds the library. Bound:
//! one pass.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod in_turn;
#[cfg(target_arch = "x86_64")]
mod power;
#[cfg(target_arch = "x86_64")]
mod three_runs;
#[cfg(target_arch = "x86_64")]
mod wide;

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes from which on it pays to sum them side by side.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 64;

/// Continues the CRC-32C `crc` of some bytes with `bytes`; 0 is that of none.
#[inline]
#[must_use]
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        if bytes.len() < LONG {
            // SAFETY: the processor has SSE 4.2, the line above has asked.
            return !unsafe { in_turn::in_turn(u64::from(!crc), bytes) };
        }
        if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq") {
            // SAFETY: the processor has these two besides, the line above has asked.
            return unsafe { wide::crc32c(crc, bytes) };
        }
        if is_x86_feature_detected!("pclmulqdq") {
            // SAFETY: the processor has this besides SSE 4.2, the line above has asked.
            return unsafe { three_runs::crc32c(crc, bytes) };
        }
    }
    by_library(crc, bytes)
}

// Apart, for its state is large and the other ways need none.
#[inline(never)]
fn by_library(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    // A sum of 32 bits in a number of 64.
    digest.finalize() as u32
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
            // Also the ways that this processor may not take.
            prop_assert_eq!(by_library(0, &bytes), whole);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
                // SAFETY: the processor has what the line above has asked for.
                prop_assert_eq!(unsafe { three_runs::crc32c(0, &bytes) }, whole);
            }
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(crc32c(crc32c(0, head), tail), whole);
        }
    }
}
