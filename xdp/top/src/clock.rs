// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock of this program.
//!
//! In: nothing. Out: the time. Callers: the loops of the outputs. Bound: one call.

use std::time::Instant;

/// The present time.
#[expect(clippy::disallowed_methods, reason = "the clock of this program, read here only")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
