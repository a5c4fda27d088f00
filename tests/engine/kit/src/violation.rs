// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wrong accesses to application memory, and the rules that they break.

/// The rule that a copy breaks, by its number in `docs/TESTING.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Invariant {
    /// A byte outside of a buffer or region.
    Bounds = 3,
    /// The buffer of an operation that has ended, or a region that was closed.
    Ended = 4,
    /// An identifier that outlived its object.
    Identifier = 19,
    /// A slot with two tenants at once.
    Occupied = 20,
}

/// A wrong access.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The rule.
    pub invariant: Invariant,
    /// The access.
    pub what: String,
}

impl Violation {
    pub(crate) const fn new(invariant: Invariant, what: String) -> Self {
        Self { invariant, what }
    }
}
