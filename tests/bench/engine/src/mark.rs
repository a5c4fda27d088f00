// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the engine in the program that measures: plain ones. The program that counts each path
//! (`paths.rs`) uses `mark_apart.rs` instead, with functions that are not inlined, so that
//! callgrind shows the cost of each.
//!
//! In: a call of the engine. Out: its result.

/// Posting a send.
#[inline(always)]
pub(crate) fn post_send<R>(call: impl FnOnce() -> R) -> R {
    call()
}

/// Writing a packet; side 0 has messages to send, side 1 acknowledgments.
#[inline(always)]
pub(crate) fn transmit<R>(_side: usize, call: impl FnOnce() -> R) -> R {
    call()
}

/// Ingesting a packet.
#[inline(always)]
pub(crate) fn ingest<R>(_side: usize, call: impl FnOnce() -> R) -> R {
    call()
}

/// Asking for a completion.
#[inline(always)]
pub(crate) fn poll_completion<R>(call: impl FnOnce() -> R) -> R {
    call()
}
