// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open-addressing hash table from a key to a slot, in borrowed storage. Keys are those of
//! peers, and of memory regions.
//!
//! Handshakes, resets and insertions by the application look peers up (data packets name the slot
//! themselves). Each record that names a region looks it up. The table is at most half full, so
//! that a search ends after a few steps. It stores no keys: the caller gives the key of a slot.

#![allow(clippy::indexing_slicing, reason = "indices are masked to the table's length")]

use core::marker::PhantomData;

use super::mix::mix;
use super::slab::SlotIndex;

/// An entry without a slot; other entries are the number of a slot, and one. So a table of zeros is
/// empty, and memory that the operating system has cleared needs no write.
const EMPTY: u32 = 0;

/// A key of the table.
pub(crate) trait IndexKey: Copy + PartialEq {
    /// A hash value in which each bit depends on all of the key and of `secret`.
    fn hash(&self, secret: [u64; 2]) -> u64;
}

/// The key of a region: its owner chooses it, and peers only look it up.
impl IndexKey for u64 {
    #[inline]
    fn hash(&self, [secret, _]: [u64; 2]) -> u64 {
        mix(secret ^ self)
    }
}

/// The table. Its length is a power of two, and at least twice the number of slots.
#[derive(Debug)]
pub(crate) struct Index<'s, K, I> {
    table: &'s mut [u32],
    /// Secret, so that others cannot choose keys that collide.
    secret: [u64; 2],
    key: PhantomData<(K, I)>,
}

impl<'s, K: IndexKey, I: SlotIndex> Index<'s, K, I> {
    /// An empty index in a `table` of zeros.
    pub(crate) fn new(table: &'s mut [u32], secret: [u64; 2]) -> Self {
        Self { table, secret, key: PhantomData }
    }

    /// The slot with the key `key`.
    #[inline]
    pub(crate) fn find(&self, key: &K, key_of: impl Fn(I) -> K) -> Option<I> {
        let mut at = self.home(key);
        // bound: the table is never full
        while self.table[at] != EMPTY {
            let slot = Self::slot(self.table[at]);
            if key_of(slot) == *key {
                return Some(slot);
            }
            at = self.after(at);
        }
        None
    }

    /// Adds `slot` under `key`, which is not in the table.
    pub(crate) fn insert(&mut self, key: &K, slot: I) {
        let mut at = self.home(key);
        // bound: the table is never full
        while self.table[at] != EMPTY {
            at = self.after(at);
        }
        self.table[at] = slot.number() + 1;
    }

    /// Removes `slot`, which has the key `key`, and closes the gap (Knuth, TAOCP vol. 3, algorithm
    /// 6.4R).
    pub(crate) fn remove(&mut self, key: &K, slot: I, key_of: impl Fn(I) -> K) {
        let mut gap = self.home(key);
        // bound: the table is never full
        while self.table[gap] != slot.number() + 1 {
            if self.table[gap] == EMPTY {
                return;
            }
            gap = self.after(gap);
        }
        let mut at = self.after(gap);
        // bound: the table is never full
        while self.table[at] != EMPTY {
            let home = self.home(&key_of(Self::slot(self.table[at])));
            // Whether the entry may move to the gap: its home is not in the range (gap, at].
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(gap) & self.mask() {
                self.table[gap] = self.table[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.table[gap] = EMPTY;
    }

    /// The slot of an entry that has one.
    fn slot(entry: u32) -> I {
        I::from_number(entry.wrapping_sub(1))
    }

    fn home(&self, key: &K) -> usize {
        key.hash(self.secret) as usize & self.mask()
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & self.mask()
    }

    fn mask(&self) -> usize {
        self.table.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeerAddress;
    use crate::peer::slots::PeerSlot;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn index_is_a_map(
            secret: [u64; 2],
            steps in prop::collection::vec((any::<bool>(), 0u8..12), 0..80),
        ) {
            let mut table = [0; 16];
            let mut index = Index::new(&mut table, secret);
            let address =
                |slot: PeerSlot| PeerAddress::from_v4([198, 18, 0, slot.number() as u8], 1000);
            let mut model = BTreeMap::new();
            for (insert, n) in steps {
                let n = PeerSlot::from_number(n.into());
                if insert && model.len() < 8 && !model.contains_key(&n) {
                    index.insert(&address(n), n);
                    model.insert(n, ());
                } else if !insert && model.remove(&n).is_some() {
                    index.remove(&address(n), n, address);
                }
                for n in (0..12).map(PeerSlot::from_number) {
                    let expected = model.contains_key(&n).then_some(n);
                    prop_assert_eq!(index.find(&address(n), address), expected);
                }
            }
        }
    }
}
