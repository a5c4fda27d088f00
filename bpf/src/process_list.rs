// SPDX-License-Identifier: MIT OR Apache-2.0
//! A list of the process, which the child of a fork can lock, whatever the parent's threads did.
//!
//! A fork copies a locked lock, but not the thread that would unlock it. The child then has a new
//! list. No lock is taken before the fork: handlers of the application, which run between, may wait
//! for a thread that waits for the list. In: entries. Out: the list of this process. Callers: the
//! list of programs (`attached.rs`), and those of the crates above. Bound: one more list for each
//! fork of forks that met a locked one.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// The list. Its entries are consistent at all times, so a panic does not matter.
#[derive(Debug)]
pub struct ProcessList<T> {
    entries: Mutex<Vec<T>>,
    /// The list that takes its place in the child of a fork.
    successor: OnceLock<Box<Self>>,
}

impl<T> ProcessList<T> {
    /// An empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Mutex::new(Vec::new()), successor: OnceLock::new() }
    }

    fn present(&self) -> &Self {
        let mut present = self;
        // bound: see the module
        while let Some(successor) = present.successor.get() {
            present = successor;
        }
        present
    }

    /// The entries.
    pub fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.present().entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes sure that the list can be locked, and returns the entries of the parent; `None` if a
    /// thread of the parent was changing them. Called in the child of a fork, before any other code
    /// there.
    pub fn unlock_in_child(&self) -> Option<MutexGuard<'_, Vec<T>>> {
        let present = self.present();
        match present.entries.try_lock() {
            Ok(entries) => Some(entries),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                present.successor.get_or_init(Box::default);
                None
            }
        }
    }
}

impl<T> Default for ProcessList<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_locked_at_the_fork_has_a_successor_in_the_child() {
        let list = ProcessList::new();
        list.lock().push(1);
        assert_eq!(list.unlock_in_child().as_deref(), Some(&vec![1]), "no thread was changing it");
        assert_eq!(*list.lock(), [1]);
        // Two forks, one of the other, each at such a moment.
        for number in 2..4 {
            let present = list.present();
            let _parent = present.entries.lock().unwrap();
            assert!(list.unlock_in_child().is_none());
            list.lock().push(number);
            assert_eq!(*list.lock(), [number]);
        }
    }
}
