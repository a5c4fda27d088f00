// SPDX-License-Identifier: MIT OR Apache-2.0
//! CRC-32C (RFC 3720 §12.1) of packets: the engine's `Checksum` in production.
//!
//! Packets are too short for the methods of libraries (`crc-fast`), which are made for long inputs.
//! `folding` processes only the last few bytes one by one. Processors without AVX-512 use
//! `three_way`, processors without SSE 4.2 and carry-less multiplication the library.
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
#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering};

/// Minimum number of bytes for parallel sums.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 64;

/// The method of this processor.
#[cfg(target_arch = "x86_64")]
static METHOD: AtomicU8 = AtomicU8::new(UNKNOWN);
/// No call has looked at the processor yet.
#[cfg(target_arch = "x86_64")]
const UNKNOWN: u8 = 0;
/// [`by_library`].
#[cfg(target_arch = "x86_64")]
const LIBRARY: u8 = 1;
/// [`three_way`]: the processor has SSE 4.2 and PCLMULQDQ.
#[cfg(target_arch = "x86_64")]
const THREE_WAY: u8 = 2;
/// [`folding`]: it also has AVX-512VL and VPCLMULQDQ.
#[cfg(target_arch = "x86_64")]
const FOLDING: u8 = 3;

/// Continues the CRC-32C `crc` with `bytes`; the CRC-32C of no bytes is 0.
// Each path ends with its call: the function needs no stack frame.
#[inline]
#[must_use]
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    match METHOD.load(Ordering::Relaxed) {
        UNKNOWN => return first(crc, bytes),
        THREE_WAY | FOLDING if bytes.len() < LONG => {
            // SAFETY: both methods are those of processors with SSE 4.2.
            return unsafe { serial::serial(u64::from(!crc), bytes) };
        }
        FOLDING => {
            // SAFETY: the method is that of processors with these features.
            return unsafe { folding::crc32c(crc, bytes) };
        }
        THREE_WAY => {
            // SAFETY: the method is that of processors with these features.
            return unsafe { three_way::crc32c(crc, bytes) };
        }
        _ => {}
    }
    by_library(crc, bytes)
}

/// The first call: finds the method of this processor.
#[cfg(target_arch = "x86_64")]
#[cold]
fn first(crc: u32, bytes: &[u8]) -> u32 {
    let has_three_way = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq");
    let has_folding =
        is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("vpclmulqdq");
    let method = match (has_three_way, has_folding) {
        (true, true) => FOLDING,
        (true, false) => THREE_WAY,
        (false, _) => LIBRARY,
    };
    METHOD.store(method, Ordering::Relaxed);
    crc32c(crc, bytes)
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
