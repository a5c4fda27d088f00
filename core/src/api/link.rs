// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of the connection of a connected endpoint.
//!
//! In: nothing; this is a type. Out: a value for the owner of an engine. Bound: constant.

/// The state of the connection of a connected endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkState {
    /// One side may not know of it yet.
    Opening,
    /// Both sides know of it.
    Open,
    /// It has ended, or could not be opened.
    Ended,
}
