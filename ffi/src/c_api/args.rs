// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arguments that the data calls have in common: buffers, vectors of segments, contexts.
//!
//! In: raw pointers and lengths of a call. Out: a [`Buffer`], a [`Context`]. Called by the slots of
//! `msg`, `tagged`, `rma`, `atomic` and `trigger`. Bound: `IOV_MAX` segments.

use std::ffi::c_void;

use ofi_xdp_core::Context;

use super::array;
use crate::runtime::memory::Buffer;
use crate::sys::abi;
use crate::sys::errno::Error;

/// The context of an operation (`op_context`).
#[inline]
pub(super) fn op_context(context: *mut c_void) -> Context {
    Context(context.expose_provenance() as u64)
}

/// A contiguous buffer, read or written.
///
/// # Errors
/// [`Error::Invalid`] for a length without an address.
#[inline]
pub(super) const fn buffer(base: *const c_void, len: usize) -> Result<Buffer, Error> {
    Buffer::contiguous(base.cast_mut(), len)
}

/// A contiguous buffer to receive into. Without an address it has no bytes, whatever its length.
#[inline]
pub(super) const fn receive_buffer(base: *mut c_void, len: usize) -> Result<Buffer, Error> {
    buffer(base, if base.is_null() { 0 } else { len })
}

/// A scattered buffer, read or written.
///
/// # Errors
/// As [`Buffer::scattered`].
///
/// # Safety
/// `iov` is NULL or has `count` elements.
pub(super) unsafe fn iov_buffer(iov: *const abi::iovec, count: usize) -> Result<Buffer, Error> {
    // SAFETY: promised by the caller.
    Buffer::scattered(unsafe { array(iov, count) }?)
}
