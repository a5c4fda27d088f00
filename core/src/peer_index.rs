// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a peer's address to its slot: an open-addressing hash table in borrowed storage.
//!
//! Only handshakes, resets and the application's insertions search by address; data packets name
//! the slot themselves. At most half full, so a search ends after a few steps. Keys are not stored:
//! the caller says which address a slot has.

#![allow(clippy::indexing_slicing, reason = "indices are masked to the table's length")]

use crate::PeerAddress;
use crate::rng::mix_all;
use crate::slab::NIL;

/// The table. Its length is a power of two, and at least twice the number of slots.
#[derive(Debug)]
pub(crate) struct PeerIndex<'s> {
    table: &'s mut [u32],
    /// Keeps others from choosing addresses that collide.
    seed: u64,
}

impl<'s> PeerIndex<'s> {
    pub(crate) fn new(table: &'s mut [u32], seed: u64) -> Self {
        table.fill(NIL);
        Self { table, seed }
    }

    /// The slot whose address is `address`.
    pub(crate) fn find(
        &self,
        address: &PeerAddress,
        address_of: impl Fn(u32) -> PeerAddress,
    ) -> Option<u32> {
        let mut at = self.home(address);
        // bound: the table is never full
        while self.table[at] != NIL {
            if address_of(self.table[at]) == *address {
                return Some(self.table[at]);
            }
            at = self.after(at);
        }
        None
    }

    /// Adds `slot`, whose address is `address` and is not in the table.
    pub(crate) fn insert(&mut self, address: &PeerAddress, slot: u32) {
        let mut at = self.home(address);
        // bound: the table is never full
        while self.table[at] != NIL {
            at = self.after(at);
        }
        self.table[at] = slot;
    }

    /// Removes `slot`, whose address is `address`, and closes the gap (Knuth, TAOCP vol. 3,
    /// algorithm 6.4R).
    pub(crate) fn remove(
        &mut self,
        address: &PeerAddress,
        slot: u32,
        address_of: impl Fn(u32) -> PeerAddress,
    ) {
        let mut gap = self.home(address);
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
            let home = self.home(&address_of(self.table[at]));
            // Whether the entry may move to the gap: its home is not in the stretch (gap, at].
            if at.wrapping_sub(home) & self.mask() >= at.wrapping_sub(gap) & self.mask() {
                self.table[gap] = self.table[at];
                gap = at;
            }
            at = self.after(at);
        }
        self.table[gap] = NIL;
    }

    fn home(&self, address: &PeerAddress) -> usize {
        let [high, low] = zerocopy::transmute!(address.octets());
        let hash: u64 = mix_all(self.seed, &[high, low, u64::from(address.port())]);
        hash as usize & self.mask()
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
            let mut index = PeerIndex::new(&mut table, seed);
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
