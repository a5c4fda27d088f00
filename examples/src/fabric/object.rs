// SPDX-License-Identifier: MIT OR Apache-2.0
//! Owning libfabric's objects: each is closed once, by the one that owns it.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::ptr::NonNull;

use super::{Error, abi};

/// A libfabric object that begins with a `struct fid`: all of them.
///
/// # Safety
/// `Self` is a libfabric object type whose first field is a `struct fid`.
pub(super) unsafe trait Object {}

// SAFETY: `struct fid_fabric { struct fid fid; … }` (rdma/fabric.h).
unsafe impl Object for abi::fid_fabric {}
// SAFETY: `struct fid_domain { struct fid fid; … }` (rdma/fi_domain.h).
unsafe impl Object for abi::fid_domain {}
// SAFETY: `struct fid_av { struct fid fid; … }` (rdma/fi_domain.h).
unsafe impl Object for abi::fid_av {}
// SAFETY: `struct fid_mr { struct fid fid; … }` (rdma/fi_domain.h).
unsafe impl Object for abi::fid_mr {}
// SAFETY: `struct fid_cq { struct fid fid; … }` (rdma/fi_eq.h).
unsafe impl Object for abi::fid_cq {}
// SAFETY: `struct fid_eq { struct fid fid; … }` (rdma/fi_eq.h).
unsafe impl Object for abi::fid_eq {}
// SAFETY: `struct fid_ep { struct fid fid; … }` (rdma/fi_endpoint.h).
unsafe impl Object for abi::fid_ep {}
// SAFETY: `struct fid_pep { struct fid fid; … }` (rdma/fi_endpoint.h).
unsafe impl Object for abi::fid_pep {}

/// An open object, closed on drop. Drop it before what it was opened from.
#[derive(Debug)]
pub(super) struct Owned<T: Object>(NonNull<T>);

impl<T: Object> Owned<T> {
    /// Takes over the object that `open` writes to its argument.
    pub(super) fn open(
        call: &'static str,
        open: impl FnOnce(*mut *mut T) -> i32,
    ) -> Result<Self, Error> {
        let mut object = std::ptr::null_mut();
        check(call, open(&raw mut object))?;
        NonNull::new(object).map(Self).ok_or_else(|| failure(call, libc::ENOSYS))
    }

    /// The object, for as long as `self` lives.
    pub(super) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// The object as a `struct fid`.
    pub(super) fn fid(&self) -> *mut abi::fid {
        self.0.as_ptr().cast()
    }
}

impl<T: Object> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the object is open: `self` is its only owner and is going away.
        let code = unsafe { abi::fi_close(self.fid()) };
        debug_assert_eq!(
            code, 0,
            "fi_close refused: something opened from this object still lives"
        );
    }
}

/// `code` of the C function `call` as a result.
pub(super) fn check(call: &'static str, code: i32) -> Result<(), Error> {
    match code {
        code if code >= 0 => Ok(()),
        code if code == -libc::EAGAIN => Err(Error::Again),
        code => Err(failure(call, -code)),
    }
}

/// The same for calls that return `ssize_t`.
#[inline]
pub(super) fn check_size(call: &'static str, code: isize) -> Result<usize, Error> {
    match usize::try_from(code) {
        Ok(count) => Ok(count),
        Err(_) if code == -(libc::EAGAIN as isize) => Err(Error::Again),
        Err(_) => Err(failure(call, i32::try_from(-code).unwrap_or(libc::EIO))),
    }
}

/// The error for a call that failed with `errno`.
#[cold]
pub(super) fn failure(call: &'static str, errno: i32) -> Error {
    Error::Call { call, errno, text: text_of(errno) }
}

/// libfabric's words for an error number.
pub(super) fn text_of(errno: i32) -> String {
    // SAFETY: no preconditions; the answer is a static string (fi_errno(3)).
    let text = unsafe { abi::fi_strerror(errno) };
    if text.is_null() {
        return String::from("unknown error");
    }
    // SAFETY: not null, zero-terminated, static.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The running library's version, as (major, minor).
#[must_use]
pub fn version() -> (u32, u32) {
    // SAFETY: no preconditions.
    let version = unsafe { abi::fi_version() };
    (version >> 16, version & 0xffff)
}
