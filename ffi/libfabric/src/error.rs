// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of libfabric's calls and operations, with its texts.

use crate::operation::Operation;

/// The reason of a failed call or operation. `errno` is libfabric's positive error number
/// (`fi_errno(3)`).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `-FI_EAGAIN`: no room at this moment. Poll, then try again.
    #[error("no room at this moment")]
    Again,
    /// A buffer was named while an operation had it, or one that does not exist.
    #[error("buffer {slot} is not free")]
    Busy {
        /// The buffer.
        slot: usize,
    },
    /// A call failed.
    #[error("{call} failed: {text} (error {errno})")]
    Call {
        /// The C function.
        call: &'static str,
        /// The error number.
        errno: i32,
        /// `fi_strerror` of it.
        text: String,
    },
    /// An operation ended in an error completion (`fi_cq(3)`, `fi_cq_readerr`).
    #[error(
        "{operation:?} of buffer {slot:?}: {text} (error {errno}, provider's {provider_errno})"
    )]
    Completion {
        /// The kind of the operation.
        operation: Operation,
        /// Its buffer, free again; `None` when the provider did not say which operation failed.
        slot: Option<usize>,
        /// The error number.
        errno: i32,
        /// The provider's own error number.
        provider_errno: i32,
        /// `fi_strerror` of `errno`.
        text: String,
    },
    /// No provider offers the request.
    #[error("libfabric offers nothing for {wanted}: {text}")]
    NoMatch {
        /// The request.
        wanted: String,
        /// Why, in libfabric's words.
        text: String,
    },
    /// Nothing happened in time.
    #[error("{waited_for} did not happen in {ms} ms")]
    Timeout {
        /// The event that did not happen.
        waited_for: &'static str,
        /// How long, in milliseconds.
        ms: u64,
    },
}

impl Error {
    /// libfabric's error number, where it gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call { errno, .. } | Self::Completion { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}
