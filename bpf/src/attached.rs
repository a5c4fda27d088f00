// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attached program, and the list of programs that this process has attached or joined.
//!
//! A process that attaches a program needs no `CAP_SYS_ADMIN`; finding one by its id does. The list
//! gives the next endpoint of the process the program without a search. In: the id of a program.
//! Out: a weak reference to it. Caller: `redirect.rs`. Bound: one entry for each attached program,
//! and one for each thread that is attaching.

use std::os::fd::OwnedFd;
use std::process;
use std::sync::{Arc, Weak};

use crate::attach_mode::AttachMode;
use crate::maps::Maps;
use crate::process_list::ProcessList;

/// The link of an attached program, for this process.
#[derive(Debug)]
pub(crate) enum ProgramLink {
    /// It stays while this descriptor is open.
    Open(OwnedFd),
    /// The id of one that another process keeps.
    ById(u32),
}

/// The program, attached as long as this value or one of another process holds its link.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) mode: AttachMode,
    pub(crate) maps: Maps,
    pub(crate) link: ProgramLink,
    /// Dropped last: while the program can be found on the interface, its entry is in the list.
    _entry: Entry,
}

/// Key of an entry: the process id, because a fork inherits the list, and the id of the
/// program. The kernel reuses no id while a descriptor of the program is open.
type ProgramKey = (u32, u32);

static ATTACHED: ProcessList<(ProgramKey, Weak<Attached>)> = ProcessList::new();

/// Makes the list usable in the child of a fork. Called before any other code there.
pub fn unlock_programs_in_child() {
    drop(ATTACHED.unlock_in_child());
}

/// One entry of the list; dropping it removes the entry.
#[derive(Debug)]
pub(crate) struct Entry(ProgramKey);

impl Entry {
    /// Enters `program` before this process attaches or joins it.
    pub(crate) fn new(program: u32) -> Self {
        let key = (process::id(), program);
        ATTACHED.lock().push((key, Weak::new()));
        Self(key)
    }

    /// Turns the entry into the attached program of `link`.
    pub(crate) fn hold(self, mode: AttachMode, maps: Maps, link: ProgramLink) -> Arc<Attached> {
        let key = self.0;
        let attached = Arc::new(Attached { mode, maps, link, _entry: self });
        if let Some((_, program)) = ATTACHED.lock().iter_mut().find(|(other, _)| *other == key) {
            *program = Arc::downgrade(&attached);
        }
        attached
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        ATTACHED.lock().retain(|(key, _)| *key != self.0);
    }
}

/// The entry of `program`, if there is one. Its reference is empty while another thread attaches
/// the program or releases it.
pub(crate) fn find(program: u32) -> Option<Weak<Attached>> {
    find_of((process::id(), program))
}

fn find_of(key: ProgramKey) -> Option<Weak<Attached>> {
    ATTACHED.lock().iter().find(|(other, _)| *other == key).map(|(_, program)| Weak::clone(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_of_one_process() {
        let entry = Entry::new(7);
        assert!(find(7).is_some_and(|program| program.upgrade().is_none()), "not attached yet");
        assert!(find(8).is_none());
        assert!(find_of((process::id() + 1, 7)).is_none(), "a fork's are its own");
        drop(entry);
        assert!(find(7).is_none());
    }
}
