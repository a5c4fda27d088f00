// SPDX-License-Identifier: MIT OR Apache-2.0
//! The completion queue of the programs that poll: no wait object, entries with tags.
//!
//! In: a domain, a number of entries. Out: the queue. Callers: the programs that open libfabric's
//! objects themselves.

use anyhow::Context as _;
use ofi_xdp_libfabric::raw::{Context, Cq, Domain, abi};

/// Opens a queue of `size` entries.
///
/// # Errors
/// Those of `fi_cq_open`.
pub fn open(domain: &Domain, size: usize) -> anyhow::Result<Cq> {
    let mut attributes = abi::fi_cq_attr {
        size,
        flags: 0,
        format: abi::FI_CQ_FORMAT_TAGGED,
        wait_obj: abi::FI_WAIT_NONE,
        signaling_vector: 0,
        wait_cond: abi::FI_CQ_COND_NONE,
        wait_set: std::ptr::null_mut(),
    };
    domain.cq(&mut attributes, Context::null()).context("fi_cq_open")
}
