// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of the engine that an audit of its state can find broken, and audits of pools and lists
//! that components share.
//!
//! In: pools and lists. Out: a [`Violation`], or the length of a list. For tests only.

use crate::collections::list::{Linked, List};
use crate::collections::slab::{Slab, SlotIndex};

/// A rule of the engine's own that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Violation {
    /// More is under way than a window, or the oldest packet is after the next.
    #[error("(10) packets under way do not fit the window")]
    WindowBounds,
    /// The lowest missing packet is marked as received.
    #[error("(12) the lowest missing packet is marked as received")]
    WindowBit,
    /// Counts of acknowledged and lost packets do not agree with the packet records.
    #[error("(10) counts of packets under way do not agree with their records")]
    PacketCounts,
    /// The congestion window is out of bounds.
    #[error("(16) the congestion window is out of bounds")]
    CongestionWindow,
    /// Free and used slots of a pool do not add up.
    #[error("(20) slots of pool `{0}` do not add up")]
    Pool(&'static str),
    /// A connection with work has no timer, or one that fires too late.
    #[error("(22) a connection with work has no timer in time")]
    Timer,
    /// A connection that belongs to no peer, or to two.
    #[error("(24) connection and peer do not belong together")]
    Owner,
    /// A multi-receive buffer and its slices contradict each other.
    #[error("(20) a multi-receive buffer and its slices contradict each other")]
    MultiRecv,
    /// Slots reserved for responses do not add up.
    #[error("(20) slots reserved for responses do not add up")]
    Credits,
}

/// Checks that free and used slots of a pool add up.
pub(super) fn sound<T, I: SlotIndex, const N: usize>(
    name: &'static str,
    slab: &Slab<'_, T, I, N>,
) -> Result<(), Violation> {
    if slab.is_sound() { Ok(()) } else { Err(Violation::Pool(name)) }
}

/// How many members a list has.
pub(super) fn length<I: SlotIndex>(list: List<I>, slots: &mut impl Linked<I>) -> u32 {
    let (mut count, mut slot) = (0, list.head());
    while slot.is_some() {
        count += 1;
        slot = List::next(slots, slot);
    }
    count
}
