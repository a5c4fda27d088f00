// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters page: memory in which the broker publishes the XDP program's counters to a client
//! that may not read them.
//!
//! The broker makes a page for each lease, passes its descriptor to the client and writes it each
//! second. The client reads it for its statistics page. The broker writes through a mapping. A
//! system call would wait for the file's lock, which a client can hold without limit by writing
//! from memory that never faults in. Other processes can neither write the page, nor map it for
//! writing, nor change its size.
//!
//! In: the counters. Out: the counters. Callers: `xdp-broker`, `socket_lease.rs`. Bound: one page
//! for each lease.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;

use ofi_xdp_bpf::Counters;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::xsk::mapping::Mapping;

/// The broker's end.
#[derive(Debug)]
pub struct CountersPage {
    memory: OwnedFd,
    mapping: Mapping,
}

impl CountersPage {
    /// A new page with counters of 0.
    ///
    /// # Errors
    /// Lack of memory or of descriptors.
    pub fn new() -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let memory = memfd_create("ofi-xdp-counters", flags)?;
        ftruncate(&memory, size_of::<Counters>() as u64)?;
        // The seal does not affect existing mappings (memfd_create(2)).
        let mapping = Mapping::new(memory.as_fd(), 0, size_of::<Counters>())?;
        let size = SealFlags::GROW | SealFlags::SHRINK;
        fcntl_add_seals(&memory, size | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(Self { memory, mapping })
    }

    /// Publishes `counters`.
    pub fn write(&self, counters: &Counters) {
        for (count, number) in counters.as_bytes().as_chunks().0.iter().zip(0..) {
            if let Some(counter) = self.mapping.counter(number * size_of::<u64>()) {
                // The counts are independent, so they need no order.
                counter.store(u64::from_ne_bytes(*count), Ordering::Relaxed);
            }
        }
    }
}

impl AsFd for CountersPage {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

/// The client's end.
#[derive(Debug)]
pub(crate) struct CountersReader(File);

impl CountersReader {
    /// The reader of a descriptor from the broker.
    pub(crate) fn new(descriptor: OwnedFd) -> Self {
        Self(descriptor.into())
    }

    /// The last published counters; `None` if they cannot be read.
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
    fn a_holder_of_the_descriptor_reads_the_written_counters() {
        let counters_page = CountersPage::new().unwrap();
        let reader = CountersReader::new(counters_page.as_fd().try_clone_to_owned().unwrap());
        assert_eq!(reader.read(), Some(Counters::default()));
        let mut counters = Counters::default();
        for (byte, number) in counters.as_mut_bytes().iter_mut().zip(1..) {
            *byte = number;
        }
        counters_page.write(&counters);
        assert_eq!(reader.read(), Some(counters));
        let first = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(counters.count(Verdict::ALL[0]), first);
    }

    #[test]
    fn a_holder_of_the_descriptor_can_only_read() {
        let counters_page = CountersPage::new().unwrap();
        let reader = File::from(counters_page.as_fd().try_clone_to_owned().unwrap());
        // Also by another path: the file may be opened by all users.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let opened = File::options().read(true).write(true).open(path).unwrap();
        for file in [reader, opened] {
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
        assert_eq!(CountersReader::new(other.into()).read(), None);
    }
}
