// SPDX-License-Identifier: MIT OR Apache-2.0
//! One ring of an `AF_XDP` socket, seen from the side that we have of it
//! (`Documentation/networking/af_xdp.rst`, "Rings").
//!
//! A ring is an array of a power of two of entries and two counters that only grow: who produces
//! writes entries and then the producer's counter, who consumes reads entries and then writes the
//! consumer's. The kernel has the other side of each ring. Plain entries go in and come out;
//! `rings.rs` is the caller, and says what an entry means. Bounds: the ring's size.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::xdp::{XdpDesc, XdpRingFlags, XdpRingOffset};

use crate::mapping::Mapping;

/// What rings are made of: plain integers without padding, of which any bits are a value.
pub(crate) trait Entry: Copy {}

impl Entry for u64 {}
impl Entry for XdpDesc {}

/// What both sides see.
#[derive(Debug)]
struct Shared<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// What the pointers point into.
    _mapping: Mapping,
}

// SAFETY: the pointers are into the mapping that moves with them, which no other value has.
unsafe impl<T> Send for Shared<T> {}

impl<T: Entry> Shared<T> {
    /// Maps the ring of `size` entries that `page` of the socket stands for.
    fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        debug_assert!(size.is_power_of_two());
        let offset = |offset: u64| usize::try_from(offset).map_err(io::Error::other);
        let odd = || io::Error::from(io::ErrorKind::InvalidData);
        let entries = offset(offsets.desc)?;
        let count = size as usize;
        let mapping = Mapping::new(socket, page, entries + count * size_of::<T>())?;
        // Linux 5.4 and newer; older kernels know nothing of XDP_USE_NEED_WAKEUP.
        let flags = offset(offsets.flags.ok_or(io::ErrorKind::Unsupported)?)?;
        Ok(Self {
            producer: mapping.at(offset(offsets.producer)?, 1).ok_or_else(odd)?,
            consumer: mapping.at(offset(offsets.consumer)?, 1).ok_or_else(odd)?,
            flags: mapping.at(flags, 1).ok_or_else(odd)?,
            entries: mapping.at(entries, count).ok_or_else(odd)?,
            size,
            _mapping: mapping,
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, which lives as long as `self`, aligned, and accessed by
        // everybody, the kernel too, as one word.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as of the producer's counter.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn needs_wakeup(&self) -> bool {
        // SAFETY: as of the producer's counter.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & XdpRingFlags::XDP_RING_NEED_WAKEUP.bits() != 0
    }

    /// Entry `index`, which counts on for ever; the ring starts over.
    #[inline]
    fn entry(&self, index: u32) -> NonNull<T> {
        // SAFETY: masked, the index is below `size`, and that many entries are in the mapping.
        unsafe { self.entries.add((index & (self.size - 1)) as usize) }
    }
}

/// A ring that we produce for: fill, tx.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    shared: Shared<T>,
    /// The next entry to write.
    next: u32,
    /// The first one that may not be written yet, as far as is known.
    limit: u32,
}

impl<T: Entry> Producer<T> {
    /// Maps the ring of `size` entries that `page` of `socket` stands for.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        let shared = Shared::map(socket, page, offsets, size)?;
        let next = shared.producer().load(Ordering::Relaxed);
        let limit = shared.consumer().load(Ordering::Acquire).wrapping_add(size);
        Ok(Self { shared, next, limit })
    }

    /// Whether `count` more entries find room.
    #[inline]
    pub(crate) fn has_room(&mut self, count: u32) -> bool {
        if self.limit.wrapping_sub(self.next) < count {
            // Acquire: the kernel has read the entries that we are going to write over.
            let consumed = self.shared.consumer().load(Ordering::Acquire);
            self.limit = consumed.wrapping_add(self.shared.size);
        }
        self.limit.wrapping_sub(self.next) >= count
    }

    /// Writes one entry, for which [`Self::has_room`] found room; [`Self::publish`] shows it.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        debug_assert_ne!(self.limit, self.next);
        // SAFETY: the entry is in the mapping; the kernel does not read it before it is published.
        unsafe { self.shared.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
    }

    /// Shows the kernel what was pushed.
    #[inline]
    pub(crate) fn publish(&mut self) {
        // Release: who sees the counter sees the entries.
        self.shared.producer().store(self.next, Ordering::Release);
    }

    /// Entries that the kernel has not consumed yet.
    #[inline]
    pub(crate) fn untaken(&self) -> u32 {
        self.next.wrapping_sub(self.shared.consumer().load(Ordering::Acquire))
    }

    /// Whether the kernel sleeps until it is called.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.shared.needs_wakeup()
    }
}

/// A ring that the kernel produces for: rx, completion.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    shared: Shared<T>,
    /// The next entry to read.
    next: u32,
    /// How many more there were when one was taken last.
    waiting: u32,
}

impl<T: Entry> Consumer<T> {
    /// Maps the ring of `size` entries that `page` of `socket` stands for.
    pub(crate) fn map(
        socket: BorrowedFd<'_>,
        page: u64,
        offsets: &XdpRingOffset,
        size: u32,
    ) -> io::Result<Self> {
        let shared = Shared::map(socket, page, offsets, size)?;
        let next = shared.consumer().load(Ordering::Relaxed);
        Ok(Self { shared, next, waiting: 0 })
    }

    /// How many entries the last [`Self::take`] left.
    #[inline]
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Takes at most `limit` entries, hands each to `sink`, and returns how many.
    #[inline]
    pub(crate) fn take(&mut self, limit: usize, mut sink: impl FnMut(T)) -> usize {
        // Acquire: who sees the counter sees the entries.
        let produced = self.shared.producer().load(Ordering::Acquire);
        let there = produced.wrapping_sub(self.next).min(self.shared.size);
        let count = (there as usize).min(limit);
        self.waiting = there - count as u32;
        if count == 0 {
            return 0;
        }
        for _ in 0..count {
            // SAFETY: the entry is in the mapping, and the kernel does not write it again before
            // the consumer's counter has passed it.
            sink(unsafe { self.shared.entry(self.next).read() });
            self.next = self.next.wrapping_add(1);
        }
        // Release: our reads are done before the kernel sees that it may write.
        self.shared.consumer().store(self.next, Ordering::Release);
        count
    }
}
