// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage for messages that no posted receive has matched (`docs/PROTOCOL.md` §6.3).
//!
//! A class of slots for each size of storage: a small message takes a small slot, and what does not
//! fit the largest class is not stored at all (the sender is told "receiver not ready" instead).
//! The bytes themselves are behind [`Memory`](crate::Memory); this is the bookkeeping. All
//! operations are O(1).

use crate::operation::Unexpected;
use crate::slab::{Link, Linked, Links, Slab, Slot};
use crate::{Config, UnexpectedId};

/// Payload bytes that one slot of each class holds.
pub const UNEXPECTED_CLASS_LEN: [u64; CLASSES] = [256, 2 << 10, 16 << 10, 128 << 10];
/// How many classes of storage there are.
pub(crate) const CLASSES: usize = 4;

/// Storage for messages that no posted receive has matched, by size.
#[derive(Debug)]
pub(crate) struct UnexpectedPool<'s> {
    slots: Slab<'s, Unexpected, CLASSES>,
}

impl<'s> UnexpectedPool<'s> {
    /// Divides `slots` among the classes as `config` says; `None` if there are not as many as it
    /// says.
    pub(crate) fn new(slots: &'s mut [Slot<Unexpected>], config: &Config) -> Option<Self> {
        Some(Self { slots: Slab::with_classes(slots, config.unexpected)? })
    }

    /// Takes a slot that holds `len` bytes, from the smallest class that has one.
    pub(crate) fn alloc(&mut self, len: u64, message: Unexpected) -> Option<u32> {
        (0..CLASSES)
            .zip(UNEXPECTED_CLASS_LEN)
            .filter(|&(_, class_len)| len <= class_len)
            .find_map(|(class, _)| self.slots.alloc_in(class, message))
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.slots.release(slot);
    }

    /// The identifier of a slot that is given out.
    pub(crate) fn id(&self, slot: u32) -> UnexpectedId {
        UnexpectedId::new(slot, self.slots.generation(slot))
    }

    /// How many messages are stored.
    pub(crate) fn used(&self) -> u32 {
        self.slots.used_in_all()
    }

    /// How full the fullest class is that has any slots, in eighths, rounded down.
    #[inline]
    pub(crate) fn eighths_full(&self) -> u8 {
        if self.used() == 0 { 0 } else { self.fullest() }
    }

    fn fullest(&self) -> u8 {
        let eighths = |class| {
            let (used, free) = (self.slots.used_in(class), self.slots.free_in(class));
            (used * 8).checked_div(used + free).unwrap_or(0)
        };
        (0..CLASSES).map(eighths).max().unwrap_or(0) as u8
    }

    pub(crate) fn message(&mut self, slot: u32) -> &mut Unexpected {
        &mut self.slots[slot]
    }

    pub(crate) fn slots(&self) -> &Slab<'s, Unexpected, CLASSES> {
        &self.slots
    }
}

impl Link for Unexpected {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Linked for UnexpectedPool<'_> {
    fn links(&mut self, number: u32) -> &mut Links {
        self.slots.links(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let mut pool = UnexpectedPool::new(&mut slots, &config).unwrap();
            let mut free = config.unexpected;
            let mut ranges = BTreeSet::new();
            for len in lens {
                let expected =
                    (0..CLASSES).find(|&c| len <= UNEXPECTED_CLASS_LEN[c] && free[c] > 0);
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
