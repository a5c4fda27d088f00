// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage for messages that no posted receive has matched (`docs/PROTOCOL.md` §6.3).
//!
//! Fixed slots in four size classes: a small message takes a small slot, and what does not fit the
//! largest class is not stored at all (the sender is told "receiver not ready" instead). The bytes
//! themselves are behind [`Memory`](crate::Memory); this is the bookkeeping. All operations are
//! O(1).

use crate::message::Unexpected;
use crate::slab::{Linked, Links, Slab, Slot};
use crate::{Config, UnexpectedId};

/// Payload bytes that one slot of each class holds.
pub const UNEXPECTED_CLASS_LEN: [u64; CLASSES] = [256, 2 << 10, 16 << 10, 128 << 10];
/// How many classes there are.
pub(crate) const CLASSES: usize = 4;
/// Low bits of a slot number that count within a class.
const INDEX_BITS: u32 = UnexpectedId::SLOT_BITS - 2;

/// The class and the place in it that a slot number stands for.
pub(crate) const fn split(slot: u32) -> (usize, u32) {
    ((slot >> INDEX_BITS) as usize % CLASSES, slot & ((1 << INDEX_BITS) - 1))
}

/// Slots in size classes, numbered across the classes.
#[derive(Debug)]
pub(crate) struct UnexpectedPool<'s> {
    classes: [Slab<'s, Unexpected>; CLASSES],
}

impl<'s> UnexpectedPool<'s> {
    /// Divides `slots` among the classes as `config` says; `None` if there are not as many as it
    /// says.
    pub(crate) fn new(slots: &'s mut [Slot<Unexpected>], config: &Config) -> Option<Self> {
        let [a, b, c, d] = config.unexpected.map(|count| count as usize);
        let (first, rest) = slots.split_at_mut_checked(a)?;
        let (second, rest) = rest.split_at_mut_checked(b)?;
        let (third, rest) = rest.split_at_mut_checked(c)?;
        let (fourth, rest) = rest.split_at_mut_checked(d)?;
        let classes = [first, second, third, fourth].map(Slab::new);
        rest.is_empty().then_some(Self { classes })
    }

    /// Takes a slot that holds a message of `message.envelope.total` bytes, from the smallest class
    /// that has one.
    pub(crate) fn alloc(&mut self, message: Unexpected) -> Option<u32> {
        let len = u64::from(message.envelope.total);
        self.classes.iter_mut().zip(UNEXPECTED_CLASS_LEN).zip(0u32..).find_map(
            |((slab, class_len), class)| {
                let index = (len <= class_len).then(|| slab.alloc(message))??;
                Some(class << INDEX_BITS | index)
            },
        )
    }

    pub(crate) fn release(&mut self, slot: u32) {
        let (class, index) = split(slot);
        self.class(class).release(index);
    }

    /// The identifier of a slot that is given out.
    pub(crate) fn id(&mut self, slot: u32) -> UnexpectedId {
        let (class, index) = split(slot);
        UnexpectedId::new(slot, self.class(class).generation(index))
    }

    /// How many messages are stored.
    pub(crate) fn used(&self) -> u32 {
        self.classes.iter().map(Slab::used).sum()
    }

    pub(crate) fn message(&mut self, slot: u32) -> &mut Unexpected {
        let (class, index) = split(slot);
        &mut self.class(class)[index]
    }

    #[allow(clippy::indexing_slicing, reason = "`split` gives a class below CLASSES")]
    fn class(&mut self, class: usize) -> &mut Slab<'s, Unexpected> {
        &mut self.classes[class]
    }
}

impl Linked for UnexpectedPool<'_> {
    fn links(&mut self, number: u32) -> &mut Links {
        &mut self.message(number).links
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Envelope;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec;

    proptest! {
        #[test]
        fn the_smallest_class_with_room_serves(
            counts: [bool; 4], lens in prop::collection::vec(0u32..200_000, 0..12),
        ) {
            let unexpected = counts.map(|c| 2 * u32::from(c));
            let config = Config { unexpected, ..Config::new(|c, _| c) };
            let mut slots = vec![Slot::default(); config.sizes().unexpected];
            let mut pool = UnexpectedPool::new(&mut slots, &config).unwrap();
            let mut free = config.unexpected;
            let mut ranges = BTreeSet::new();
            for len in lens {
                let envelope = Envelope { total: len, ..Envelope::default() };
                let expected = (0..CLASSES)
                    .find(|&c| u64::from(len) <= UNEXPECTED_CLASS_LEN[c] && free[c] > 0);
                let slot = pool.alloc(Unexpected { envelope, ..Unexpected::default() });
                prop_assert_eq!(slot.map(|s| split(s).0), expected);
                if let (Some(slot), Some(class)) = (slot, expected) {
                    free[class] -= 1;
                    let (offset, room) = config.unexpected_range(pool.id(slot));
                    prop_assert!(room >= u64::from(len));
                    prop_assert!(offset + room <= config.unexpected_bytes());
                    prop_assert!(ranges.insert(offset), "two messages in one place");
                    prop_assert_eq!(pool.message(slot).envelope.total, len);
                }
            }
            prop_assert_eq!(pool.used() as usize, ranges.len());
        }
    }
}
