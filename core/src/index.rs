// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the outside calls a thing to its slot: an open-addressing hash table in borrowed
//! storage. A peer is called by its address, a memory region by its key.
//!
//! Peers are searched by handshakes, resets and the application's insertions only (data packets
//! name the slot themselves); regions by every record that names one. At most half full, so a
//! search ends after a few steps. Keys are not stored: the caller says which key a slot has.

#![allow(clippy::indexing_slicing, reason = "indices are masked to the table's length")]

use core::marker::PhantomData;

use crate::PeerAddress;
use crate::rng::{mix, mix_all};
use crate::slab::NIL;

/// What a slot is found by.
pub(crate) trait Key: Copy + PartialEq {
    /// A number of which all bits depend on all of the key and of `seed`.
    fn hash(&self, seed: u64) -> u64;
}

impl Key for PeerAddress {
    fn hash(&self, seed: u64) -> u64 {
        let [high, low] = zerocopy::transmute!(self.octets());
        mix_all(seed, &[high, low, u64::from(self.port())])
    }
}

impl Key for u64 {
    fn hash(&self, seed: u64) -> u64 {
        mix(seed ^ self)
    }
}

/// The table. Its length is a power of two, and at least twice the number of slots.
#[derive(Debug)]
pub(crate) struct Index<'s, K> {
    table: &'s mut [u32],
    /// Keeps others from choosing keys that collide.
    seed: u64,
    key: PhantomData<K>,
}

impl<'s, K: Key> Index<'s, K> {
    pub(crate) fn new(table: &'s mut [u32], seed: u64) -> Self {
        table.fill(NIL);
        Self { table, seed, key: PhantomData }
    }

    /// The slot whose key is `key`.
    #[inline]
    pub(crate) fn find(&self, key: &K, key_of: impl Fn(u32) -> K) -> Option<u32> {
        let mut at = self.home(key);
        // bound: the table is never full
        while self.table[at] != NIL {
            if key_of(self.table[at]) == *key {
                return Some(self.table[at]);
            }
            at = self.after(at);
        }
        None
    }

    /// Adds `slot`, whose key is `key` and is not in the table.
    pub(crate) fn insert(&mut self, key: &K, slot: u32) {
        let mut at = self.home(key);
        // bound: the table is never full
        while self.table[at] != NIL {
            at = self.after(at);
        }
        self.table[at] = slot;
    }

    /// Removes `slot`, whose key is `key`, and closes the gap (Knuth, TAOCP vol. 3, algorithm
    /// 6.4R).
    pub(crate) fn remove(&mut self, key: &K, slot: u32, key_of: impl Fn(u32) -> K) {
        let mut gap = self.home(key);
        // bound: the table is never full
        while self.table[gap] != slot {
            if self.table[gap] == NIL {
                return;
            }
            gap = self.after(gap);
        }
        let mut at = self.after(gap);
        // bound: as above
        while self.table[at] != NIL {
            let home = self.home(&key_of(self.table[at]));
            // Whether the entry may move to the gap: its home is not in the stretch (gap, at].
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(gap) & self.mask() {
                self.table[gap] = self.table[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.table[gap] = NIL;
    }

    fn home(&self, key: &K) -> usize {
        key.hash(self.seed) as usize & self.mask()
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
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn index_is_a_map(
            seed: u64,
            steps in prop::collection::vec((any::<bool>(), 0u8..12), 0..80),
        ) {
            let mut table = [0; 16];
            let mut index = Index::new(&mut table, seed);
            let address = |n: u32| PeerAddress::from_v4([198, 18, 0, n as u8], 1000);
            let mut model = BTreeMap::new();
            for (insert, n) in steps {
                let n = u32::from(n);
                if insert && model.len() < 8 && !model.contains_key(&n) {
                    index.insert(&address(n), n);
                    model.insert(n, ());
                } else if !insert && model.remove(&n).is_some() {
                    index.remove(&address(n), n, address);
                }
                for n in 0..12 {
                    let expected = model.contains_key(&n).then_some(n);
                    prop_assert_eq!(index.find(&address(n), address), expected);
                }
            }
        }
    }
}
