// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hash bins: chains through slots, one for each hash value (separate chaining: Knuth, TAOCP vol.
//! 3, §6.4). A search by key is O(1) on average.
//!
//! A chain keeps the order of its insertions, and holds every slot of its hash value: the caller
//! compares keys. In: a hash that depends on a secret, so that peers cannot aim at one chain.
//! Bound: the chains, which the caller lends; a search is linear in its chain.

#![allow(clippy::indexing_slicing, reason = "bin numbers are masked to the length")]

use super::list::List;
use super::slab::SlotIndex;

/// Chains by hash value. Their number is a power of two.
#[derive(Debug)]
pub(crate) struct Bins<'s, I> {
    chains: &'s mut [List<I>],
}

impl<'s, I: SlotIndex> Bins<'s, I> {
    /// Empty chains.
    pub(crate) fn new(chains: &'s mut [List<I>]) -> Self {
        debug_assert!(chains.len().is_power_of_two());
        chains.fill(List::default());
        Self { chains }
    }

    /// Divides `chains` in `N` tables of one length.
    pub(crate) fn tables<const N: usize>(chains: &'s mut [List<I>]) -> [Self; N] {
        let each = chains.len() / N;
        let mut rest = chains;
        core::array::from_fn(|_| {
            let (one, others) = core::mem::take(&mut rest).split_at_mut(each);
            rest = others;
            Self::new(one)
        })
    }

    /// The chain of a hash value.
    #[inline]
    pub(crate) fn chain(&mut self, hash: u64) -> &mut List<I> {
        let bin = hash as usize & (self.chains.len() - 1);
        &mut self.chains[bin]
    }

    /// Forgets all members.
    pub(crate) fn clear(&mut self) {
        self.chains.fill(List::default());
    }
}
