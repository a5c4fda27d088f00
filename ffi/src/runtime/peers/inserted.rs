// SPDX-License-Identifier: MIT OR Apache-2.0
//! The addresses that were inserted into a vector since a runtime last looked.
//!
//! In: the vector's counters. Out: indices to look at; no new one is left out. Caller:
//! [`PeerMap`](super::PeerMap). Bound: as many indices a call as the caller says.

use std::ops::Range;

use crate::runtime::addresses::AddressTable;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct InsertedAddresses {
    /// The vector's insertions, and the index behind the last one, at the last change.
    insertions: u64,
    end: usize,
    /// The index that comes next.
    next: usize,
}

impl InsertedAddresses {
    /// Whether the last [`Self::take`] had room for all indices.
    pub(super) const fn is_empty(&self) -> bool {
        self.next == self.end
    }

    /// The next indices to look at, `most` at the most. All indices come again after an insertion
    /// at one that had been free.
    pub(super) fn take(&mut self, av: &AddressTable, most: usize) -> Range<usize> {
        let (insertions, end) = av.growth();
        let added = insertions.wrapping_sub(self.insertions);
        if added != end.wrapping_sub(self.end) as u64 {
            self.next = 0;
        }
        (self.insertions, self.end) = (insertions, end);
        let first = self.next;
        self.next = end.min(first.saturating_add(most));
        first..self.next
    }

    /// Lets the next [`Self::take`] begin with `index`, which the last one has given.
    pub(super) const fn put_back(&mut self, index: usize) {
        self.next = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn every_new_address_comes_in_bounded_steps() {
        let (av, mut inserted) = (AddressTable::new(0), InsertedAddresses::default());
        let insert = |port: u16| av.insert(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        (1..=5).for_each(|port| assert_eq!(insert(port), u64::from(port) - 1));
        assert_eq!(inserted.take(&av, 3), 0..3);
        assert!(!inserted.is_empty());
        assert_eq!(insert(6), 5);
        assert_eq!(inserted.take(&av, 3), 3..6);
        assert!(inserted.is_empty());
        // A removal brings no new address; an insertion at its index does.
        av.remove(1).unwrap();
        assert_eq!(inserted.take(&av, 3), 6..6);
        assert_eq!(insert(7), 1);
        assert_eq!(inserted.take(&av, usize::MAX), 0..6);
        assert!(inserted.is_empty());
    }
}
