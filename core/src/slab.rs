// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixed slots with a free list, and lists threaded through them.
//!
//! Storage is a slice that the caller lent. Slot numbers are made here and nowhere else, so a
//! number that the engine holds is always in range; identifiers from outside (wire, application)
//! are resolved through their generation first. All operations are O(1).

#![allow(
    clippy::indexing_slicing,
    reason = "slot numbers are below the slice's length: module doc"
)]

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

/// Something that lives in a slab: the value and the slot's bookkeeping.
#[derive(Clone, Debug, Hash)]
pub struct Slot<T> {
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

/// Slots that are given out and taken back.
#[derive(Debug, Hash)]
pub(crate) struct Slab<'s, T> {
    slots: &'s mut [Slot<T>],
    /// The first and the last of the free slots.
    free: u32,
    free_last: u32,
    used: u32,
}

impl<'s, T> Slab<'s, T> {
    /// All of `slots`, free. At most 2^24 of them.
    pub(crate) fn new(slots: &'s mut [Slot<T>]) -> Self {
        let count = slots.len() as u32;
        for (slot, next) in slots.iter_mut().zip(1..) {
            slot.next_free = if next == count { NIL } else { next };
        }
        let (free, free_last) = if count == 0 { (NIL, NIL) } else { (0, count - 1) };
        Self { free, free_last, slots, used: 0 }
    }

    /// No slots.
    pub(crate) fn empty() -> Self {
        Self { slots: &mut [], free: NIL, free_last: NIL, used: 0 }
    }

    /// The slot that [`Self::alloc`] would give out, with what was last in it.
    pub(crate) fn next_free(&self) -> Option<&T> {
        self.slots.get(self.free as usize).map(|slot| &slot.value)
    }

    /// Takes a free slot and puts `value` in it.
    pub(crate) fn alloc(&mut self, value: T) -> Option<u32> {
        let number = self.free;
        let slot = self.slots.get_mut(number as usize)?;
        self.free = slot.next_free;
        if self.free == NIL {
            self.free_last = NIL;
        }
        slot.next_free = IN_USE;
        slot.value = value;
        self.used += 1;
        Some(number)
    }

    /// Gives an occupied slot back; its generation moves on.
    pub(crate) fn release(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        debug_assert_eq!(slot.next_free, IN_USE, "released twice");
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = self.free;
        if self.free == NIL {
            self.free_last = number;
        }
        self.free = number;
        self.used -= 1;
    }

    /// As [`Self::release`], but the slot is used again after all others that are free.
    pub(crate) fn release_last(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        debug_assert_eq!(slot.next_free, IN_USE, "released twice");
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = NIL;
        if self.free == NIL {
            self.free = number;
        } else {
            self.slots[self.free_last as usize].next_free = number;
        }
        self.free_last = number;
        self.used -= 1;
    }

    /// How many slots are on the free list, counted. Bound: the slots.
    pub(crate) fn count_free(&self) -> u32 {
        let (mut count, mut number) = (0, self.free);
        while number != NIL && count <= self.capacity() {
            number = self.slots[number as usize].next_free;
            count += 1;
        }
        count
    }

    /// The generation that an identifier made now would carry.
    pub(crate) fn generation(&self, number: u32) -> u32 {
        self.slots[number as usize].generation
    }

    /// Whether `number` is a slot that is given out at present.
    pub(crate) fn is_used(&self, number: u32) -> bool {
        self.slots.get(number as usize).is_some_and(|slot| slot.next_free == IN_USE)
    }

    /// How many slots are given out.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// How many slots there are.
    pub(crate) fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }
}

impl<T> core::ops::Index<u32> for Slab<'_, T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.slots[number as usize].value
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<'_, T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.slots[number as usize].value
    }
}

/// Neighbours in a [`List`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Links {
    prev: u32,
    next: u32,
}

impl Default for Links {
    fn default() -> Self {
        Self { prev: NIL, next: NIL }
    }
}

/// Slots that can be members of a list, one at a time.
pub(crate) trait Linked {
    /// The links of slot `number`.
    fn links(&mut self, number: u32) -> &mut Links;
}

/// A value with links in it.
pub(crate) trait Link {
    /// This value's links.
    fn link(&mut self) -> &mut Links;
}

impl<T: Link> Linked for Slab<'_, T> {
    fn links(&mut self, number: u32) -> &mut Links {
        self[number].link()
    }
}

/// A first-in, first-out list through slots, with removal from the middle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NIL, tail: NIL }
    }
}

impl List {
    pub(crate) fn is_empty(self) -> bool {
        self.head == NIL
    }

    /// The first member, or [`NIL`].
    pub(crate) fn head(self) -> u32 {
        self.head
    }

    /// The member behind `number`, or [`NIL`].
    pub(crate) fn next(slots: &mut impl Linked, number: u32) -> u32 {
        slots.links(number).next
    }

    pub(crate) fn push_back(&mut self, slots: &mut impl Linked, number: u32) {
        *slots.links(number) = Links { prev: self.tail, next: NIL };
        if self.tail == NIL {
            self.head = number;
        } else {
            slots.links(self.tail).next = number;
        }
        self.tail = number;
    }

    /// Puts `number` before member `before`, or last if `before` is [`NIL`].
    pub(crate) fn insert_before(&mut self, slots: &mut impl Linked, number: u32, before: u32) {
        if before == NIL {
            return self.push_back(slots, number);
        }
        let prev = slots.links(before).prev;
        *slots.links(number) = Links { prev, next: before };
        slots.links(before).prev = number;
        if prev == NIL {
            self.head = number;
        } else {
            slots.links(prev).next = number;
        }
    }

    pub(crate) fn remove(&mut self, slots: &mut impl Linked, number: u32) {
        let Links { prev, next } = core::mem::take(slots.links(number));
        if prev == NIL {
            self.head = next;
        } else {
            slots.links(prev).next = next;
        }
        if next == NIL {
            self.tail = prev;
        } else {
            slots.links(next).prev = prev;
        }
    }

    pub(crate) fn pop_front(&mut self, slots: &mut impl Linked) -> Option<u32> {
        let number = self.head;
        (number != NIL).then(|| {
            self.remove(slots, number);
            number
        })
    }
}

#[cfg(test)]
mod tests;
