// SPDX-License-Identifier: MIT OR Apache-2.0
//! See [`ofi_xdp_fuzz::connections`].
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ofi_xdp_fuzz::connections::run(bytes));
