// SPDX-License-Identifier: MIT OR Apache-2.0
//! Addresses by index, and indices by address.
//!
//! In: addresses. Out: indices; the lowest free one is given out first (`fi_av(3)`, `FI_AV_TABLE`).
//! An address takes 28 bytes, and some 10 in the hash table. Bound: [`ADDRESSES_MAX`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use ofi_xdp_core::PeerAddress;

/// Most addresses in a table.
pub(super) const ADDRESSES_MAX: usize = 1 << 28;

/// One index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) address: PeerAddress,
    /// Number of insertions without a removal; 0: the index is free.
    uses: u32,
    /// Number of earlier addresses at this index.
    pub(super) occupancy: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    indices: HashTable<u32>,
    hasher: RandomState,
    free: BinaryHeap<Reverse<u32>>,
    insertions: u64,
    removals: u64,
}

impl Table {
    /// The entry at an index.
    pub(super) fn get(&self, index: u64) -> Option<&Entry> {
        let entry = self.entries.get(usize::try_from(index).ok()?)?;
        (entry.uses > 0).then_some(entry)
    }

    /// The index behind the last one that was ever in use.
    pub(super) const fn indices(&self) -> usize {
        self.entries.len()
    }

    /// The index of an address.
    pub(super) fn find(&self, address: &PeerAddress) -> Option<u32> {
        let Self { entries, indices, hasher, .. } = self;
        let at = |index: &u32| entries.get(*index as usize).map(|entry| &entry.address);
        indices.find(hasher.hash_one(address), |index| at(index) == Some(address)).copied()
    }

    /// Number of insertions of new addresses.
    pub(super) const fn insertions(&self) -> u64 {
        self.insertions
    }

    /// Number of removals that freed an index.
    pub(super) const fn removals(&self) -> u64 {
        self.removals
    }

    /// Whether [`Self::insert`] would succeed.
    pub(super) fn has_room_for(&self, address: &PeerAddress) -> bool {
        !self.free.is_empty() || self.entries.len() < ADDRESSES_MAX || self.find(address).is_some()
    }

    /// Makes room for one more address; `None` without memory for it.
    pub(super) fn reserve(&mut self) -> Option<()> {
        let Self { entries, indices, hasher, free, .. } = self;
        let rehash = |&index: &u32| {
            entries.get(index as usize).map_or(0, |entry| hasher.hash_one(entry.address))
        };
        indices.try_reserve(1, rehash).ok()?;
        if free.is_empty() { entries.try_reserve(1).ok() } else { Some(()) }
    }

    /// Inserts an address; returns its index: that of the address if it is known, else the lowest
    /// free one. `None` when the table is full, or without memory.
    pub(super) fn insert(&mut self, address: PeerAddress) -> Option<u32> {
        if let Some(index) = self.find(&address) {
            let entry = self.entries.get_mut(index as usize)?;
            entry.uses = entry.uses.saturating_add(1);
            return Some(index);
        }
        self.reserve()?;
        let index = match self.free.pop() {
            Some(Reverse(index)) => index,
            None if self.entries.len() < ADDRESSES_MAX => u32::try_from(self.entries.len()).ok()?,
            None => return None,
        };
        match self.entries.get_mut(index as usize) {
            Some(entry) => {
                let occupancy = entry.occupancy.wrapping_add(1);
                *entry = Entry { address, uses: 1, occupancy };
            }
            None => self.entries.push(Entry { address, uses: 1, occupancy: 0 }),
        }
        let Self { entries, indices, hasher, .. } = self;
        let rehash = |&index: &u32| {
            entries.get(index as usize).map_or(0, |entry| hasher.hash_one(entry.address))
        };
        indices.insert_unique(hasher.hash_one(address), index, rehash);
        self.insertions += 1;
        Some(index)
    }

    /// Removes an address once; `None` if there is none at this index.
    pub(super) fn remove(&mut self, index: u64) -> Option<()> {
        let index = u32::try_from(index).ok()?;
        let entry = self.entries.get_mut(index as usize).filter(|entry| entry.uses > 0)?;
        entry.uses -= 1;
        if entry.uses > 0 {
            return Some(());
        }
        let hash = self.hasher.hash_one(entry.address);
        if let Ok(found) = self.indices.find_entry(hash, |&other| other == index) {
            found.remove();
        }
        // Without memory the index is not given out again: a removal cannot fail.
        if self.free.try_reserve(1).is_ok() {
            self.free.push(Reverse(index));
        }
        self.removals += 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> PeerAddress {
        PeerAddress::from_v4((0x0a00_0000 + (n >> 8)).to_be_bytes(), 7000 + (n & 0xff) as u16)
    }

    #[test]
    fn indices_are_given_in_order_and_freed_lowest_first() {
        let mut table = Table::default();
        for n in 0..100 {
            assert_eq!(table.insert(address(n)), Some(n));
        }
        for n in [50, 7, 70] {
            assert_eq!(table.remove(n), Some(()));
            assert!(table.get(n).is_none());
            assert_eq!(table.remove(n), None);
        }
        for (n, index) in [(200, 7), (201, 50), (202, 70), (203, 100)] {
            assert_eq!(table.insert(address(n)), Some(index));
            assert_eq!(table.find(&address(n)), Some(index));
        }
        assert_eq!(table.find(&address(7)), None);
        assert_eq!(table.get(7).map(|entry| entry.occupancy), Some(1));
    }

    #[test]
    fn an_address_stays_until_it_was_removed_as_often_as_inserted() {
        let mut table = Table::default();
        let changes = |table: &Table| (table.insertions(), table.removals());
        table.insert(address(1));
        assert_eq!(table.insert(address(1)), Some(0));
        assert_eq!(table.remove(0), Some(()));
        assert_eq!(table.find(&address(1)), Some(0));
        assert_eq!(changes(&table), (1, 0));
        assert_eq!(table.remove(0), Some(()));
        assert_eq!(table.find(&address(1)), None);
        assert_eq!(table.remove(0), None);
        assert_eq!(changes(&table), (1, 1));
    }

    #[test]
    fn a_model_agrees() {
        use std::collections::HashMap;
        let (mut table, mut model) = (Table::default(), HashMap::<u32, (u32, u32)>::new());
        let mut random = 1_u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let n = (random >> 33) as u32 % 300;
            if random >> 63 == 0 {
                let index = table.insert(address(n)).unwrap();
                let entry = model.entry(n).or_insert((index, 0));
                assert_eq!(entry.0, index);
                entry.1 += 1;
            } else if let Some(&(index, uses)) = model.get(&n) {
                table.remove(index.into()).unwrap();
                if uses == 1 {
                    model.remove(&n);
                } else {
                    model.insert(n, (index, uses - 1));
                }
            }
            assert_eq!(table.find(&address(n)), model.get(&n).map(|it| it.0));
        }
    }
}
