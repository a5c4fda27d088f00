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

/// The slots of one class: which they are, and the free ones among them.
#[derive(Clone, Copy, Debug, Hash)]
struct Class {
    start: u32,
    end: u32,
    /// The first and the last of the free slots.
    free: u32,
    free_last: u32,
    used: u32,
}

/// Slots that are given out and taken back. They are divided in classes with a fixed number of
/// slots each, so that one use cannot take another one's; most slabs have one.
#[derive(Debug, Hash)]
pub(crate) struct Slab<'s, T, const N: usize = 1> {
    slots: &'s mut [Slot<T>],
    classes: [Class; N],
}

impl<'s, T> Slab<'s, T> {
    /// All of `slots`, free. At most 2^24 of them.
    pub(crate) fn new(slots: &'s mut [Slot<T>]) -> Self {
        let count = slots.len() as u32;
        let class = chain(slots, 0, count);
        Self { slots, classes: [class] }
    }

    /// Takes a free slot and puts `value` in it.
    #[inline]
    pub(crate) fn alloc(&mut self, value: T) -> Option<u32> {
        self.alloc_in(0, value)
    }

    /// The slot that [`Self::alloc`] would give out, with what was last in it.
    pub(crate) fn next_free(&self) -> Option<&T> {
        self.slots.get(self.classes[0].free as usize).map(|slot| &slot.value)
    }

    /// How many slots are given out.
    pub(crate) fn used(&self) -> u32 {
        self.classes[0].used
    }

    /// How many slots there are.
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

impl<'s, T, const N: usize> Slab<'s, T, N> {
    /// `slots` divided in classes of `counts`; `None` if there are not as many as that says.
    pub(crate) fn with_classes(slots: &'s mut [Slot<T>], counts: [u32; N]) -> Option<Self> {
        let mut start = 0;
        let classes = counts.map(|count| {
            let end = start + count;
            let range = start as usize..end as usize;
            let class = chain(slots.get_mut(range).unwrap_or_default(), start, end);
            start = end;
            class
        });
        (start as usize == slots.len()).then_some(Self { slots, classes })
    }

    /// Takes a free slot of a class and puts `value` in it.
    #[inline]
    pub(crate) fn alloc_in(&mut self, class: usize, value: T) -> Option<u32> {
        Some(self.alloc_entry(class, value)?.0)
    }

    /// The same; returns the generation, too.
    #[inline]
    pub(crate) fn alloc_entry(&mut self, class: usize, value: T) -> Option<(u32, u32)> {
        let class = &mut self.classes[class];
        let number = class.free;
        let slot = self.slots.get_mut(number as usize)?;
        class.free = slot.next_free;
        class.used += 1;
        slot.next_free = IN_USE;
        slot.value = value;
        Some((number, slot.generation))
    }

    /// Gives an occupied slot back; its generation moves on.
    #[inline]
    pub(crate) fn release(&mut self, number: u32) {
        self.release_in(self.class_of(number), number);
    }

    /// As [`Self::release`], of a slot that is known to be in `class`.
    #[inline]
    pub(crate) fn release_in(&mut self, class: usize, number: u32) {
        debug_assert_eq!(class, self.class_of(number));
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

    /// As [`Self::release`], but the slot is used again after all others of its class that are
    /// free.
    pub(crate) fn release_last(&mut self, number: u32) {
        let class = self.class_of(number);
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

    /// The class that a slot belongs to. Bound: the classes.
    #[inline]
    pub(crate) fn class_of(&self, number: u32) -> usize {
        let [classes @ .., _] = &self.classes[..] else { return 0 };
        classes.iter().map(|class| usize::from(number >= class.end)).sum()
    }

    /// The generation that an identifier made now would carry.
    #[inline]
    pub(crate) fn generation(&self, number: u32) -> u32 {
        self.slots[number as usize].generation
    }

    /// The value in a slot, and the generation of an identifier made now.
    #[inline]
    pub(crate) fn entry(&mut self, number: u32) -> (&mut T, u32) {
        let slot = &mut self.slots[number as usize];
        (&mut slot.value, slot.generation)
    }

    /// Whether `number` is a slot that is given out at present.
    #[inline]
    pub(crate) fn is_used(&self, number: u32) -> bool {
        self.slots.get(number as usize).is_some_and(|slot| slot.next_free == IN_USE)
    }

    /// How many slots of a class are given out.
    pub(crate) fn used_in(&self, class: usize) -> u32 {
        self.classes[class].used
    }

    /// Whether a slot of a class is free.
    #[inline]
    pub(crate) fn has_free(&self, class: usize) -> bool {
        self.classes[class].free != NIL
    }

    /// How many slots of a class are free.
    #[inline]
    pub(crate) fn free_in(&self, class: usize) -> u32 {
        let Class { start, end, used, .. } = self.classes[class];
        end - start - used
    }

    /// How many slots are given out, in all classes.
    pub(crate) fn used_in_all(&self) -> u32 {
        self.classes.iter().map(|class| class.used).sum()
    }

    /// Whether free and used slots of every class add up. Bound: the slots.
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

impl<T, const N: usize> core::ops::Index<u32> for Slab<'_, T, N> {
    type Output = T;

    #[inline]
    fn index(&self, number: u32) -> &T {
        &self.slots[number as usize].value
    }
}

impl<T, const N: usize> core::ops::IndexMut<u32> for Slab<'_, T, N> {
    #[inline]
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

impl Links {
    /// The member behind this one, or [`NIL`].
    pub(crate) const fn next(self) -> u32 {
        self.next
    }
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

impl<T: Link, const N: usize> Linked for Slab<'_, T, N> {
    #[inline]
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

    /// The last member, or [`NIL`].
    pub(crate) fn tail(self) -> u32 {
        self.tail
    }

    /// The member before `number`, or [`NIL`].
    pub(crate) fn prev(slots: &mut impl Linked, number: u32) -> u32 {
        slots.links(number).prev
    }

    /// The member behind `number`, or [`NIL`].
    pub(crate) fn next(slots: &mut impl Linked, number: u32) -> u32 {
        slots.links(number).next
    }

    #[inline]
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

    #[inline]
    pub(crate) fn remove(&mut self, slots: &mut impl Linked, number: u32) {
        let Links { prev, next } = core::mem::take(slots.links(number));
        self.close_gap(slots, prev, next);
    }

    /// What was between `prev` and `next` is gone.
    #[inline]
    fn close_gap(&mut self, slots: &mut impl Linked, prev: u32, next: u32) {
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

    #[inline]
    pub(crate) fn pop_front(&mut self, slots: &mut impl Linked) -> Option<u32> {
        let number = self.head;
        if number == NIL {
            return None;
        }
        self.head = core::mem::take(slots.links(number)).next;
        if self.head == NIL {
            self.tail = NIL;
        } else {
            slots.links(self.head).prev = NIL;
        }
        Some(number)
    }

    /// Moves the members from `first` to `last`, which follow each other, to the end of `to`: as if
    /// each had been removed here and put there, one after the other.
    #[inline]
    pub(crate) fn move_run(
        &mut self,
        slots: &mut impl Linked,
        (first, last): (u32, u32),
        to: &mut Self,
    ) {
        let prev = core::mem::replace(&mut slots.links(first).prev, to.tail);
        let next = core::mem::replace(&mut slots.links(last).next, NIL);
        self.close_gap(slots, prev, next);
        if to.tail == NIL {
            to.head = first;
        } else {
            slots.links(to.tail).next = first;
        }
        to.tail = last;
    }
}

#[cfg(test)]
mod tests;
