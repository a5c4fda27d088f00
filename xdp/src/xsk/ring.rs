// SPDX-License-Identifier: MIT OR Apache-2.0
//! One ring of an `AF_XDP` socket, from the side of the application
//! (`Documentation/networking/af_xdp.rst`, "Rings").
//!
//! A ring is an array of entries, a power of two in number, and two counters that only grow. The
//! producer writes entries and then its counter; the consumer reads entries and then writes its
//! counter. The kernel has the other side of each ring.
//!
//! In: plain entries. Out: plain entries; `rings.rs` gives them their meaning. Caller: `rings.rs`.
//! Bound: the size of the ring.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::{XdpDesc, XdpRingFlags, XdpRingOffset};

use super::mapping::Mapping;

/// An entry of a ring: plain integers without padding, valid for all bit patterns.
pub(crate) trait Entry: Copy {}

impl Entry for u64 {}
impl Entry for XdpDesc {}

/// The memory that both sides access.
#[derive(Debug)]
pub(crate) struct SharedRing<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// The mapping that the pointers point into.
    _mapping: Mapping,
}

// SAFETY: the pointers are into the mapping, which moves with them and has no other owner.
unsafe impl<T> Send for SharedRing<T> {}

impl<T: Entry> SharedRing<T> {
    /// Maps the ring of `size` entries at `page` of the socket.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        debug_assert!(size.is_power_of_two());
        let offset = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let entries = offset(offsets.desc)?;
        let count = size as usize;
        let mapping = Mapping::new(socket, page, entries + count * size_of::<T>())?;
        // Linux 5.4 and newer; older kernels do not know XDP_USE_NEED_WAKEUP.
        let flags = offset(offsets.flags.ok_or(io::ErrorKind::Unsupported)?)?;
        Ok(Self {
            producer: mapping.at(offset(offsets.producer)?, 1).ok_or_else(invalid)?,
            consumer: mapping.at(offset(offsets.consumer)?, 1).ok_or_else(invalid)?,
            flags: mapping.at(flags, 1).ok_or_else(invalid)?,
            entries: mapping.at(entries, count).ok_or_else(invalid)?,
            size,
            _mapping: mapping,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as `self`; aligned; all accesses, by the
        // kernel too, are atomic and of this size.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: see the producer's counter.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: see the producer's counter.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }

    /// The entry of `index`, which counts without limit; the position is its remainder.
    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: the masked index is below `size`, and that many entries are in the mapping.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// A ring with the application as producer: fill, tx.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    shared: SharedRing<T>,
    /// The next entry to write.
    next: u32,
    /// The first entry that may not be written yet, according to the last read counter.
    limit: u32,
}

impl<T: Entry> Producer<T> {
    /// The producing side of `shared`.
    pub(crate) fn new(shared: SharedRing<T>) -> Self {
        let next = shared.producer().load(Ordering::Relaxed);
        let limit = shared.consumer().load(Ordering::Acquire).wrapping_add(shared.size);
        Self { shared, next, limit }
    }

    /// Whether there is room for `count` more entries.
    #[inline]
    pub(crate) fn has_room(&mut self, count: u32) -> bool {
        if self.limit.wrapping_sub(self.next) < count {
            // Acquire: the kernel has read the entries that are overwritten next.
            let consumed = self.shared.consumer().load(Ordering::Acquire);
            self.limit = consumed.wrapping_add(self.shared.size);
        }
        self.limit.wrapping_sub(self.next) >= count
    }

    /// Writes one entry, after [`Self::has_room`] found room. [`Self::publish`] makes it visible.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        debug_assert_ne!(self.limit, self.next);
        // SAFETY: the entry is in the mapping; the kernel does not read it before it is published.
        unsafe { self.shared.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Makes the written entries visible to the kernel.
    #[inline]
    pub(crate) fn publish(&mut self) {
        // Release: a reader of the counter sees the entries.
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the kernel has not consumed yet.
    #[inline]
    pub(crate) fn untaken(&self) -> u32 {
        self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel sleeps until a wake-up.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// A ring with the kernel as producer: rx, completion.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    shared: SharedRing<T>,
    /// The next entry to read.
    next: u32,
    /// Entries left by the last [`Self::take`].
    waiting: u32,
}

impl<T: Entry> Consumer<T> {
    /// The consuming side of `shared`.
    pub(crate) fn new(shared: SharedRing<T>) -> Self {
        let next = shared.consumer().load(Ordering::Relaxed);
        Self { shared, next, waiting: 0 }
    }

    /// Number of entries left by the last [`Self::take`].
    #[inline]
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Whether there are entries to take.
    #[inline]
    pub(crate) fn has_entries(&self) -> bool {
        self.shared.producer().load(Ordering::Relaxed) != self.next
    }

    /// Takes at most `limit` entries, hands each to `sink`, and returns how many.
    #[inline]
    pub(crate) fn take(&mut self, limit: usize, mut sink: impl FnMut(T)) -> usize {
        // Acquire: a reader of the counter sees the entries.
        let produced = self.shared.producer().load(Ordering::Acquire);
        let there = produced.wrapping_sub(self.next).min(self.shared.size);
        let count = (there as usize).min(limit);
        self.waiting = there - count as u32;
        if count == 0 {
            return 0;
        }
        for _ in 0..count {
            // SAFETY: the entry is in the mapping, and the kernel does not overwrite it before the
            // consumer's counter has passed it.
            sink(unsafe { self.shared.entry(self.next).read() });
            self.next = self.next.wrapping_add(1);
        }
        // Release: the entries are read before the kernel sees that it may overwrite them.
        self.shared.consumer().store(self.next, Ordering::Release);
        count
    }
}
