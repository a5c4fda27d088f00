// SPDX-License-Identifier: MIT OR Apache-2.0
//! The skeleton that libbpf-cargo generates from `bpf/redirect.bpf.c`.
//!
//! In: the object file. Out: typed maps and programs. Caller: `redirect.rs`. Lints and the count of
//! unsafe code do not apply to generated code. Bound: one object.

#![allow(
    unsafe_code,
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unnameable_types,
    unused_qualifications,
    elided_lifetimes_in_paths,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    reason = "written by libbpf-cargo"
)]

include!(concat!(env!("OUT_DIR"), "/redirect.skel.rs"));
