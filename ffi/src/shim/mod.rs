// SPDX-License-Identifier: MIT OR Apache-2.0
//! The border: C's tables of functions, filled with generic functions over the traits of `ops`.
//!
//! What comes in: raw pointers from libfabric's inline wrappers. What goes out: safe types to the
//! traits, and the negative error number to C. One file for each libfabric header object; each
//! holds the slots, the constant table, and the unsafe reads and writes of what the application
//! passed.
//!
//! Two kinds of slot. *Control* slots run inside [`control`], which stops a panic and answers
//! `-FI_EOTHER`. *Data* slots (send, receive, read of a queue) have no such net: what they call
//! does not panic, and if it did, `extern "C"` aborts the process rather than unwind into C.
//!
//! Every slot function is `unsafe` under the same contract, that of the libfabric call it stands
//! for: objects are open, strings end with a zero, arrays have the length that is passed with them,
//! and pointers for results may be written. The safety comments call it *the man page's contract*.
#![allow(unsafe_code)]

pub(crate) mod atomic;
pub(crate) mod av;
pub(crate) mod cntr;
pub(crate) mod cq;
pub(crate) mod domain;
pub(crate) mod ep;
pub(crate) mod eq;
pub(crate) mod fabric;
pub(crate) mod fid;
pub(crate) mod info;
mod infos;
mod interpose;
pub(crate) mod mr;
pub(crate) mod msg;
pub(crate) mod nic;
mod passthrough;
pub(crate) mod poll;
mod raw_key;
pub(crate) mod rma;
pub(crate) mod srx;
pub(crate) mod stx;
pub(crate) mod tagged;
pub(crate) mod unsupported;
pub(crate) mod wait;
mod work;

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::errno::Error;

/// Runs a control slot: a panic becomes `-FI_EOTHER`.
fn control(call: impl FnOnce() -> Result<(), Error>) -> c_int {
    // What a panic leaves half done is behind a lock or an `Arc` that later calls find consistent
    // or poisoned; nothing here is reused after it.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => status(result),
        Err(_) => -Error::Internal.number(),
    }
}

/// A result as C's `int`.
fn status(result: Result<(), Error>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => -error.number(),
    }
}

/// A result as C's `ssize_t`, for calls that succeed with 0.
#[inline]
fn done(result: Result<(), Error>) -> isize {
    match result {
        Ok(()) => 0,
        Err(error) => -(error.number() as isize),
    }
}

/// A result as C's `ssize_t`, for calls that count.
#[inline]
fn counted(result: Result<usize, Error>) -> isize {
    match result {
        Ok(count) => count.cast_signed(),
        Err(error) => -(error.number() as isize),
    }
}

/// Writes a result through a pointer of the application's.
///
/// # Safety
/// `to` is NULL or may be written.
unsafe fn answer<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: not NULL, hence writable (promised).
    unsafe { to.write(value) };
    Ok(())
}

/// Something that the application passed by pointer.
///
/// # Safety
/// `from` is NULL or points to an initialised `T` that nobody changes for `'a`.
unsafe fn argument<'a, T>(from: *const T) -> Result<&'a T, Error> {
    // SAFETY: promised by the caller.
    unsafe { from.as_ref() }.ok_or(Error::Invalid)
}

/// An array that the application passed.
///
/// # Safety
/// `from` is NULL or points to `count` initialised elements that nobody changes for `'a`.
unsafe fn array<'a, T>(from: *const T, count: usize) -> Result<&'a [T], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if from.is_null() || count > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Error::Invalid);
    }
    // SAFETY: not NULL, `count` elements (promised), no larger than an object can be (checked).
    Ok(unsafe { std::slice::from_raw_parts(from, count) })
}

/// A string that the application passed, or `None` for NULL.
///
/// # Safety
/// `text` is NULL or a zero-terminated string.
unsafe fn text(text: *const c_char) -> Result<Option<String>, Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not NULL, hence zero-terminated (promised); copied at once.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(|text| Some(text.to_owned())).map_err(|_| Error::Invalid)
}

/// Copies `bytes` to where the application wants an address or a text, in the manner of
/// `fi_getname`: as much as fits `*len`, and the true length into `*len`.
///
/// # Errors
/// [`Error::TooSmall`] if not all of it fitted.
///
/// # Safety
/// `len` is NULL or may be read and written; `to` has room for `*len` bytes.
unsafe fn copy_out(bytes: &[u8], to: *mut c_void, len: *mut usize) -> Result<(), Error> {
    if len.is_null() {
        return Err(Error::Invalid);
    }
    // SAFETY: not NULL, readable (promised).
    let room = unsafe { len.read() };
    // SAFETY: not NULL, writable (promised).
    unsafe { len.write(bytes.len()) };
    let count = bytes.len().min(room);
    if count > 0 {
        if to.is_null() {
            return Err(Error::Invalid);
        }
        // SAFETY: `count` bytes are in `bytes`, and in `to` by promise; the application's buffer
        // does not overlap a buffer of ours.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), count) };
    }
    if count < bytes.len() { Err(Error::TooSmall) } else { Ok(()) }
}

/// Copies a text with its final zero to `to`, cut to `len` bytes, as `strerror` slots do.
///
/// # Safety
/// `to` is NULL or has room for `len` bytes.
unsafe fn copy_text(text: &CStr, to: *mut c_char, len: usize) {
    let bytes = text.to_bytes();
    let Some(room) = len.checked_sub(1) else { return };
    if to.is_null() {
        return;
    }
    let count = bytes.len().min(room);
    // SAFETY: `count` bytes are in `bytes` and below `len`, for which `to` has room (promised).
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast::<c_char>(), to, count) };
    // SAFETY: `count` is below `len`.
    let end = unsafe { to.add(count) };
    // SAFETY: as above: inside the buffer.
    unsafe { end.write(0) };
}
