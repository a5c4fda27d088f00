// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory mapping that is shared with the kernel.
//!
//! In: a descriptor and a range. Out: a [`Mapping`], which lives as long as the value: of a ring
//! (`ring.rs`), of the UMEM (`umem.rs`), or of counters (`kernel_hint.rs`, `counters_page.rs`).
//! Bound: the range is fixed; [`Mapping::at`] checks each access against it.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

/// A shared mapping.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this value is its only owner.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset` for reading and writing.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        Self::with(fd, offset, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Maps the first `len` bytes of `fd` for reading. A store ends the process (SIGSEGV).
    pub(crate) fn read_only(fd: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        Self::with(fd, 0, len, ProtFlags::READ)
    }

    /// Maps `len` bytes of `fd` from `offset`, all pages present. The child of a fork does not have
    /// the mapping: its part of a socket's rings would keep the socket open.
    fn with(fd: BorrowedFd<'_>, offset: u64, len: usize, access: ProtFlags) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: no address is requested, so the kernel chooses a range without other mappings.
        let start = unsafe { mmap(ptr::null_mut(), len, access, flags, fd, offset) }?;
        let mapping =
            Self { start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?, len };
        // SAFETY: the range was just mapped; the advice changes nothing in this process.
        unsafe { madvise(start, len, Advice::LinuxDontFork) }?;
        Ok(mapping)
    }

    /// The first byte.
    pub(crate) const fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The `count` values of type `T` at byte `offset`, if they lie inside and are aligned.
    #[inline]
    pub(crate) fn at<T>(&self, offset: usize, count: usize) -> Option<NonNull<T>> {
        let end = count.checked_mul(size_of::<T>())?.checked_add(offset)?;
        if end > self.len || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: `offset` is at most `len`, so the result is in the mapping or directly behind it.
        Some(unsafe { self.start.byte_add(offset) }.cast())
    }

    /// The counter at byte `offset`, if it lies inside and is aligned.
    #[inline]
    pub(crate) fn counter(&self, offset: usize) -> Option<&AtomicU64> {
        let counter: NonNull<AtomicU64> = self.at(offset, 1)?;
        // SAFETY: inside the mapping, which lives as long as `self`; aligned; all accesses, by the
        // kernel too, are atomic and of this size.
        Some(unsafe { counter.as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start: *mut c_void = self.start.as_ptr().cast();
        // SAFETY: the range is the one that was mapped, and only this value unmaps it. All pointers
        // into it belong to values that hold this one.
        let unmapped = unsafe { munmap(start, self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
