// SPDX-License-Identifier: MIT OR Apache-2.0
//! libfabric's C interface.
//!
//! | module | contents |
//! |---|---|
//! | [`bindings`] | types, constants and exported functions, written by bindgen from the headers |
//! | [`inline`] | the headers' static inline functions |
//! | [`wide`] | all of these, with constants in the types that members and arguments have |
//! | [`running`] | functions with changing symbol versions, looked up in the running library |
//!
//! The declarations are libfabric 1.17's, the oldest release that the provider supports. Later
//! releases append members (`fi_provider(7)`). So structures that libfabric makes are read and
//! written member by member, and are never allocated by size.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};

#[allow(
    dead_code,
    missing_docs,
    missing_debug_implementations,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnameable_types,
    unreachable_pub,
    unused_qualifications,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    clippy::ptr_as_ptr,
    clippy::use_self,
    clippy::doc_markdown,
    reason = "written by bindgen"
)]
// As bindgen writes it, or `cargo xtask bindings --check` would differ.
#[rustfmt::skip]
pub mod bindings;
#[allow(clippy::too_many_arguments, reason = "the signatures are C's")]
pub mod inline;
pub mod running;
pub mod wide;

pub use bindings::*;
pub use inline::*;
pub use wide::bits;

#[link(name = "fabric")]
unsafe extern "C" {}

/// `FI_ADDR_UNSPEC` (`fi_msg(3)`): no particular peer.
pub const FI_ADDR_UNSPEC: fi_addr_t = fi_addr_t::MAX;
/// `FI_ADDR_NOTAVAIL` (`fi_av(3)`, `fi_cq(3)`): an unknown peer. The value is that of
/// [`FI_ADDR_UNSPEC`].
pub const FI_ADDR_NOTAVAIL: fi_addr_t = fi_addr_t::MAX;
/// `FI_KEY_NOTAVAIL` (`fi_mr(3)`).
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;

/// Layouts that the C headers promise: every object begins with its `struct fid`, so that a pointer
/// to the object is one to its `fid`.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(fid_fabric, fid) == 0);
    assert!(offset_of!(fid_domain, fid) == 0);
    assert!(offset_of!(fid_ep, fid) == 0);
    assert!(offset_of!(fid_pep, fid) == 0);
    assert!(offset_of!(fid_stx, fid) == 0);
    assert!(offset_of!(fid_av, fid) == 0);
    assert!(offset_of!(fid_mr, fid) == 0);
    assert!(offset_of!(fid_cq, fid) == 0);
    assert!(offset_of!(fid_cntr, fid) == 0);
    assert!(offset_of!(fid_eq, fid) == 0);
    assert!(offset_of!(fid_nic, fid) == 0);
    assert!(offset_of!(fid_wait, fid) == 0);
    assert!(offset_of!(fid_poll, fid) == 0);
};

/// The version of the declarations: the interface version that clients ask for.
pub const VERSION: u32 = make_version(1, 17);

/// A libfabric version as structures and calls have it (`FI_VERSION`).
#[must_use]
pub const fn make_version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// The running library's version.
#[must_use]
pub fn version() -> u32 {
    // SAFETY: `fi_version` has no preconditions.
    unsafe { fi_version() }
}

/// libfabric's text for a (positive) error number.
#[must_use]
pub fn error_text(errno: c_int) -> &'static CStr {
    // SAFETY: `fi_strerror` accepts any number.
    let text = unsafe { fi_strerror(errno) };
    if text.is_null() {
        return c"unknown error";
    }
    // SAFETY: not NULL, and `fi_strerror` returns a zero-terminated string with static storage.
    unsafe { CStr::from_ptr(text) }
}
