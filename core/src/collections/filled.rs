// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slices on the heap, for storage that its owner allocates.

use alloc::boxed::Box;
use alloc::vec::Vec;
use zerocopy::FromZeros;

/// `count` elements, each the default; `None` without memory for them.
pub(crate) fn filled<T: Default>(count: usize) -> Option<Box<[T]>> {
    let mut elements = Vec::new();
    elements.try_reserve_exact(count).ok()?;
    elements.resize_with(count, T::default);
    Some(elements.into_boxed_slice())
}

/// `count` elements of zeros; `None` without memory for them. Memory that the operating system has
/// cleared is not touched.
pub(crate) fn zeroed<T: FromZeros>(count: usize) -> Option<Box<[T]>> {
    <[T]>::new_box_zeroed_with_elems(count).ok()
}
