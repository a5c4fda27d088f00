// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress of the search for messages of connections that have ended.
//!
//! In: the end of a connection with many messages. Out: the slots and receives that are left to
//! look at. Caller: `ended.rs`. Bound: all operations are O(1).

use crate::collections::slab::SlotIndex;
use crate::peer::slots::StoredSlot;

/// The search for messages of ended connections.
#[derive(Debug)]
pub(super) struct EndedSearch {
    /// The slot that is looked at next; none: the search is over.
    pub(super) next: StoredSlot,
    /// Slots, and receives that wait for their turn, to look at.
    pub(super) slots: u32,
    pub(super) recvs: u32,
}

impl Default for EndedSearch {
    fn default() -> Self {
        Self { next: StoredSlot::NONE, slots: 0, recvs: 0 }
    }
}

impl EndedSearch {
    /// Starts again: `slots` slots and `recvs` receives are searched.
    pub(super) fn restart(&mut self, slots: u32, recvs: u32) {
        (self.slots, self.recvs) = (self.slots.max(slots), self.recvs.max(recvs));
        if self.next.is_none() {
            self.next = StoredSlot::from_number(0);
        }
    }

    /// Whether nothing is left to look at.
    pub(super) const fn is_over(&self) -> bool {
        self.slots == 0 && self.recvs == 0
    }

    /// The search is over if nothing is left.
    pub(super) fn end_if_over(&mut self) {
        if self.is_over() {
            self.next = StoredSlot::NONE;
        }
    }
}
