// SPDX-License-Identifier: MIT OR Apache-2.0
//! `mark.rs` for the program that counts each path: every call of the engine is a function of its
//! own, and callgrind shows the name. `callgrind.rs` knows the names. The numbers in them keep the
//! compiler from merging functions with equal code.

/// Posting a send.
#[inline(never)]
pub(crate) fn post_send<R>(call: impl FnOnce() -> R) -> R {
    std::hint::black_box(1);
    call()
}

/// Writing a packet: [`transmit_packet`] or [`transmit_ack`].
#[inline(always)]
pub(crate) fn transmit<R>(side: usize, call: impl FnOnce() -> R) -> R {
    if side == 0 { transmit_packet(call) } else { transmit_ack(call) }
}

#[inline(never)]
fn transmit_packet<R>(call: impl FnOnce() -> R) -> R {
    std::hint::black_box(2);
    call()
}

#[inline(never)]
fn transmit_ack<R>(call: impl FnOnce() -> R) -> R {
    std::hint::black_box(3);
    call()
}

/// Ingesting a packet: [`ingest_ack`] or [`ingest_data`].
#[inline(always)]
pub(crate) fn ingest<R>(side: usize, call: impl FnOnce() -> R) -> R {
    if side == 0 { ingest_ack(call) } else { ingest_data(call) }
}

#[inline(never)]
fn ingest_ack<R>(call: impl FnOnce() -> R) -> R {
    std::hint::black_box(4);
    call()
}

#[inline(never)]
fn ingest_data<R>(call: impl FnOnce() -> R) -> R {
    std::hint::black_box(5);
    call()
}

/// Asking for a completion.
#[inline(never)]
pub(crate) fn poll_completion<R>(call: impl FnOnce() -> R) -> R {
    std::hint::black_box(6);
    call()
}
