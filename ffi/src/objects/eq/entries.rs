// SPDX-License-Identifier: MIT OR Apache-2.0
//! The entries of an event queue, in the order of their arrival.
//!
//! In: entries, each with the object that it reports, if it must not outlive that. Out: the first
//! entry; none of an object that has ended. Called by the event queue under its lock. Every call
//! takes a time of the logarithm of the entries. Bound: the queue admits operations.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// See the module.
#[derive(Debug)]
pub(super) struct EventEntries<T> {
    /// The entries and the `fid`s of their objects, by number of arrival.
    queued: BTreeMap<u64, (Option<usize>, T)>,
    /// Those entries by object.
    by_fid: BTreeSet<(usize, u64)>,
    /// The number of the next entry. 2^64 do not wrap.
    next: u64,
}

impl<T> Default for EventEntries<T> {
    fn default() -> Self {
        Self { queued: BTreeMap::new(), by_fid: BTreeSet::new(), next: 0 }
    }
}

impl<T> EventEntries<T> {
    /// Adds an entry behind the others. It ends with the object `fid`.
    pub(super) fn push(&mut self, fid: Option<usize>, entry: T) {
        let number = self.next;
        self.next += 1;
        self.by_fid.extend(fid.map(|fid| (fid, number)));
        self.queued.insert(number, (fid, entry));
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<&T> {
        self.queued.first_key_value().map(|(_, (_, entry))| entry)
    }

    /// The first entry, to change it.
    pub(super) fn first_mut(&mut self) -> Option<&mut T> {
        self.queued.first_entry().map(|first| &mut first.into_mut().1)
    }

    /// Removes the first entry.
    pub(super) fn pop(&mut self) {
        if let Some((number, (Some(fid), _))) = self.queued.pop_first() {
            self.by_fid.remove(&(fid, number));
        }
    }

    /// Removes the entries of an object.
    pub(super) fn forget(&mut self, fid: usize) {
        // bound: the entries of the object
        while let Some(&one) = self.by_fid.range(numbers_of(fid)).next() {
            self.by_fid.remove(&one);
            self.queued.remove(&one.1);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty()
    }
}

fn numbers_of(fid: usize) -> RangeInclusive<(usize, u64)> {
    (fid, 0)..=(fid, u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(Option<usize>, u8),
        Pop,
        Forget(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let fid = prop_oneof![Just(0), Just(1), Just(usize::MAX)];
        prop_oneof![
            3 => (proptest::option::of(fid.clone()), any::<u8>())
                .prop_map(|(fid, entry)| Step::Push(fid, entry)),
            1 => Just(Step::Pop),
            1 => fid.prop_map(Step::Forget),
        ]
    }

    proptest! {
        /// The model is a list that is searched.
        #[test]
        fn entries_leave_in_order_and_end_with_their_object(
            steps in proptest::collection::vec(step(), 0..64),
        ) {
            let mut entries = EventEntries::default();
            let mut model: Vec<(Option<usize>, u8)> = Vec::new();
            for step in steps {
                match step {
                    Step::Push(fid, entry) => {
                        entries.push(fid, entry);
                        model.push((fid, entry));
                    }
                    Step::Pop => {
                        entries.pop();
                        model.drain(..model.len().min(1));
                    }
                    Step::Forget(fid) => {
                        entries.forget(fid);
                        model.retain(|one| one.0 != Some(fid));
                    }
                }
                prop_assert_eq!(entries.first(), model.first().map(|one| &one.1));
                prop_assert_eq!(entries.len(), model.len());
                prop_assert_eq!(entries.is_empty(), model.is_empty());
                let indexed = model.iter().filter(|one| one.0.is_some()).count();
                prop_assert_eq!(entries.by_fid.len(), indexed, "no entry is left in the index");
            }
        }
    }
}
