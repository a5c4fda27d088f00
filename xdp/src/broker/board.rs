// SPDX-License-Identifier: MIT OR Apache-2.0
//! A page of memory on which the broker writes what the XDP program counts, for one client, who may
//! not ask the kernel.
//!
//! The broker makes it with a grant, passes its descriptor along and writes each second; the client
//! reads when it writes its statistics page. The broker stores through a mapping: a system call
//! would wait for the file's lock, which a client can hold for ever (by writing what it lets nobody
//! fault in). Nobody else can write, map it to write or change its size. Bound: one page for each
//! grant.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use ofi_xdp_bpf::Counters;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::mapping::Mapping;

/// The broker's end.
#[derive(Debug)]
pub struct Board {
    memory: OwnedFd,
    mapping: Mapping,
}

impl Board {
    /// A new one, with nothing counted.
    ///
    /// # Errors
    /// When there is no memory, or no descriptor.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("ofi-xdp-counters", flags)?;
        ftruncate(&memory, size_of::<Counters>() as u64)?;
        // The seal leaves mappings alone that are there already (memfd_create(2)).
        let mapping = Mapping::new(memory.as_fd(), 0, size_of::<Counters>())?;
        let size = SealFlags::GROW | SealFlags::SHRINK;
        fcntl_add_seals(&memory, size | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(Self { memory, mapping })
    }

    /// Writes what the program has counted.
    pub fn write(&self, counters: &Counters) {
        for (count, number) in counters.as_bytes().as_chunks().0.iter().zip(0..) {
            if let Some(word) = self.mapping.word(number * size_of::<u64>()) {
                // No count says anything of another, so none has to be seen before it.
                word.store(u64::from_ne_bytes(*count), Ordering::Relaxed);
            }
        }
    }
}

impl AsFd for Board {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

/// The client's end.
#[derive(Debug)]
pub(crate) struct BoardReader(File);

impl BoardReader {
    /// Of the descriptor that a broker passed along.
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor.into())
    }

    /// What was written last; `None` if it cannot be read.
    pub(crate) fn read(&self) -> Option<Counters> {
        let mut counters = Counters::default();
        self.0.read_exact_at(counters.as_mut_bytes(), 0).ok()?;
        Some(counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_xdp_bpf::Verdict;
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    #[test]
    fn what_is_written_is_read_by_who_has_the_descriptor() {
        let board = Board::new().unwrap();
        let theirs = BoardReader::new(board.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(theirs.read(), Some(Counters::default()));
        let mut counters = Counters::default();
        for (byte, number) in counters.as_mut_bytes().iter_mut().zip(1..) {
            *byte = number;
        }
        board.write(&counters);
        assert_eq!(theirs.read(), Some(counters));
        let first = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(counters.count(Verdict::ALL[0]), first);
    }

    #[test]
    fn who_has_the_descriptor_can_only_read() {
        let board = Board::new().unwrap();
        let theirs = File::from(board.as_fd().try_clone_to_owned().unwrap());
        // By another way, too: the file lets everybody open it.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&theirs));
        let opened = File::options().read(true).write(true).open(path).unwrap();
        for file in [theirs, opened] {
            assert!(file.set_len(0).is_err() && file.set_len(1 << 30).is_err());
            let written = file.write_all_at(&[1; 8], 0).unwrap_err();
            assert_eq!(Errno::from_io_error(&written), Some(Errno::PERM));
            let mapped = Mapping::new(file.as_fd(), 0, 8).unwrap_err();
            assert_eq!(Errno::from_io_error(&mapped), Some(Errno::PERM));
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            assert_eq!(fallocate(&file, hole, 0, 4096), Err(Errno::PERM));
            assert_eq!(fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
        }
        let other = File::open("/dev/null").unwrap();
        assert_eq!(BoardReader::new(other.into()).read(), None);
    }
}
