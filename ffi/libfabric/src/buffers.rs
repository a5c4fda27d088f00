// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint's message buffers: equal slots of one registered region, each with its operation
//! context.
//!
//! A slot is *free* (the program may touch it) or *posted* (an operation has it). Bounded by
//! construction: as many operations as slots.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::owned::{Owned, failure};
use crate::raw::{Context, Domain, Mem, Mr, abi};

/// A buffer as an operation names it.
#[derive(Clone, Copy)]
pub(crate) struct Operand {
    pub(crate) memory: Mem,
    /// The descriptor of the region; NULL if the memory is not registered.
    pub(crate) descriptor: *mut c_void,
    pub(crate) context: Context,
}

/// The next key to request from a domain with keys that the application chooses. Endpoints may
/// share a domain.
static REGION_KEY: AtomicU64 = AtomicU64::new(0x6f78);

/// The buffers of one endpoint.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Closed before the memory is freed.
    region: Option<Owned<Mr>>,
    memory: NonNull<u8>,
    layout: Layout,
    /// Bytes from one slot to the next.
    stride: usize,
    /// One a slot: the provider may write to it until the operation completes (`FI_CONTEXT2`).
    contexts: Box<[abi::fi_context2]>,
    posted: Box<[bool]>,
    size: usize,
}

impl Buffers {
    /// `slots` buffers of `size` bytes. Untouched memory costs nothing until it is used.
    ///
    /// # Errors
    /// [`Error::Call`] with `ENOMEM` where there is no room for them.
    pub(crate) fn new(slots: usize, size: usize) -> Result<Self, Error> {
        // A cache line at least, so that two slots never share one.
        let stride = size.max(1).next_multiple_of(64);
        let layout = stride
            .checked_mul(slots.max(1))
            .and_then(|bytes| Layout::from_size_align(bytes, 4096).ok())
            .ok_or_else(|| failure("allocate", libc::ENOMEM))?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(layout) };
        let memory = NonNull::new(memory).ok_or_else(|| failure("allocate", libc::ENOMEM))?;
        let context = abi::fi_context2 { internal: [std::ptr::null_mut(); 8] };
        Ok(Self {
            region: None,
            memory,
            layout,
            stride,
            contexts: vec![context; slots].into_boxed_slice(),
            posted: vec![false; slots].into_boxed_slice(),
            size,
        })
    }

    /// Registers the memory with `domain`; with `rma`, for access by peers, too.
    pub(crate) fn register(&mut self, domain: &Domain, rma: bool) -> Result<(), Error> {
        // SAFETY: the region is closed before the memory is freed, and no operation outlives it.
        let memory = unsafe { Mem::from_raw(self.memory.as_ptr().cast(), self.layout.size()) };
        let mut access = abi::FI_SEND | abi::FI_RECV;
        if rma {
            access |= abi::FI_READ | abi::FI_WRITE | abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
        }
        let key = REGION_KEY.fetch_add(1, Ordering::Relaxed);
        self.region = Some(Owned::of("fi_mr_reg", domain.mr(memory, access, key))?);
        Ok(())
    }

    /// The region, where the memory is registered.
    pub(crate) fn region(&self) -> Option<&Mr> {
        self.region.as_deref()
    }

    /// The address of the first slot.
    pub(crate) fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    /// Bytes from one slot to the next.
    pub(crate) fn stride(&self) -> u64 {
        self.stride as u64
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.posted.len()
    }

    /// Whether no operation has `slot`.
    pub(crate) fn is_free(&self, slot: usize) -> bool {
        self.posted.get(slot) == Some(&false)
    }

    /// The bytes of a free slot.
    pub(crate) fn bytes(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        let at = self.check_free(slot)?;
        // SAFETY: `size` bytes of our allocation, initialised by alloc_zeroed; no operation has the
        // slot, and `&mut self` keeps other borrows away.
        Ok(unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), self.size) })
    }

    /// The arguments for an operation on the first `len` bytes of a free slot.
    #[inline]
    pub(crate) fn operand(&mut self, slot: usize, len: usize) -> Result<Operand, Error> {
        let start = self.check_free(slot)?.as_ptr().cast::<c_void>();
        let descriptor = self.region().map_or(std::ptr::null_mut(), Mr::desc);
        // SAFETY: a slot of the allocation. An operation that has it is marked in `posted`, which
        // keeps references away, and ends before the memory is freed.
        let memory = unsafe { Mem::from_raw(start, len.min(self.size)) };
        // SAFETY: as for the memory; `contexts` is never moved or freed before.
        let context = unsafe { Context::from_raw(&raw mut self.contexts[slot]) };
        Ok(Operand { memory, descriptor, context })
    }

    /// An operation took `slot`.
    #[inline]
    pub(crate) fn mark_posted(&mut self, slot: usize) {
        self.posted[slot] = true;
    }

    /// The operation with `context` has ended: its slot is free again. `None` for a context that is
    /// none of ours.
    #[inline]
    pub(crate) fn complete(&mut self, context: *mut c_void) -> Option<usize> {
        let offset = (context as usize).checked_sub(self.contexts.as_ptr() as usize)?;
        let slot = offset / size_of::<abi::fi_context2>();
        *self.posted.get_mut(slot)? = false;
        Some(slot)
    }

    #[inline]
    fn check_free(&self, slot: usize) -> Result<NonNull<u8>, Error> {
        if !self.is_free(slot) {
            return Err(Error::Busy { slot });
        }
        // SAFETY: `slot` is below the number of slots, so the offset is inside the allocation.
        Ok(unsafe { self.memory.add(slot * self.stride) })
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.region = None;
        // SAFETY: from alloc_zeroed with this layout; the endpoint, and with it every operation,
        // was closed before (declaration order in `Endpoint`).
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        // The first is a layout that no process has room for, the others are no layouts.
        let huge = isize::MAX as usize / 2;
        for (slots, size) in [(1, huge), (4, huge), (usize::MAX, 64)] {
            let error = Buffers::new(slots, size).map(drop).unwrap_err();
            assert_eq!(error.errno(), Some(libc::ENOMEM), "{slots} of {size}: {error}");
        }
        assert_eq!(Buffers::new(2, 64).map(|buffers| buffers.slots()).ok(), Some(2));
    }
}
