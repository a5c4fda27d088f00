// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process: the provider's version, and the fork generation.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys::abi::make_version;

/// This provider's version; libfabric prefers the higher of two providers with one name.
pub(crate) const VERSION: u32 = make_version(0, 1);

/// Number of forks between the process that loaded the library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The fork generation of this process. An object that was opened before a fork is inert in the
/// child, because rings and sockets are shared with the parent (fabric(7)). Objects that the child
/// opens are its own.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Counts forks from now on. Called once, at load.
pub(crate) fn count_forks() {
    // SAFETY: the handler only stores to an atomic, and stays mapped (see `build.rs`).
    unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
}

extern "C" fn note_fork() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
