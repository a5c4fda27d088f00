// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage for messages that no posted receive has matched (`docs/PROTOCOL.md` §6.3).
//!
//! There is a class of slots for each size of storage. A small message takes a small slot. A
//! message longer than the largest class is not stored: the sender gets "receiver not ready". The
//! bytes are behind [`Memory`](crate::Memory); this file has the bookkeeping. All operations are
//! O(1).

use crate::UnexpectedId;
use crate::api::config::{UNEXPECTED_CLASS_LEN, UNEXPECTED_CLASSES};
use crate::collections::list::{Link, Linked, Links};
use crate::collections::slab::{Slab, Slot};
use crate::peer::operation::Unexpected;
use crate::peer::slots::StoredSlot;

/// Classes in which a message may be stored.
const CLASSES_TRIED: usize = 2;

/// Storage for messages that no posted receive has matched, by size.
#[derive(Debug)]
pub(crate) struct UnexpectedPool<'s> {
    slots: Slab<'s, Unexpected, StoredSlot, UNEXPECTED_CLASSES>,
    /// How many messages have left, modulo 2^16.
    releases: u16,
}

impl<'s> UnexpectedPool<'s> {
    /// Divides `slots` among the classes as `config` says; `None` if there are not as many as it
    /// says.
    pub(crate) fn new(
        slots: &'s mut [Slot<Unexpected>],
        counts: [u32; UNEXPECTED_CLASSES],
    ) -> Option<Self> {
        Some(Self { slots: Slab::with_classes(slots, counts)?, releases: 1 })
    }

    /// Takes a slot that holds `len` bytes, from the smallest class that fits or from the next
    /// larger one: small messages do not take the room of long ones.
    pub(crate) fn alloc(&mut self, len: u64, message: Unexpected) -> Option<StoredSlot> {
        (0..UNEXPECTED_CLASSES)
            .zip(UNEXPECTED_CLASS_LEN)
            .filter(|&(_, class_len)| len <= class_len)
            .take(CLASSES_TRIED)
            .find_map(|(class, _)| self.slots.alloc_in(class, message))
    }

    pub(crate) fn release(&mut self, slot: StoredSlot) {
        self.slots.release(slot);
        self.releases = self.releases.wrapping_add(1);
    }

    /// A count that changes when a message leaves.
    pub(crate) const fn releases(&self) -> u16 {
        self.releases
    }

    /// The identifier of a slot that is given out.
    pub(crate) fn id(&self, slot: StoredSlot) -> UnexpectedId {
        slot.id(self.slots.generation(slot))
    }

    /// How many messages are stored.
    pub(crate) fn used(&self) -> u32 {
        self.slots.used_in_all()
    }

    /// How full the fullest class is that has any slots, in eighths, rounded down.
    #[inline]
    pub(crate) fn occupancy(&self) -> u8 {
        if self.used() == 0 { 0 } else { self.fullest() }
    }

    fn fullest(&self) -> u8 {
        let occupancy_of = |class| {
            let (used, free) = (self.slots.used_in(class), self.slots.free_in(class));
            (used * 8).checked_div(used + free).unwrap_or(0)
        };
        (0..UNEXPECTED_CLASSES).map(occupancy_of).max().unwrap_or(0) as u8
    }

    pub(crate) fn message(&mut self, slot: StoredSlot) -> &mut Unexpected {
        &mut self.slots[slot]
    }

    pub(crate) fn slots(&self) -> &Slab<'s, Unexpected, StoredSlot, UNEXPECTED_CLASSES> {
        &self.slots
    }
}

impl Link<StoredSlot> for Unexpected {
    fn link(&mut self) -> &mut Links<StoredSlot> {
        &mut self.links
    }
}

impl Linked<StoredSlot> for UnexpectedPool<'_> {
    fn links(&mut self, slot: StoredSlot) -> &mut Links<StoredSlot> {
        self.slots.links(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec;

    proptest! {
        #[test]
        fn messages_get_the_smallest_slot_there_is_and_none_twice(
            counts in prop::array::uniform4(0u32..4),
            lens in prop::collection::vec(0u64..150_000, 0..20),
        ) {
            let config = Config { unexpected: counts, ..Config::new(|crc, _| crc) };
            let total: u32 = counts.iter().sum();
            let mut slots = vec![Slot::<Unexpected>::default(); total as usize];
            let mut pool = UnexpectedPool::new(&mut slots, counts).unwrap();
            let mut free = config.unexpected;
            let mut ranges = BTreeSet::new();
            for len in lens {
                let expected =
                    (0..UNEXPECTED_CLASSES)
                    .filter(|&c| len <= UNEXPECTED_CLASS_LEN[c])
                    .take(2)
                    .find(|&c| free[c] > 0);
                let slot = pool.alloc(len, Unexpected::default());
                prop_assert_eq!(slot.map(|s| pool.slots.class_of(s)), expected);
                if let (Some(slot), Some(class)) = (slot, expected) {
                    free[class] -= 1;
                    let (offset, room) = config.unexpected_range(pool.id(slot));
                    prop_assert!(room >= len);
                    prop_assert!(offset + room <= config.unexpected_bytes());
                    prop_assert!(ranges.insert(offset), "two messages in one place");
                }
            }
            prop_assert_eq!(pool.used() as usize, ranges.len());
        }
    }
}
