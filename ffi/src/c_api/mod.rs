// SPDX-License-Identifier: MIT OR Apache-2.0
//! The C side: libfabric's tables of functions, and the unsafe reads and writes of their arguments.
//!
//! In: raw pointers from libfabric's inline wrappers. Out: calls on safe types, and to C a result
//! or a negative error number. There is one file for each structure of libfabric's headers, with
//! its slots and its constant table.
//!
//! There are two kinds of slots. *Control* slots run inside [`control`], which catches a panic and
//! returns `-FI_EOTHER`. *Data* slots (send, receive, read of a queue) do not catch panics: the
//! code below them does not panic. If it did, `extern "C"` would abort the process.
//!
//! Every slot function is `unsafe` under one contract, that of its libfabric call. Objects are
//! open. Strings end with a zero. Arrays have the length that is passed with them. Pointers for
//! results may be written. Safety comments call it *the man page's contract*.
#![allow(unsafe_code)]

mod args;
pub(crate) mod atomic;
pub(crate) mod av;
mod cm;
pub(crate) mod cntr;
pub(crate) mod cq;
mod deferred_work;
pub(crate) mod domain;
pub(crate) mod endpoint;
pub(crate) mod eq;
pub(crate) mod fabric;
pub(crate) mod fid;
pub(crate) mod info;
pub(crate) mod mr;
pub(crate) mod msg;
mod multicast;
pub(crate) mod nic;
pub(crate) mod object;
mod passive_ep;
mod passthrough;
pub(crate) mod poll_set;
mod provider;
mod raw_key;
pub(crate) mod rma;
pub(crate) mod scalable;
pub(crate) mod srx;
pub(crate) mod stx;
pub(crate) mod tagged;
mod trigger;
pub(crate) mod unsupported;
pub(crate) mod wait_set;

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sys::errno::Error;
use crate::sys::reserve;

pub use provider::fi_prov_ini;

/// Runs a control slot: a panic becomes `-FI_EOTHER`, an error while memory is refused
/// `-FI_ENOMEM`.
fn control(call: impl FnOnce() -> Result<(), Error>) -> c_int {
    let before = reserve::refusals();
    // State that a panic leaves incomplete is behind a lock, which is poisoned, or an `Arc`.
    // Nothing here is reused after it.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Err(_)) if reserve::refused_since(before) => status(Err(Error::NoMemory)),
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

/// Writes a result through a pointer of the application.
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

/// An argument that the application passed by pointer.
///
/// # Safety
/// `from` is NULL or points to an initialised `T` that does not change for `'a`.
unsafe fn argument<'a, T>(from: *const T) -> Result<&'a T, Error> {
    // SAFETY: promised by the caller.
    unsafe { from.as_ref() }.ok_or(Error::Invalid)
}

/// An array that the application passed.
///
/// # Safety
/// `from` is NULL or points to `count` initialised elements that do not change for `'a`.
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

/// Copies an address or a text to the application like `fi_getname`: as many bytes as `*len`, and
/// the true length into `*len`.
///
/// # Errors
/// [`Error::TooSmall`] if the bytes were cut.
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
