// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of memory on which the broker writes what the XDP program counts, for one client, who may
//! not ask the kernel.
//!
//! The broker makes it with a grant, passes its descriptor along and writes each second; the client
//! reads when it writes its statistics page. Nobody maps it. A client that writes on it deceives
//! itself alone. Bound: one page for each grant.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use ofi_xdp_bpf::Counters;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

/// See the module.
#[derive(Debug)]
pub struct Board(File);

impl Board {
    /// A new one, with nothing counted.
    ///
    /// # Errors
    /// When there is no memory, or no descriptor.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let board = Self(memfd_create("ofi-xdp-counters", flags)?.into());
        board.0.set_len(size_of::<Counters>() as u64)?;
        fcntl_add_seals(&board.0, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(board)
    }

    /// The one that a broker passed along.
    pub(crate) fn of(descriptor: OwnedFd) -> Self {
        Self(descriptor.into())
    }

    /// Writes what the program has counted.
    ///
    /// # Errors
    /// As of pwrite(2).
    pub fn write(&self, counters: &Counters) -> io::Result<()> {
        self.0.write_all_at(counters.as_bytes(), 0)
    }

    /// What was written last; `None` if it cannot be read.
    #[must_use]
    pub fn read(&self) -> Option<Counters> {
        let mut counters = Counters::default();
        self.0.read_exact_at(counters.as_mut_bytes(), 0).ok()?;
        Some(counters)
    }
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_bpf::Verdict;

    #[test]
    fn what_is_written_is_read_by_who_has_the_descriptor() {
        let board = Board::new().unwrap();
        let theirs = Board::of(board.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(theirs.read(), Some(Counters::default()));
        let mut counters = Counters::default();
        counters.as_mut_bytes().fill(1);
        board.write(&counters).unwrap();
        let redirected = theirs.read().unwrap().count(Verdict::Redirected);
        assert_eq!(redirected, 0x0101_0101_0101_0101);
    }

    #[test]
    fn who_has_the_descriptor_cannot_change_its_size() {
        let board = Board::new().unwrap();
        assert!(board.0.set_len(0).is_err() && board.0.set_len(1 << 30).is_err());
        let other = File::open("/dev/null").unwrap();
        assert_eq!(Board::of(other.into()).read(), None);
    }
}
