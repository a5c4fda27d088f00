// SPDX-License-Identifier: MIT OR Apache-2.0
//! The program on an interface, and the list of those that this process holds.
//!
//! To find a program by its id takes `CAP_SYS_ADMIN`, and to attach one does not: so a process
//! remembers what it attached or joined, for its next endpoint. `redirect.rs` enters programs and
//! asks. Bound: one entry for each program that the process holds, and one for each thread that is
//! about to.

use std::os::fd::OwnedFd;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::maps::Maps;
use crate::redirect::AttachMode;

/// The program, attached as long as this or another process's lives.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) mode: AttachMode,
    pub(crate) maps: Maps,
    pub(crate) link: OwnedFd,
    /// Fields are dropped in this order: who finds our program on the interface finds the entry.
    _entry: Entry,
}

/// The process, for a fork has its parent's list, and the id of the program, which the kernel gives
/// to no other one as long as somebody has it.
type Key = (u32, u32);

static HELD: Mutex<Vec<(Key, Weak<Attached>)>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<(Key, Weak<Attached>)>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The place of a program in the list; emptied on drop.
#[derive(Debug)]
pub(crate) struct Entry(Key);

impl Entry {
    /// Enters `program`, which this process is about to attach or to join.
    pub(crate) fn new(program: u32) -> Self {
        let key = (process::id(), program);
        held().push((key, Weak::new()));
        Self(key)
    }

    /// The program is attached by `link`, which is ours to hold.
    pub(crate) fn hold(self, mode: AttachMode, maps: Maps, link: OwnedFd) -> Arc<Attached> {
        let key = self.0;
        let attached = Arc::new(Attached { mode, maps, link, _entry: self });
        if let Some((_, place)) = held().iter_mut().find(|(other, _)| *other == key) {
            *place = Arc::downgrade(&attached);
        }
        attached
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        held().retain(|(key, _)| *key != self.0);
    }
}

/// What this process has of `program`, if that is entered; nothing that lives while another thread
/// is about to have it, or lets it go.
pub(crate) fn find(program: u32) -> Option<Weak<Attached>> {
    find_of((process::id(), program))
}

fn find_of(key: Key) -> Option<Weak<Attached>> {
    held().iter().find(|(other, _)| *other == key).map(|(_, place)| Weak::clone(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_of_one_process() {
        let entry = Entry::new(7);
        assert!(find(7).is_some_and(|place| place.upgrade().is_none()), "not attached yet");
        assert!(find(8).is_none());
        assert!(find_of((process::id() + 1, 7)).is_none(), "a fork's are its own");
        drop(entry);
        assert!(find(7).is_none());
    }
}
