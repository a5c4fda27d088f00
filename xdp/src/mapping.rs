// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that is shared with the kernel, mapped as long as the value lives.
//!
//! A descriptor and a range come in, a [`Mapping`] goes out: of a ring (`ring.rs`), of the frames
//! (`umem.rs`), or of what the XDP program counts (`passed.rs`, `broker/board.rs`). Bounds: the
//! range is fixed when it is mapped, and every access is checked against it by [`Mapping::at`].

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A shared, writable mapping.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this value is its only owner.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `fd` from `offset`, all pages present.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: no address is asked for, so the kernel chooses a range that nothing else is
        // mapped in.
        let start = unsafe { mmap(ptr::null_mut(), len, access, flags, fd, offset) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Its first byte.
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
        // SAFETY: `offset` is at most `len`, so the result is in the mapping or right behind it.
        Some(unsafe { self.start.byte_add(offset) }.cast())
    }

    /// The word at byte `offset`, if it lies inside and is aligned.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> Option<&AtomicU64> {
        let word: NonNull<AtomicU64> = self.at(offset, 1)?;
        // SAFETY: inside the mapping, which lives as long as `self`, aligned, and accessed by
        // everybody as one word.
        Some(unsafe { word.as_ref() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let start: *mut c_void = self.start.as_ptr().cast();
        // SAFETY: the range is the one that was mapped, nobody else unmaps it, and pointers into it
        // are held only by those who hold this value.
        let unmapped = unsafe { munmap(start, self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
