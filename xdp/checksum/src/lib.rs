// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C (RFC 3720 §12.1) of packets: the engine's `Checksum` in production.
//!
//! Packets are too short for the methods of libraries (`crc-fast`), which are made for long inputs.
//! `folding` processes only the last few bytes one by one. Processors with SSE 4.2 alone use
//! `three_way`, processors without it the library.
//!
//! In: the checksum so far, and bytes. Out: the checksum with these bytes. Caller: the engine.
//! Bound: one pass.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod folding;
#[cfg(target_arch = "x86_64")]
mod power;
#[cfg(target_arch = "x86_64")]
mod serial;
#[cfg(target_arch = "x86_64")]
mod three_way;

use crc_fast::{CrcAlgorithm, Digest};

/// Minimum number of bytes for parallel sums.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 64;

/// Continues the CRC-32C `crc` with `bytes`; the CRC-32C of no bytes is 0.
#[inline]
#[must_use]
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        if bytes.len() < LONG {
            // SAFETY: the processor has SSE 4.2, as checked in the line above.
            return !unsafe { serial::serial(u64::from(!crc), bytes) };
        }
        if is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq") {
            // SAFETY: the processor also has these two features, as checked in the line above.
            return unsafe { folding::crc32c(crc, bytes) };
        }
        if is_x86_feature_detected!("pclmulqdq") {
            // SAFETY: the processor also has this feature, as checked in the line above.
            return unsafe { three_way::crc32c(crc, bytes) };
        }
    }
    by_library(crc, bytes)
}

// A function of its own, because its state is large and the other methods need none.
#[inline(never)]
fn by_library(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    // A 32-bit sum in a 64-bit number.
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
        fn any_split_gives_the_checksum_of_another_crate(
            bytes in prop::collection::vec(any::<u8>(), 0..9000), at in 0usize..9000,
        ) {
            let whole = crc32c::crc32c(&bytes);
            prop_assert_eq!(crc32c(0, &bytes), whole);
            // Includes the methods that this processor does not use.
            prop_assert_eq!(by_library(0, &bytes), whole);
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq") {
                // SAFETY: the processor has the features checked in the line above.
                prop_assert_eq!(unsafe { three_way::crc32c(0, &bytes) }, whole);
            }
            let (head, tail) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(crc32c(crc32c(0, head), tail), whole);
        }
    }
}
