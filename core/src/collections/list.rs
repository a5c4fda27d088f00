// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doubly linked lists threaded through the slots of a [`Slab`]. All operations are O(1).

use super::slab::{Slab, SlotIndex};

/// Neighbours in a [`List`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Links<I> {
    prev: I,
    next: I,
}

impl<I: SlotIndex> Links<I> {
    /// The member behind this one, or [`SlotIndex::NONE`].
    #[inline]
    pub(crate) fn next(self) -> I {
        self.next
    }
}

impl<I: SlotIndex> Default for Links<I> {
    fn default() -> Self {
        Self { prev: I::NONE, next: I::NONE }
    }
}

/// Slots that can be members of a list, one at a time.
pub(crate) trait Linked<I> {
    /// The links of `slot`.
    fn links(&mut self, slot: I) -> &mut Links<I>;
}

/// A value with links in it.
pub(crate) trait Link<I> {
    /// This value's links.
    fn link(&mut self) -> &mut Links<I>;
}

impl<T: Link<I>, I: SlotIndex, const N: usize> Linked<I> for Slab<'_, T, I, N> {
    #[inline]
    fn links(&mut self, slot: I) -> &mut Links<I> {
        self[slot].link()
    }
}

/// A first-in, first-out list through slots, with removal from the middle.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct List<I> {
    head: I,
    tail: I,
}

impl<I: SlotIndex> Default for List<I> {
    fn default() -> Self {
        Self { head: I::NONE, tail: I::NONE }
    }
}

impl<I: SlotIndex> List<I> {
    pub(crate) fn is_empty(self) -> bool {
        self.head.is_none()
    }

    /// The first member, or [`SlotIndex::NONE`].
    pub(crate) fn head(self) -> I {
        self.head
    }

    /// The last member, or [`SlotIndex::NONE`].
    pub(crate) fn tail(self) -> I {
        self.tail
    }

    /// The member before `slot`, or [`SlotIndex::NONE`].
    pub(crate) fn prev(slots: &mut impl Linked<I>, slot: I) -> I {
        slots.links(slot).prev
    }

    /// The member behind `slot`, or [`SlotIndex::NONE`].
    pub(crate) fn next(slots: &mut impl Linked<I>, slot: I) -> I {
        slots.links(slot).next
    }

    /// Whether `is` holds for a member. Bound: the members.
    pub(crate) fn any<S: Linked<I>>(self, slots: &mut S, is: impl Fn(&mut S, I) -> bool) -> bool {
        let mut slot = self.head;
        while slot.is_some() {
            if is(slots, slot) {
                return true;
            }
            slot = slots.links(slot).next;
        }
        false
    }

    /// Calls `each` for every member, in order. Bound: the members.
    pub(crate) fn for_each<S: Linked<I>>(self, slots: &mut S, mut each: impl FnMut(&mut S, I)) {
        let mut slot = self.head;
        while slot.is_some() {
            let next = slots.links(slot).next;
            each(slots, slot);
            slot = next;
        }
    }

    /// The links of a member behind the last one, for [`Self::push_linked`].
    #[inline(always)]
    pub(crate) fn links_behind(self) -> Links<I> {
        Links { prev: self.tail, next: I::NONE }
    }

    /// Puts `slot` last, which has the links that [`Self::links_behind`] gave.
    #[inline(always)]
    pub(crate) fn push_linked(&mut self, slots: &mut impl Linked<I>, slot: I) {
        if self.tail.is_none() {
            self.head = slot;
        } else {
            slots.links(self.tail).next = slot;
        }
        self.tail = slot;
    }

    #[inline(always)]
    pub(crate) fn push_back(&mut self, slots: &mut impl Linked<I>, slot: I) {
        *slots.links(slot) = self.links_behind();
        self.push_linked(slots, slot);
    }

    /// Puts `slot` before member `before`, or last if `before` is [`SlotIndex::NONE`].
    pub(crate) fn insert_before(&mut self, slots: &mut impl Linked<I>, slot: I, before: I) {
        if before.is_none() {
            return self.push_back(slots, slot);
        }
        let prev = slots.links(before).prev;
        *slots.links(slot) = Links { prev, next: before };
        slots.links(before).prev = slot;
        if prev.is_none() {
            self.head = slot;
        } else {
            slots.links(prev).next = slot;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, slots: &mut impl Linked<I>, slot: I) {
        let links = core::mem::take(slots.links(slot));
        self.remove_linked(slots, links);
    }

    /// Removes a member that had these `links`, and has them no longer.
    #[inline]
    pub(crate) fn remove_linked(
        &mut self,
        slots: &mut impl Linked<I>,
        Links { prev, next }: Links<I>,
    ) {
        self.close_gap(slots, prev, next);
    }

    /// Links `prev` and `next` to each other, after the members between them were removed.
    #[inline]
    fn close_gap(&mut self, slots: &mut impl Linked<I>, prev: I, next: I) {
        if prev.is_none() {
            self.head = next;
        } else {
            slots.links(prev).next = next;
        }
        if next.is_none() {
            self.tail = prev;
        } else {
            slots.links(next).prev = prev;
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self, slots: &mut impl Linked<I>) -> Option<I> {
        let slot = self.head;
        if slot.is_none() {
            return None;
        }
        self.head = core::mem::take(slots.links(slot)).next;
        if self.head.is_none() {
            self.tail = I::NONE;
        } else {
            slots.links(self.head).prev = I::NONE;
        }
        Some(slot)
    }

    /// Moves all members to the end of `to`, in their order.
    pub(crate) fn move_all(&mut self, slots: &mut impl Linked<I>, to: &mut Self) {
        if !self.is_empty() {
            self.move_run(slots, (self.head, self.tail), to);
        }
    }

    /// Moves the consecutive members from `first` to `last` to the end of `to`, in their order.
    #[inline]
    pub(crate) fn move_run(
        &mut self,
        slots: &mut impl Linked<I>,
        (first, last): (I, I),
        to: &mut Self,
    ) {
        let prev = core::mem::replace(&mut slots.links(first).prev, to.tail);
        let next = core::mem::replace(&mut slots.links(last).next, I::NONE);
        self.close_gap(slots, prev, next);
        if to.tail.is_none() {
            to.head = first;
        } else {
            slots.links(to.tail).next = first;
        }
        to.tail = last;
    }
}
