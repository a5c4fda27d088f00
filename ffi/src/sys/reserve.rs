// SPDX-License-Identifier: MIT OR Apache-2.0
//! The allocator of this library: the system's, with a reserve behind it.
//!
//! Rust ends the process when a plain allocation is refused. A library must return an error
//! instead. So a refused allocation of at most [`BLOCK_MAX`] bytes is served from a reserve, and
//! counted. The call that meets the count undoes its work and returns `-FI_ENOMEM`
//! ([`refused_since`]). All it freed is in the reserve again. Allocations that grow with the
//! application's requests are fallible by themselves (`memory`).
//!
//! In: allocations of every call and thread. Out: memory. Bound: the reserve, whose pages cost
//! nothing until a refusal. A plain allocation that is refused and does not fit in the reserve
//! still ends the process.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::sys::errno::Error;

/// Length of the reserve: several times the small allocations of the largest call, which opens an
/// endpoint.
const RESERVE_BYTES: usize = 4 << 20;
/// Unit of the reserve's blocks.
const GRANULE_BYTES: usize = 64;
const GRANULES: usize = RESERVE_BYTES / GRANULE_BYTES;
/// Longest block: so allocations that are fallible because they are long leave the reserve to the
/// plain ones.
const BLOCK_MAX: usize = 64 << 10;
/// The strictest alignment of a block.
const ALIGN_MAX: usize = 4096;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Allocations that the system has refused.
static REFUSALS: AtomicU64 = AtomicU64::new(0);

static RESERVE: Reserve = Reserve::new();

/// The number of refusals so far, for [`refused_since`].
pub(crate) fn refusals() -> u64 {
    REFUSALS.load(Ordering::Relaxed)
}

/// Whether an allocation was refused since `before`, to any thread: then memory is short, whichever
/// call met it.
pub(crate) fn refused_since(before: u64) -> bool {
    refusals() != before
}

/// An error if [`refused_since`].
///
/// # Errors
/// [`Error::NoMemory`].
pub(crate) fn check(before: u64) -> Result<(), Error> {
    if refused_since(before) { Err(Error::NoMemory) } else { Ok(()) }
}

struct Allocator;

#[repr(align(4096))]
struct Bytes(UnsafeCell<[MaybeUninit<u8>; RESERVE_BYTES]>);

// SAFETY: the bytes are handed out in disjoint blocks, as by any allocator; nothing else touches
// them.
unsafe impl Sync for Bytes {}

struct Reserve {
    bytes: Bytes,
    /// Whether each granule is part of a block.
    used: Mutex<[bool; GRANULES]>,
}

impl Reserve {
    const fn new() -> Self {
        let bytes = Bytes(UnsafeCell::new([MaybeUninit::uninit(); RESERVE_BYTES]));
        Self { bytes, used: Mutex::new([false; GRANULES]) }
    }

    fn start(&self) -> *mut u8 {
        self.bytes.0.get().cast()
    }

    /// Whether `block` is part of the reserve.
    fn has(&self, block: *mut u8) -> bool {
        block.addr().wrapping_sub(self.start().addr()) < RESERVE_BYTES
    }

    /// A block for `layout`, the first that fits; NULL if there is none.
    fn take(&self, layout: Layout) -> *mut u8 {
        let count = layout.size().div_ceil(GRANULE_BYTES);
        let step = layout.align().div_ceil(GRANULE_BYTES);
        if layout.size() > BLOCK_MAX || layout.align() > ALIGN_MAX {
            return ptr::null_mut();
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut at = 0_usize;
        // bound: GRANULES
        while let Some(run) = used.get_mut(at..at.saturating_add(count)) {
            match run.iter().rposition(|&used| used) {
                Some(last) => at = (at + last + 1).next_multiple_of(step),
                None => {
                    run.fill(true);
                    return self.start().wrapping_add(at * GRANULE_BYTES);
                }
            }
        }
        ptr::null_mut()
    }

    /// Takes a block back, with the layout that it was taken for.
    fn give_back(&self, block: *mut u8, layout: Layout) {
        let at = block.addr().wrapping_sub(self.start().addr()) / GRANULE_BYTES;
        let count = layout.size().div_ceil(GRANULE_BYTES);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = used.get_mut(at..at.saturating_add(count)) {
            run.fill(false);
        }
    }
}

#[cold]
fn refused(layout: Layout) -> *mut u8 {
    REFUSALS.fetch_add(1, Ordering::Relaxed);
    RESERVE.take(layout)
}

// SAFETY: a block comes from the system or from the reserve, and goes back to where its address
// says that it came from. Blocks of the reserve are disjoint, aligned and of the length asked for.
// No function here unwinds.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller: the length is not 0.
        let block = unsafe { System.alloc(layout) };
        if block.is_null() { refused(layout) } else { block }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: passed on from the caller.
        let block = unsafe { System.alloc_zeroed(layout) };
        if !block.is_null() {
            return block;
        }
        let block = refused(layout);
        if !block.is_null() {
            // SAFETY: a block of the reserve of this length.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if RESERVE.has(block) {
            return RESERVE.give_back(block, layout);
        }
        // SAFETY: passed on from the caller: not of the reserve, so the system's.
        unsafe { System.dealloc(block, layout) };
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !RESERVE.has(block) {
            // SAFETY: passed on from the caller: not of the reserve, so the system's.
            let moved = unsafe { System.realloc(block, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: passed on from the caller: with this alignment, `size` makes a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let moved = if RESERVE.has(block) {
            // SAFETY: `size` is not 0 (promised).
            unsafe { self.alloc(wanted) }
        } else {
            refused(wanted)
        };
        if !moved.is_null() {
            // SAFETY: two blocks, which are disjoint, of at least this length.
            unsafe { ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            // SAFETY: passed on from the caller; it is not used any more.
            unsafe { self.dealloc(block, layout) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn blocks_are_aligned_and_disjoint_and_all_come_back() {
        static RESERVE: Reserve = Reserve::new();
        let layouts = [(3, 1), (100, 64), (8, 8), (5000, 4096)].map(|(s, a)| layout(s, a));
        for _ in 0..3 {
            let mut end = 0;
            let blocks = layouts.map(|layout| {
                let block = RESERVE.take(layout);
                assert!(RESERVE.has(block) && block.addr().is_multiple_of(layout.align()));
                assert!(block.addr() >= end);
                end = block.addr() + layout.size();
                block
            });
            for (block, layout) in blocks.into_iter().zip(layouts) {
                RESERVE.give_back(block, layout);
            }
            assert!(RESERVE.used.lock().unwrap().iter().all(|used| !used));
        }
    }

    #[test]
    fn a_gap_is_used_again_beside_blocks_that_stay() {
        static RESERVE: Reserve = Reserve::new();
        let one = layout(1000, 16);
        let [first, _second] = [RESERVE.take(one), RESERVE.take(one)];
        for _ in 0..GRANULES {
            RESERVE.give_back(first, one);
            assert_eq!(RESERVE.take(one), first);
        }
    }

    #[test]
    fn the_end_is_not_passed() {
        static RESERVE: Reserve = Reserve::new();
        let longest = layout(BLOCK_MAX, 1);
        for _ in 0..RESERVE_BYTES / BLOCK_MAX {
            assert!(RESERVE.has(RESERVE.take(longest)));
        }
        assert!(RESERVE.take(layout(1, 1)).is_null());
        assert!(RESERVE.take(layout(BLOCK_MAX + 1, 1)).is_null());
        assert!(RESERVE.take(layout(isize::MAX as usize, 1)).is_null());
        assert!(RESERVE.take(layout(1, 2 * ALIGN_MAX)).is_null());
        assert!(!RESERVE.has(RESERVE.start().wrapping_add(RESERVE_BYTES)));
        assert!(!RESERVE.has(RESERVE.start().wrapping_sub(1)));
    }
}
