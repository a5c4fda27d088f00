// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that operations may name: allocated once, never freed.
//!
//! A provider's thread and a peer may write to it at any time. So no reference to it is made; bytes
//! are copied in and out. [`Context`] is a `struct fi_context2`, which an operation may be told to
//! own until it completes (`fi_getinfo(3)`, mode `FI_CONTEXT2`).

use std::alloc::{Layout, alloc_zeroed};
use std::ffi::c_void;

use super::Cntr;
use super::abi;

/// A range of memory. Copies name the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mem {
    address: usize,
    len: usize,
}

impl Mem {
    /// `len` zero bytes, at the start of a cache line.
    pub fn zeroed(len: usize) -> Self {
        let layout = Layout::from_size_align(len.max(1), 64).expect("a length that fits");
        // SAFETY: the layout's size is not zero.
        let address = unsafe { alloc_zeroed(layout) };
        assert!(!address.is_null(), "no memory for {len} bytes");
        Self { address: address.expose_provenance(), len }
    }

    /// A copy of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mem = Self::zeroed(bytes.len());
        mem.write(0, bytes);
        mem
    }

    /// `len` bytes that depend on `seed` and on their position, so that a misplaced byte shows.
    pub fn pattern(len: usize, seed: u8) -> Self {
        Self::of(&pattern(len, seed))
    }

    /// A value for C, which is never moved.
    pub fn leaked<T: 'static>(value: T) -> Self {
        let address = std::ptr::from_mut(Box::leak(Box::new(value))).expose_provenance();
        Self { address, len: size_of::<T>() }
    }

    /// Memory of the caller's.
    ///
    /// # Safety
    /// The `len` bytes at `start` stay valid while an operation has them and while a method of the
    /// value runs. No reference to them exists in that time.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(start: *mut c_void, len: usize) -> Self {
        Self { address: start.expose_provenance(), len }
    }

    /// No memory at all.
    pub const fn null() -> Self {
        Self { address: 0, len: 0 }
    }

    /// NULL and a length: an argument that names no memory.
    pub const fn absent(len: usize) -> Self {
        Self { address: 0, len }
    }

    /// NULL and the greatest length, which stand for the whole address space in `fi_mr(3)`.
    pub const fn everything() -> Self {
        Self { address: 0, len: usize::MAX }
    }

    /// `len` bytes from `offset` on.
    pub fn part(self, offset: usize, len: usize) -> Self {
        assert!(offset + len <= self.len, "{offset} + {len} is beyond {}", self.len);
        Self { address: self.address + offset, len }
    }

    /// The first byte.
    #[inline]
    pub fn ptr(self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.address)
    }

    /// The first byte's address, as RMA names it.
    pub fn address(self) -> u64 {
        self.address as u64
    }

    /// How many bytes.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to `offset`.
    pub fn write(self, offset: usize, bytes: &[u8]) {
        let to = self.part(offset, bytes.len()).ptr().cast::<u8>();
        // SAFETY: the range is ours (`part`), never freed, and no reference to it exists.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// A copy of its present bytes.
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: as in `write`.
        unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(self.ptr().cast(), self.len) };
        bytes
    }

    /// The present value of one byte.
    pub fn byte(self, offset: usize) -> u8 {
        let at = self.part(offset, 1).ptr().cast::<u8>();
        // SAFETY: as in `write`.
        unsafe { at.read_volatile() }
    }

    /// As `struct iovec`.
    pub fn iovec(self) -> abi::iovec {
        abi::iovec { iov_base: self.ptr(), iov_len: self.len }
    }
}

/// Several ranges as an array of `struct iovec`.
pub(super) fn iovecs(parts: &[Mem]) -> Vec<abi::iovec> {
    parts.iter().map(|part| part.iovec()).collect()
}

/// The bytes that [`Mem::pattern`] holds.
pub(super) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    // 251 is prime: a shift by any power of two shows.
    (0..len).map(|at| ((at % 251) as u8).wrapping_mul(7).wrapping_add(seed)).collect()
}

/// An operation's context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Context(Mem);

impl Default for Context {
    fn default() -> Self {
        Self::new()
    }
}

impl Context {
    /// A new `struct fi_context2`.
    pub fn new() -> Self {
        Self(Mem::zeroed(size_of::<abi::fi_context2>()))
    }

    /// A context with the condition that starts its operation (`fi_trigger(3)`), and room for
    /// `fi_context2`.
    pub fn triggered(cntr: &Cntr, threshold: usize) -> Self {
        let threshold = abi::fi_trigger_threshold { cntr: cntr.object.get(), threshold };
        let trigger = abi::fi_triggered_context2__bindgen_ty_1 { threshold };
        let event_type = abi::FI_TRIGGER_THRESHOLD;
        Self(Mem::leaked(abi::fi_triggered_context2 { event_type, trigger }))
    }

    /// A `struct fi_context2` of the caller's.
    ///
    /// # Safety
    /// As [`Mem::from_raw`].
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(context: *mut abi::fi_context2) -> Self {
        // SAFETY: passed on from the caller.
        Self(unsafe { Mem::from_raw(context.cast(), size_of::<abi::fi_context2>()) })
    }

    /// NULL.
    pub const fn null() -> Self {
        Self(Mem::null())
    }

    /// The pointer that the call takes and the completion gives back.
    #[inline]
    pub fn ptr(self) -> *mut c_void {
        self.0.ptr()
    }
}
