// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a granted socket, of which the broker knows whether a client still holds it.
//!
//! The kernel charges the memory to the broker, also after the client has closed the socket. So a
//! client must not collect it. The client gets an open file of its own. The kernel counts the open
//! files of the memory, and gives a lease (fcntl(2), `F_SETLEASE`) to the last one only. A mapping
//! keeps its open file. Nothing here waits for the file's lock, which a client can hold without
//! limit by writing from memory that never faults in.
//!
//! In: a memory file. Out: the client's descriptor, and whether it is held. Callers: `grants.rs`,
//! `quota.rs`. Bound: a few system calls.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, open};

use crate::raw;

/// The broker's open file of the memory.
#[derive(Debug)]
pub(crate) struct LentMemory(OwnedFd);

impl LentMemory {
    /// The broker's and the client's open file of `memory`, which no other process has yet. The
    /// caller closes `memory` and, once it is sent, the client's.
    pub(crate) fn new(memory: BorrowedFd<'_>) -> io::Result<(Self, OwnedFd)> {
        // Another user cannot open the file again, for reading alone.
        fchmod(memory, Mode::RUSR | Mode::WUSR)?;
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let reopen = || open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        Ok((Self(reopen()?), reopen()?))
    }

    /// Whether another process has the memory open or mapped; `false` if that is unknown, because
    /// the system gives no leases (`/proc/sys/fs/leases-enable`).
    pub(crate) fn is_held(&self) -> bool {
        raw::has_other_writer(self.0.as_fd()).unwrap_or_else(|error| {
            log::debug!("ask for a lease on a socket's memory: {error}");
            false
        })
    }

    /// Whether nothing uses pages of the memory: no process by a mapping, and the kernel neither
    /// for a socket nor in a pipe. Only then the kernel seals a file against writing
    /// (`F_SEAL_WRITE`, fcntl(2)); else it waits for 0.2 s. `false` if a client has forbidden
    /// further seals.
    pub(crate) fn is_unused(&self) -> bool {
        fcntl_add_seals(&self.0, SealFlags::WRITE).is_ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::pipe::{SpliceFlags, pipe, splice};
    use std::os::unix::net::UnixStream;

    /// New memory, and the client's descriptor.
    pub(crate) fn new_memory() -> (LentMemory, OwnedFd) {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("umem", flags).unwrap();
        ftruncate(&memory, 4096).unwrap();
        LentMemory::new(memory.as_fd()).unwrap()
    }

    /// A pipe with pages of the memory of `client`, which it keeps in use.
    pub(crate) fn pages_of(client: &OwnedFd) -> [OwnedFd; 2] {
        rustix::io::pwrite(client, &[7; 4096], 0).unwrap();
        let (out, into) = pipe().unwrap();
        let spliced = splice(client, Some(&mut 0), &into, None, 4096, SpliceFlags::empty());
        assert_eq!(spliced, Ok(4096));
        [out, into]
    }

    #[test]
    fn memory_is_used_while_a_page_of_it_is() {
        let (memory, client) = new_memory();
        let pages = pages_of(&client);
        drop(client);
        assert!(!memory.is_held() && !memory.is_unused());
        drop(pages);
        assert!(memory.is_unused());
    }

    #[test]
    fn memory_is_held_until_the_last_descriptor_is_closed() {
        let (memory, client) = new_memory();
        assert!(memory.is_held());
        let copy = client.try_clone().unwrap();
        drop(client);
        assert!(memory.is_held(), "a copy is left");
        let (left, right) = UnixStream::pair().unwrap();
        crate::fd_message::send(&left, &[1], &[copy.as_fd()]).unwrap();
        drop(copy);
        assert!(memory.is_held(), "the copy is under way");
        drop((left, right));
        assert!((0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            !memory.is_held()
        }));
    }
}
