// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ownership of libfabric's objects: each is closed once, when its owner is dropped.

use std::ops::Deref;

use crate::Error;
use crate::raw::{Answer, Errno, Fid, abi};

/// An open object, closed on drop. It is dropped before the object that it was opened from.
#[derive(Debug)]
pub(crate) struct Owned<T: Fid>(T);

impl<T: Fid> Owned<T> {
    /// Takes over the object that the C function `call` has made.
    pub(crate) fn of(call: &'static str, made: Answer<T>) -> Result<Self, Error> {
        check(call, made).map(Self)
    }
}

impl<T: Fid> Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Fid> Drop for Owned<T> {
    fn drop(&mut self) {
        let closed = self.0.close();
        debug_assert!(
            closed.is_ok(),
            "fi_close refused: something opened from this object still lives"
        );
    }
}

/// The answer of the C function `call` as a result.
#[inline]
pub(crate) fn check<T>(call: &'static str, answer: Answer<T>) -> Result<T, Error> {
    match answer {
        Ok(value) => Ok(value),
        Err(Errno(abi::FI_EAGAIN)) => Err(Error::Again),
        Err(Errno(errno)) => Err(failure(call, errno)),
    }
}

/// The error for a call that failed with `errno`.
#[cold]
pub(crate) fn failure(call: &'static str, errno: i32) -> Error {
    Error::Call { call, errno, text: text_of(errno) }
}

/// libfabric's words for an error number.
pub(crate) fn text_of(errno: i32) -> String {
    abi::error_text(errno).to_string_lossy().into_owned()
}
