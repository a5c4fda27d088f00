// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixed slots with a free list.
//!
//! Storage is borrowed, and touched slot by slot: a slot begins when no other one of its class is
//! free. Only this module makes slot numbers, so a number that the engine
//! holds is always in range. Identifiers from outside (wire, application) are resolved by their
//! generation first. All operations are O(1).

#![allow(
    clippy::indexing_slicing,
    reason = "slot numbers are below the slice's length: module doc"
)]

use core::marker::PhantomData;

use super::slots::Slots;

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

/// Slots that begin together.
const BEGIN: u32 = 8;

/// A class of slots: its range, and its free slots.
#[derive(Clone, Copy, Debug, Hash)]
struct Class {
    start: u32,
    end: u32,
    /// The slots from here to the end have not begun.
    begun: u32,
    /// The first and the last of the free slots.
    free: u32,
    free_last: u32,
    used: u32,
}

/// Slots with a free list, divided in classes of a fixed size. A use of one class cannot exhaust
/// another; most slabs have one class.
#[derive(Debug, Hash)]
pub(crate) struct Slab<'s, T, I, const N: usize = 1> {
    slots: Slots<'s, Slot<T>>,
    classes: [Class; N],
    index: PhantomData<I>,
}

impl<'s, T: Default, I: SlotIndex> Slab<'s, T, I> {
    /// A slab of all `slots`, free. At most 2^24 slots.
    pub(crate) fn new(mut slots: Slots<'s, Slot<T>>) -> Self {
        let room = slots.room() as u32;
        let class = Class::new(&mut slots, 0, room);
        Self { slots, classes: [class], index: PhantomData }
    }

    /// Begins up to `count` slots. They are given out next, in random order, and their generations
    /// begin at random values: a slot and its generation tell little about others. `random` is the
    /// source of numbers.
    pub(crate) fn begin_shuffled(&mut self, count: u32, mut random: impl FnMut() -> u64) {
        let [class] = &mut self.classes;
        let start = class.begun;
        let until = class.end.min(start + count);
        self.slots.begin(until as usize);
        let begun = self.slots.get_mut(start as usize..until as usize).unwrap_or_default();
        // A random cycle through them (Sattolo, "An algorithm to generate a random cyclic
        // permutation", 1986), cut anywhere.
        for (number, slot) in (start..).zip(begun.iter_mut()) {
            slot.next_free = number;
        }
        let mut cut = 0;
        for last in 0..begun.len() {
            // The halves of a number are independent of each other.
            let number = random();
            begun[last].generation = number as u32;
            cut = ((number >> 32) % last.max(1) as u64) as usize;
            let next = begun[last].next_free;
            begun[last].next_free = begun[cut].next_free;
            begun[cut].next_free = next;
        }
        if let Some(slot) = begun.get_mut(cut) {
            let first = core::mem::replace(&mut slot.next_free, class.free);
            if class.free == NIL {
                class.free_last = start + cut as u32;
            }
            (class.free, class.begun) = (first, until);
        }
    }

    /// Takes a free slot and puts `value` in it.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, value: T) -> Option<I> {
        self.alloc_in(0, value)
    }

    /// The last value of the slot that [`Self::alloc`] would take next, if it had one.
    pub(crate) fn next_free(&self) -> Option<&T> {
        self.slots.get(self.classes[0].free as usize).map(|slot| &slot.value)
    }

    /// The number of used slots.
    pub(crate) fn used(&self) -> u32 {
        self.classes[0].used
    }
}

impl Class {
    /// The class of the slots from `start` to `end`, all free.
    fn new<T>(slots: &mut [Slot<T>], start: u32, end: u32) -> Self {
        let (free, free_last) = (NIL, NIL);
        let mut class = Self { start, end, begun: start, free, free_last, used: 0 };
        class.chain(slots, end.min(slots.len() as u32));
        class
    }

    /// Makes the slots that have begun since, up to `until`, the free list, which is empty.
    fn chain<T>(&mut self, slots: &mut [Slot<T>], until: u32) {
        let begun = slots.get_mut(self.begun as usize..until as usize).unwrap_or_default();
        for (slot, next) in begun.iter_mut().zip(self.begun + 1..=until) {
            slot.next_free = if next == until { NIL } else { next };
        }
        if until > self.begun {
            (self.free, self.free_last, self.begun) = (self.begun, until - 1, until);
        }
    }
}

impl<'s, T: Default, I: SlotIndex, const N: usize> Slab<'s, T, I, N> {
    /// A slab of `slots`, divided in classes of `counts`; `None` if the counts do not add up to the
    /// number of slots.
    pub(crate) fn with_classes(mut slots: Slots<'s, Slot<T>>, counts: [u32; N]) -> Option<Self> {
        let mut start = 0;
        let classes = counts.map(|count| {
            let class = Class::new(&mut slots, start, start + count);
            start = class.end;
            class
        });
        (start as usize == slots.room()).then_some(Self { slots, classes, index: PhantomData })
    }

    /// Takes a free slot of a class and puts `value` in it.
    #[inline(always)]
    pub(crate) fn alloc_in(&mut self, class: usize, value: T) -> Option<I> {
        Some(self.alloc_entry(class, value)?.0)
    }

    /// Takes a free slot of a class, puts `value` in it, and returns slot and generation.
    #[inline(always)]
    pub(crate) fn alloc_entry(&mut self, class: usize, value: T) -> Option<(I, u32)> {
        let mut number = self.classes[class].free;
        // Only a class without free slots has no number of a slot here.
        if number as usize >= self.slots.len() {
            number = self.begin_slots(class);
        }
        let slot = self.slots.get_mut(number as usize)?;
        let class = &mut self.classes[class];
        class.free = slot.next_free;
        class.used += 1;
        slot.next_free = IN_USE;
        slot.value = value;
        Some((I::from_number(number), slot.generation))
    }

    /// Begins the next slots of a class without free slots, and returns the first; [`NIL`] if all
    /// have begun. Bound: [`BEGIN`] slots, and with the first ones of a class those of the classes
    /// before it.
    #[cold]
    #[inline(never)]
    fn begin_slots(&mut self, class: usize) -> u32 {
        let class = &mut self.classes[class];
        let until = class.end.min(class.begun + BEGIN);
        self.slots.begin(until as usize);
        class.chain(&mut self.slots, until);
        class.free
    }
}

impl<T, I: SlotIndex, const N: usize> Slab<'_, T, I, N> {
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

    /// The value in a slot to be read, and the generation for an identifier of it.
    #[inline(always)]
    pub(crate) fn entry_ref(&self, slot: I) -> (&T, u32) {
        let slot = &self.slots[slot.number() as usize];
        (&slot.value, slot.generation)
    }

    /// The value in a slot that is in use, and the generation for an identifier of it. `slot` may
    /// be out of range.
    #[inline(always)]
    pub(crate) fn tenant(&self, slot: I) -> Option<(&T, u32)> {
        let slot = self.slots.get(slot.number() as usize)?;
        (slot.next_free == IN_USE).then_some((&slot.value, slot.generation))
    }

    /// The number of slots.
    #[inline]
    pub(crate) fn capacity(&self) -> u32 {
        self.classes[N - 1].end
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

    /// The slots of a class, used or not.
    pub(crate) fn slots_in(&self, class: usize) -> impl Iterator<Item = I> + use<T, I, N> {
        let Class { start, end, .. } = self.classes[class];
        (start..end).map(I::from_number)
    }

    /// The number of used slots of a class.
    pub(crate) fn used_in(&self, class: usize) -> u32 {
        self.classes[class].used
    }

    /// Whether a slot of a class is free.
    #[inline]
    pub(crate) fn has_free(&self, class: usize) -> bool {
        let class = &self.classes[class];
        class.free != NIL || class.begun != class.end
    }

    /// The number of free slots of a class.
    #[inline]
    pub(crate) fn free_in(&self, class: usize) -> u32 {
        let Class { start, end, used, .. } = self.classes[class];
        end - start - used
    }

    /// The number of slots in all classes.
    pub(crate) fn total(&self) -> u32 {
        self.slots.room() as u32
    }

    /// The number of used slots in all classes.
    pub(crate) fn used_in_all(&self) -> u32 {
        self.classes.iter().map(|class| class.used).sum()
    }

    /// Whether free and used slots of each class add up. Bound: the slots.
    pub(crate) fn is_sound(&self) -> bool {
        self.classes.iter().all(|class| {
            let (mut count, mut number) = (0, class.free);
            let begun = class.begun - class.start;
            while number != NIL && count <= begun {
                number = self.slots[number as usize].next_free;
                count += 1;
            }
            count + class.used == begun
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
