// SPDX-License-Identifier: MIT OR Apache-2.0
//! Several slabs behind one kind of slot number, so that what is in them can stand in one list.
//!
//! Slots of [`ClassPool`] are divided in classes with a fixed number of slots each, so that one use
//! cannot take another one's. [`UnexpectedPool`] (`docs/PROTOCOL.md` §6.3) has a class for each
//! size of storage: a small message takes a small slot, and what does not fit the largest class is
//! not stored at all (the sender is told "receiver not ready" instead). The bytes themselves are
//! behind [`Memory`](crate::Memory); this is the bookkeeping. All operations are O(1).

use crate::operation::Unexpected;
use crate::slab::{Link, Linked, Links, Slab, Slot};
use crate::{Config, UnexpectedId};

/// Payload bytes that one slot of each class holds.
pub const UNEXPECTED_CLASS_LEN: [u64; CLASSES] = [256, 2 << 10, 16 << 10, 128 << 10];
/// How many classes of storage there are.
pub(crate) const CLASSES: usize = 4;
/// Low bits of a slot number that count within a class.
const INDEX_BITS: u32 = UnexpectedId::SLOT_BITS - 2;
/// The most slots that a class can have.
pub(crate) const CLASS_SLOTS_MAX: u32 = (1 << INDEX_BITS) - 1;

/// The class and the place in it that a slot number stands for.
pub(crate) const fn split(slot: u32) -> (usize, u32) {
    ((slot >> INDEX_BITS) as usize % CLASSES, slot & ((1 << INDEX_BITS) - 1))
}

/// The slot number that a place in a class has.
pub(crate) const fn join(class: usize, index: u32) -> u32 {
    (class as u32) << INDEX_BITS | index
}

/// Slots in at most four classes, numbered across the classes.
#[derive(Debug)]
pub(crate) struct ClassPool<'s, T, const N: usize> {
    classes: [Slab<'s, T>; N],
}

impl<'s, T: Default, const N: usize> ClassPool<'s, T, N> {
    /// Divides `slots` among the classes; `None` if there are not as many as `counts` says.
    pub(crate) fn new(slots: &'s mut [Slot<T>], counts: [u32; N]) -> Option<Self> {
        let mut rest = Some(slots);
        let classes = counts.map(|count| {
            let all = rest.take()?;
            let (class, behind) = all.split_at_mut_checked(count as usize)?;
            rest = Some(behind);
            Some(Slab::new(class))
        });
        if classes.iter().any(Option::is_none) || !rest?.is_empty() {
            return None;
        }
        Some(Self { classes: classes.map(|class| class.unwrap_or_else(Slab::empty)) })
    }

    pub(crate) fn alloc(&mut self, class: usize, value: T) -> Option<u32> {
        Some(join(class, self.classes.get_mut(class)?.alloc(value)?))
    }

    pub(crate) fn release(&mut self, slot: u32) {
        let (class, index) = split(slot);
        if let Some(slab) = self.classes.get_mut(class) {
            slab.release(index);
        }
    }

    /// The generation that an identifier of `slot` made now would carry.
    pub(crate) fn generation(&self, slot: u32) -> u32 {
        let (class, index) = split(slot);
        self.classes.get(class).map_or(0, |slab| slab.generation(index))
    }

    /// Whether `slot` is given out at present.
    pub(crate) fn is_used(&self, slot: u32) -> bool {
        let (class, index) = split(slot);
        self.classes.get(class).is_some_and(|slab| slab.is_used(index))
    }

    /// How many slots of a class are given out.
    pub(crate) fn used(&self, class: usize) -> u32 {
        self.classes.get(class).map_or(0, Slab::used)
    }

    /// How many slots of a class are free.
    pub(crate) fn free(&self, class: usize) -> u32 {
        self.classes.get(class).map_or(0, |slab| slab.capacity() - slab.used())
    }

    /// The slots of a class, for whoever checks the books.
    pub(crate) fn class(&self, class: usize) -> Option<&Slab<'s, T>> {
        self.classes.get(class)
    }
}

#[allow(
    clippy::indexing_slicing,
    reason = "slot numbers are made by `alloc`: their class is below N"
)]
impl<T, const N: usize> core::ops::Index<u32> for ClassPool<'_, T, N> {
    type Output = T;

    fn index(&self, slot: u32) -> &T {
        let (class, index) = split(slot);
        &self.classes[class][index]
    }
}

#[allow(
    clippy::indexing_slicing,
    reason = "slot numbers are made by `alloc`: their class is below N"
)]
impl<T, const N: usize> core::ops::IndexMut<u32> for ClassPool<'_, T, N> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        let (class, index) = split(slot);
        &mut self.classes[class][index]
    }
}

impl<T: Link, const N: usize> Linked for ClassPool<'_, T, N> {
    fn links(&mut self, number: u32) -> &mut Links {
        self[number].link()
    }
}

/// Storage for messages that no posted receive has matched, by size.
#[derive(Debug)]
pub(crate) struct UnexpectedPool<'s> {
    pool: ClassPool<'s, Unexpected, CLASSES>,
}

impl<'s> UnexpectedPool<'s> {
    /// Divides `slots` among the classes as `config` says; `None` if there are not as many as it
    /// says.
    pub(crate) fn new(slots: &'s mut [Slot<Unexpected>], config: &Config) -> Option<Self> {
        Some(Self { pool: ClassPool::new(slots, config.unexpected)? })
    }

    /// Takes a slot that holds `len` bytes, from the smallest class that has one.
    pub(crate) fn alloc(&mut self, len: u64, message: Unexpected) -> Option<u32> {
        (0..CLASSES)
            .zip(UNEXPECTED_CLASS_LEN)
            .filter(|&(_, class_len)| len <= class_len)
            .find_map(|(class, _)| self.pool.alloc(class, message))
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.pool.release(slot);
    }

    /// The identifier of a slot that is given out.
    pub(crate) fn id(&self, slot: u32) -> UnexpectedId {
        UnexpectedId::new(slot, self.pool.generation(slot))
    }

    /// How many messages are stored.
    pub(crate) fn used(&self) -> u32 {
        (0..CLASSES).map(|class| self.pool.used(class)).sum()
    }

    /// How full the fullest class is that has any slots, in eighths, rounded down.
    pub(crate) fn eighths_full(&self) -> u8 {
        let eighths = |class| {
            let (used, free) = (self.pool.used(class), self.pool.free(class));
            (used * 8).checked_div(used + free).unwrap_or(0)
        };
        (0..CLASSES).map(eighths).max().unwrap_or(0) as u8
    }

    pub(crate) fn message(&mut self, slot: u32) -> &mut Unexpected {
        &mut self.pool[slot]
    }

    pub(crate) fn pool(&self) -> &ClassPool<'s, Unexpected, CLASSES> {
        &self.pool
    }
}

impl Link for Unexpected {
    fn link(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Linked for UnexpectedPool<'_> {
    fn links(&mut self, number: u32) -> &mut Links {
        self.pool.links(number)
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
                prop_assert_eq!(slot.map(|s| split(s).0), expected);
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
