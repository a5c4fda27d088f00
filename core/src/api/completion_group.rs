// SPDX-License-Identifier: MIT OR Apache-2.0
//! Groups of peers that have completion queues of their own.
//!
//! In: an index of the caller. Out: the name of a group. Bound: [`GROUPS_MAX`].

use core::ops::{Index, IndexMut};

/// The most groups of an engine.
pub const GROUPS_MAX: usize = 64;

/// A group of peers whose completions are polled apart, by its index.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CompletionGroup(u8);

impl CompletionGroup {
    /// The group with an index below [`GROUPS_MAX`].
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|_| index < GROUPS_MAX).map(Self)
    }

    /// All groups.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..GROUPS_MAX).filter_map(Self::new)
    }
}

/// A value for each group.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct PerGroup<T>(pub(crate) [T; GROUPS_MAX]);

impl<T: Copy + Default> Default for PerGroup<T> {
    fn default() -> Self {
        Self([T::default(); GROUPS_MAX])
    }
}

#[allow(clippy::indexing_slicing, reason = "CompletionGroup::new checks the index")]
impl<T> Index<CompletionGroup> for PerGroup<T> {
    type Output = T;

    fn index(&self, group: CompletionGroup) -> &T {
        &self.0[usize::from(group.0)]
    }
}

#[allow(clippy::indexing_slicing, reason = "CompletionGroup::new checks the index")]
impl<T> IndexMut<CompletionGroup> for PerGroup<T> {
    fn index_mut(&mut self, group: CompletionGroup) -> &mut T {
        &mut self.0[usize::from(group.0)]
    }
}
