// SPDX-License-Identifier: MIT OR Apache-2.0
//! `struct fi_ops_eq`. A connectionless endpoint has no events, so the queue is always empty.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use super::unsupported::slot;
use super::{copy_text, counted};
use crate::abi;
use crate::eq::Eq;
use crate::errno::Error;
use crate::fid::{self, Object};

static FID_OPS: abi::fi_ops = super::fid::table::<Eq>();

static OPS: abi::fi_ops_eq = abi::fi_ops_eq {
    size: size_of::<abi::fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: slot(),
    sread: Some(sread),
    strerror: Some(strerror),
};

// SAFETY: `fid_eq` begins with a `fid`; `FID_OPS` is this type's alone.
unsafe impl Object for Eq {
    type C = abi::fid_eq;
    const CLASS: u32 = abi::FI_CLASS_EQ;

    fn fid_ops() -> &'static abi::fi_ops {
        &FID_OPS
    }

    fn c_object(&self, fid: abi::fid) -> abi::fid_eq {
        abi::fid_eq { fid, ops: std::ptr::from_ref(&OPS).cast_mut() }
    }
}

/// `fi_eq_read`.
unsafe extern "C" fn read(
    queue: *mut abi::fid_eq,
    _event: *mut u32,
    _buffer: *mut c_void,
    _len: usize,
    _flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { fid::object::<Eq>(queue.cast::<abi::fid>()) };
    counted(queue.and(Err(Error::Again)))
}

/// `fi_eq_readerr`.
unsafe extern "C" fn readerr(
    queue: *mut abi::fid_eq,
    _entry: *mut abi::fi_eq_err_entry,
    _flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { fid::object::<Eq>(queue.cast::<abi::fid>()) };
    counted(queue.and(Err(Error::Again)))
}

/// `fi_eq_sread`: a negative time waits for ever.
unsafe extern "C" fn sread(
    queue: *mut abi::fid_eq,
    _event: *mut u32,
    _buffer: *mut c_void,
    _len: usize,
    timeout_ms: c_int,
    _flags: u64,
) -> isize {
    // SAFETY: the man page's contract: open.
    let queue = unsafe { fid::object::<Eq>(queue.cast::<abi::fid>()) };
    let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    counted(queue.and_then(|queue| queue.wait(timeout)))
}

/// `fi_eq_strerror`.
unsafe extern "C" fn strerror(
    _queue: *mut abi::fid_eq,
    provider_errno: c_int,
    _data: *const c_void,
    buffer: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = abi::error_text(provider_errno);
    // SAFETY: the man page's contract: NULL, or room for `len` bytes.
    unsafe { copy_text(text, buffer, len) };
    text.as_ptr()
}
