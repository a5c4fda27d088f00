// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage of a slab. Its elements begin one after the other.
//!
//! In: room for a number of elements, with or without elements in it. Out: the elements that have
//! begun, as a slice. Caller: [`super::slab::Slab`]. Bound: the room; nothing allocates after
//! [`Slots::with_room`]. An endpoint that uses few slots of a large table so touches little memory.

#[cfg(feature = "alloc")]
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// The elements that have begun, and room for more. With the feature `alloc` the room is memory of
/// the heap that nothing has touched; without it, it is a slice of elements.
#[derive(Debug, Hash)]
pub(crate) struct Slots<'s, T> {
    #[cfg(feature = "alloc")]
    begun: Vec<T>,
    #[cfg(feature = "alloc")]
    room: usize,
    #[cfg(not(feature = "alloc"))]
    begun: usize,
    #[cfg(not(feature = "alloc"))]
    all: &'s mut [T],
    lifetime: PhantomData<&'s mut [T]>,
}

#[cfg(feature = "alloc")]
impl<T> Slots<'_, T> {
    /// Room for `count` elements, none of which has begun; `None` without memory for them.
    pub(crate) fn with_room(count: usize) -> Option<Self> {
        let mut begun = Vec::new();
        begun.try_reserve_exact(count).ok()?;
        Some(Self { begun, room: count, lifetime: PhantomData })
    }

    /// Takes the elements and the room out.
    pub(crate) fn take<'a>(&mut self) -> Slots<'a, T> {
        let begun = core::mem::take(&mut self.begun);
        let room = core::mem::take(&mut self.room);
        Slots { begun, room, lifetime: PhantomData }
    }

    /// The number of elements that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.room
    }
}

#[cfg(not(feature = "alloc"))]
impl<T> Slots<'_, T> {
    /// The number of elements that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.all.len()
    }
}

impl<T: Default> Slots<'_, T> {
    /// Begins elements until there are `count`, at most as many as there is room for.
    pub(crate) fn begin(&mut self, count: usize) {
        let count = count.min(self.room());
        #[cfg(feature = "alloc")]
        if count > self.begun.len() {
            self.begun.resize_with(count, T::default);
        }
        #[cfg(not(feature = "alloc"))]
        {
            self.begun = self.begun.max(count);
        }
    }

    /// Begins all elements.
    pub(crate) fn begin_all(mut self) -> Self {
        self.begin(self.room());
        self
    }
}

impl<T> Deref for Slots<'_, T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        #[cfg(feature = "alloc")]
        return &self.begun;
        #[cfg(not(feature = "alloc"))]
        self.all.get(..self.begun).unwrap_or_default()
    }
}

impl<T> DerefMut for Slots<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        #[cfg(feature = "alloc")]
        return &mut self.begun;
        #[cfg(not(feature = "alloc"))]
        self.all.get_mut(..self.begun).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_begin_in_the_room_and_nothing_moves() {
        let mut slots = Slots::<u64>::with_room(4).unwrap();
        assert_eq!((slots.len(), slots.room()), (0, 4));
        slots.begin(2);
        let first = core::ptr::from_ref(&slots[0]);
        slots.begin(1);
        assert_eq!(slots.len(), 2);
        slots.begin(9);
        assert_eq!(slots.len(), 4, "no more than the room");
        assert_eq!(core::ptr::from_ref(&slots[0]), first);
        assert_eq!(Slots::<u64>::with_room(3).unwrap().begin_all().len(), 3);
    }

    #[test]
    fn room_that_is_not_to_be_had_is_refused() {
        assert!(Slots::<u64>::with_room(usize::MAX / 16).is_none());
    }
}
