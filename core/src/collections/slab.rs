// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixed slots with a free list.
//!
//! Storage is a borrowed slice. Only this module makes slot numbers, so a number that the engine
//! holds is always in range. Identifiers from outside (wire, application) are resolved by their
//! generation first. All operations are O(1).

#![allow(
    clippy::indexing_slicing,
    reason = "slot numbers are below the slice's length: module doc"
)]

use core::marker::PhantomData;

/// No slot, in the untyped links of this folder.
pub(crate) const NIL: u32 = u32::MAX;

/// A slot number, in a type of its own for each pool.
pub(crate) trait SlotIndex: Copy + Eq {
    /// No slot.
    const NONE: Self;

    /// The slot with this number.
    fn from_number(number: u32) -> Self;

    /// The number of the slot: its index in the slice.
    fn number(self) -> u32;

    /// Whether this is no slot.
    #[inline(always)]
    fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Whether this is a slot.
    #[inline(always)]
    fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// A slot: the value and the bookkeeping.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Slot<T> {
    value: T,
    generation: u32,
    /// The next free slot, or [`IN_USE`].
    next_free: u32,
}

/// Marks an occupied slot; never a slot number (identifiers have at most 24 bits).
const IN_USE: u32 = u32::MAX - 1;

impl<T: Default> Default for Slot<T> {
    fn default() -> Self {
        Self { value: T::default(), generation: 0, next_free: NIL }
    }
}

/// A class of slots: its range, and its free slots.
#[derive(Clone, Copy, Debug, Hash)]
struct Class {
    start: u32,
    end: u32,
    /// The first and the last of the free slots.
    free: u32,
    free_last: u32,
    used: u32,
}

/// Slots with a free list, divided in classes of a fixed size. A use of one class cannot exhaust
/// another; most slabs have one class.
#[derive(Debug, Hash)]
pub(crate) struct Slab<'s, T, I, const N: usize = 1> {
    slots: &'s mut [Slot<T>],
    classes: [Class; N],
    index: PhantomData<I>,
}

impl<'s, T, I: SlotIndex> Slab<'s, T, I> {
    /// A slab of all `slots`, free. At most 2^24 slots.
    pub(crate) fn new(slots: &'s mut [Slot<T>]) -> Self {
        let count = slots.len() as u32;
        let class = chain(slots, 0, count);
        Self { slots, classes: [class], index: PhantomData }
    }

    /// A slab of all `slots`, free, that are given out in random order, and whose generations begin
    /// anywhere: a slot and its generation tell nothing about others. `random` gives numbers.
    pub(crate) fn shuffled(slots: &'s mut [Slot<T>], mut random: impl FnMut() -> u64) -> Self {
        let mut slab = Self::new(slots);
        let [class] = &mut slab.classes;
        // A random cycle through all slots (Sattolo, "An algorithm to generate a random cyclic
        // permutation", 1986), cut anywhere.
        for (number, slot) in (0..).zip(slab.slots.iter_mut()) {
            (slot.next_free, slot.generation) = (number, random() as u32);
        }
        for last in (1..class.end).rev() {
            let other = (random() % u64::from(last)) as usize;
            let next = slab.slots[last as usize].next_free;
            slab.slots[last as usize].next_free = slab.slots[other].next_free;
            slab.slots[other].next_free = next;
        }
        let cut = (random() % u64::from(class.end.max(1))) as u32;
        if let Some(slot) = slab.slots.get_mut(cut as usize) {
            class.free = slot.next_free;
            class.free_last = cut;
            slot.next_free = NIL;
        }
        slab
    }

    /// Takes a free slot and puts `value` in it.
    #[inline]
    pub(crate) fn alloc(&mut self, value: T) -> Option<I> {
        self.alloc_in(0, value)
    }

    /// The last value of the slot that [`Self::alloc`] would take next.
    pub(crate) fn next_free(&self) -> Option<&T> {
        self.slots.get(self.classes[0].free as usize).map(|slot| &slot.value)
    }

    /// The number of used slots.
    pub(crate) fn used(&self) -> u32 {
        self.classes[0].used
    }

    /// The number of slots.
    pub(crate) fn capacity(&self) -> u32 {
        self.classes[0].end
    }
}

/// Chains the slots from `start` to `end` to a free list.
fn chain<T>(slots: &mut [Slot<T>], start: u32, end: u32) -> Class {
    for (slot, next) in slots.iter_mut().zip(start + 1..=end) {
        slot.next_free = if next == end { NIL } else { next };
    }
    let (free, free_last) = if start == end { (NIL, NIL) } else { (start, end - 1) };
    Class { start, end, free, free_last, used: 0 }
}

impl<'s, T, I: SlotIndex, const N: usize> Slab<'s, T, I, N> {
    /// A slab of `slots`, divided in classes of `counts`; `None` if the counts do not add up to the
    /// length.
    pub(crate) fn with_classes(slots: &'s mut [Slot<T>], counts: [u32; N]) -> Option<Self> {
        let mut start = 0;
        let classes = counts.map(|count| {
            let end = start + count;
            let range = start as usize..end as usize;
            let class = chain(slots.get_mut(range).unwrap_or_default(), start, end);
            start = end;
            class
        });
        (start as usize == slots.len()).then_some(Self { slots, classes, index: PhantomData })
    }

    /// Takes a free slot of a class and puts `value` in it.
    #[inline]
    pub(crate) fn alloc_in(&mut self, class: usize, value: T) -> Option<I> {
        Some(self.alloc_entry(class, value)?.0)
    }

    /// Takes a free slot of a class, puts `value` in it, and returns slot and generation.
    #[inline]
    pub(crate) fn alloc_entry(&mut self, class: usize, value: T) -> Option<(I, u32)> {
        let class = &mut self.classes[class];
        let number = class.free;
        let slot = self.slots.get_mut(number as usize)?;
        class.free = slot.next_free;
        class.used += 1;
        slot.next_free = IN_USE;
        slot.value = value;
        Some((I::from_number(number), slot.generation))
    }

    /// Frees a used slot; its generation moves on.
    #[inline]
    pub(crate) fn release(&mut self, slot: I) {
        self.release_in(self.class_of(slot), slot);
    }

    /// Frees a slot that is known to be in `class`; otherwise as [`Self::release`].
    #[inline]
    pub(crate) fn release_in(&mut self, class: usize, slot: I) {
        debug_assert_eq!(class, self.class_of(slot));
        let number = slot.number();
        let class = &mut self.classes[class];
        let slot = &mut self.slots[number as usize];
        debug_assert_eq!(slot.next_free, IN_USE, "released twice");
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = class.free;
        if class.free == NIL {
            class.free_last = number;
        }
        class.free = number;
        class.used -= 1;
    }

    /// Frees a slot that is used again after all other free slots of its class; otherwise as
    /// [`Self::release`].
    pub(crate) fn release_last(&mut self, slot: I) {
        let (class, number) = (self.class_of(slot), slot.number());
        let class = &mut self.classes[class];
        let slot = &mut self.slots[number as usize];
        debug_assert_eq!(slot.next_free, IN_USE, "released twice");
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = NIL;
        if class.free == NIL {
            class.free = number;
        } else {
            self.slots[class.free_last as usize].next_free = number;
        }
        class.free_last = number;
        class.used -= 1;
    }

    /// The class of a slot. Bound: the classes.
    #[inline]
    pub(crate) fn class_of(&self, slot: I) -> usize {
        let number = slot.number();
        let [classes @ .., _] = &self.classes[..] else { return 0 };
        classes.iter().map(|class| usize::from(number >= class.end)).sum()
    }

    /// The generation for an identifier of the slot's present tenant.
    #[inline]
    pub(crate) fn generation(&self, slot: I) -> u32 {
        self.slots[slot.number() as usize].generation
    }

    /// The value in a slot, and the generation for an identifier of it.
    #[inline]
    pub(crate) fn entry(&mut self, slot: I) -> (&mut T, u32) {
        let slot = &mut self.slots[slot.number() as usize];
        (&mut slot.value, slot.generation)
    }

    /// Whether `slot` is in use.
    #[inline]
    pub(crate) fn is_used(&self, slot: I) -> bool {
        self.slots.get(slot.number() as usize).is_some_and(|slot| slot.next_free == IN_USE)
    }

    /// The used slots. Bound: the slots.
    pub(crate) fn used_slots(&self) -> impl Iterator<Item = I> + '_ {
        (0..)
            .zip(self.slots.iter())
            .filter(|(_, slot)| slot.next_free == IN_USE)
            .map(|(number, _)| I::from_number(number))
    }

    /// The number of used slots of a class.
    pub(crate) fn used_in(&self, class: usize) -> u32 {
        self.classes[class].used
    }

    /// Whether a slot of a class is free.
    #[inline]
    pub(crate) fn has_free(&self, class: usize) -> bool {
        self.classes[class].free != NIL
    }

    /// The number of free slots of a class.
    #[inline]
    pub(crate) fn free_in(&self, class: usize) -> u32 {
        let Class { start, end, used, .. } = self.classes[class];
        end - start - used
    }

    /// The number of slots in all classes.
    pub(crate) fn total(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The number of used slots in all classes.
    pub(crate) fn used_in_all(&self) -> u32 {
        self.classes.iter().map(|class| class.used).sum()
    }

    /// Whether free and used slots of each class add up. Bound: the slots.
    pub(crate) fn is_sound(&self) -> bool {
        self.classes.iter().all(|class| {
            let (mut count, mut number) = (0, class.free);
            while number != NIL && count <= class.end - class.start {
                number = self.slots[number as usize].next_free;
                count += 1;
            }
            count + class.used == class.end - class.start
        })
    }
}

impl<T, I: SlotIndex, const N: usize> core::ops::Index<I> for Slab<'_, T, I, N> {
    type Output = T;

    #[inline]
    fn index(&self, slot: I) -> &T {
        &self.slots[slot.number() as usize].value
    }
}

impl<T, I: SlotIndex, const N: usize> core::ops::IndexMut<I> for Slab<'_, T, I, N> {
    #[inline]
    fn index_mut(&mut self, slot: I) -> &mut T {
        &mut self.slots[slot.number() as usize].value
    }
}

#[cfg(test)]
mod tests;
