// SPDX-License-Identifier: MIT OR Apache-2.0
//! An application's buffer: up to [`IOV_MAX`] segments, and the raw copies from and to them.
//!
//! In: base addresses and lengths, at post or registration. Out: bytes from any offset, cut to the
//! segments. Called by [`AppMemory`](super::AppMemory), which knows when a buffer may be accessed.
//! Bound: the segments.

use std::ffi::c_void;

use ofi_xdp_core::SharedRecvId;

use crate::sys::abi;
use crate::sys::errno::Error;

/// Most segments of one buffer (`iov_limit`).
pub(crate) const IOV_MAX: usize = 4;
/// Longest message that can be injected, in bytes (`inject_size`).
pub(crate) const INJECT_MAX: usize = 16 << 10;
/// `inject_size` of an endpoint with the most send slots.
pub(crate) const INJECT_LEAST: usize = 1024;
/// Bytes for the copies of injected messages of one runtime, unless the least needs more.
const COPIES_BYTES: usize = 64 << 20;
/// Longest operands and comparands of an atomic operation, in bytes.
pub(super) const STAGED_MAX: usize = 1024;

/// Longest message that can be injected with so many send slots, each of which has room for one.
pub(crate) const fn inject_max(sends: usize) -> usize {
    let room = match COPIES_BYTES.checked_div(sends) {
        Some(room) => room,
        None => INJECT_MAX,
    };
    if room > INJECT_MAX {
        INJECT_MAX
    } else if room < INJECT_LEAST {
        INJECT_LEAST
    } else {
        // A power of two, so that copies begin with a cache line.
        1 << room.ilog2()
    }
}

/// Most bytes that are copied at a time. For longer copies memcpy(3) may use `rep movsb`, which is
/// slow on AMD Zen 3 where the destination lies up to 31 bytes further behind the start of
/// its page than the source (decision 0233), as with an application's buffer from malloc(3).
const COPY_MAX: usize = 2048;
/// Most bytes of a prefetch: more than a packet of 1,500 bytes. For packets of 9,000 bytes a
/// prefetch makes no difference.
const FETCH_MAX: usize = 2048;
/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// One contiguous part of an application's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    pub(super) base: *mut u8,
    pub(super) len: usize,
}

impl Segment {
    const EMPTY: Self = Self { base: std::ptr::null_mut(), len: 0 };

    /// Prefetches its cache lines.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    fn fetch(self) {
        for line in (0..self.len).step_by(LINE) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let at = self.base.wrapping_add(line);
            // SAFETY: a prefetch of any address does not fault and changes nothing that a program
            // can see (Intel 64 manual, PREFETCHh).
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }
    }

    /// Nothing: the instruction of this processor is not in stable Rust.
    #[cfg(not(target_arch = "x86_64"))]
    const fn fetch(self) {}
}

/// The location of the bytes that an operation sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BufferUse {
    /// In the segments, until the operation is complete.
    InPlace,
    /// In the segments until the call returns: copied at post.
    Injected,
    /// In the staging area, this many ([`AppMemory::stage`](super::AppMemory::stage)). The segments
    /// are for the previous values.
    Staged(u16),
    /// None: the buffer is a slice of this one of a shared receive context.
    SharedSlice(SharedRecvId),
}

/// The local memory of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    segments: [Segment; IOV_MAX],
    /// Bytes in all of them.
    total: usize,
    pub(super) usage: BufferUse,
}

// SAFETY: a buffer is a description. Only this module follows its pointers, under the runtime's
// lock. The application permits any thread that makes progress to access it (fi_msg(3)).
unsafe impl Send for Buffer {}

impl Buffer {
    /// No bytes.
    pub(crate) const EMPTY: Self =
        Self { segments: [Segment::EMPTY; IOV_MAX], total: 0, usage: BufferUse::InPlace };

    /// One contiguous buffer.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has a length and no address.
    #[inline]
    pub(crate) const fn contiguous(base: *mut c_void, len: usize) -> Result<Self, Error> {
        if base.is_null() && len > 0 {
            return Err(Error::Invalid);
        }
        Ok(Self::one(base.cast(), len))
    }

    /// `len` bytes at `base`.
    #[inline]
    pub(super) const fn one(base: *mut u8, len: usize) -> Self {
        let mut buffer = Self::EMPTY;
        buffer.segments[0] = Segment { base, len };
        buffer.total = len;
        buffer
    }

    /// A scattered buffer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than [`IOV_MAX`] segments, a segment with a length and no
    /// address, and a total beyond the address space.
    pub(crate) fn scattered(iov: &[abi::iovec]) -> Result<Self, Error> {
        if iov.iter().any(|part| part.iov_base.is_null() && part.iov_len > 0) {
            return Err(Error::Invalid);
        }
        Self::region(iov)
    }

    /// Memory to be registered: as [`Self::scattered`], but it may begin at address 0 (the whole
    /// address space, `fi_mr(3)`).
    ///
    /// # Errors
    /// As [`Self::scattered`].
    pub(crate) fn region(iov: &[abi::iovec]) -> Result<Self, Error> {
        let mut buffer = Self::EMPTY;
        if iov.len() > IOV_MAX {
            return Err(Error::Invalid);
        }
        let mut total = 0_usize;
        for (segment, from) in buffer.segments.iter_mut().zip(iov) {
            total = total.checked_add(from.iov_len).ok_or(Error::Invalid)?;
            *segment = Segment { base: from.iov_base.cast(), len: from.iov_len };
        }
        buffer.total = total;
        Ok(buffer)
    }

    /// This memory, to be copied at post.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond [`INJECT_MAX`] bytes.
    #[inline]
    pub(crate) fn injected(self) -> Result<Self, Error> {
        if self.len() > INJECT_MAX {
            return Err(Error::TooLong);
        }
        Ok(Self { usage: BufferUse::Injected, ..self })
    }

    /// The address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.base.expose_provenance() as u64)
    }

    /// Whether each byte is at [`Self::address`] plus its offset.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut end = self.base();
        // bound: IOV_MAX
        self.segments.iter().filter(|segment| segment.len > 0).all(|segment| {
            let begin = std::mem::replace(&mut end, segment.base.wrapping_add(segment.len));
            begin == segment.base
        })
    }

    /// The rest of this memory from `offset`.
    pub(super) fn from(&self, offset: u64) -> Self {
        let mut rest = Self::EMPTY;
        // bound: IOV_MAX
        for (to, part) in rest.segments.iter_mut().zip(self.parts(offset, usize::MAX)) {
            *to = part;
            rest.total += part.len;
        }
        if rest.total == 0 {
            // The buffer is full: an empty message lies at its end.
            let last = self.segments.iter().rfind(|segment| segment.len > 0);
            let end = last.map(|last| last.base.wrapping_add(last.len));
            rest.segments[0].base = end.unwrap_or(self.segments[0].base);
        }
        rest
    }

    /// The rest of this memory from `offset`, as a slice of buffer `id` of a shared receive
    /// context.
    pub(crate) fn slice(&self, offset: u64, id: SharedRecvId) -> Self {
        Self { usage: BufferUse::SharedSlice(id), ..self.from(offset) }
    }

    /// Ends its use as a slice of a shared buffer, and returns that; `None` if it is no slice.
    pub(super) const fn end_slice(&mut self) -> Option<SharedRecvId> {
        let BufferUse::SharedSlice(id) = self.usage else { return None };
        self.usage = BufferUse::InPlace;
        Some(id)
    }

    /// Bytes in all segments.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.total
    }

    /// The address of its first segment.
    pub(super) const fn base(&self) -> *mut u8 {
        self.segments[0].base
    }

    /// The address of `len` bytes from `offset`, if they lie in the first segment: nearly always.
    #[inline]
    fn in_first(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let Segment { base, len: has } = self.segments[0];
        let offset = usize::try_from(offset).ok()?;
        (len <= has.checked_sub(offset)?).then(|| base.wrapping_add(offset))
    }

    /// The segments of the buffer from `offset`, at most `len` bytes in all.
    pub(super) fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = Segment> {
        let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut left = len;
        self.segments.iter().filter_map(move |segment| {
            let inside = skip.min(segment.len);
            skip -= inside;
            let count = (segment.len - inside).min(left);
            left -= count;
            // `wrapping_add` needs no proof: the result is inside the segment because `inside` is.
            (count > 0).then(|| Segment { base: segment.base.wrapping_add(inside), len: count })
        })
    }

    /// Copies from the buffer at `offset`; returns the number of bytes copied.
    ///
    /// # Safety
    /// The segments may be read, and do not overlap `into`.
    #[inline]
    pub(super) unsafe fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        if let Some(from) = self.in_first(offset, into.len()) {
            // SAFETY: `into.len()` bytes at `from` lie in the first segment, which may be read and
            // does not overlap `into` (promised).
            unsafe { copy(from, into.as_mut_ptr(), into.len()) };
            return into.len();
        }
        // SAFETY: promised by the caller.
        unsafe { self.read_scattered(offset, into) }
    }

    /// # Safety
    /// As [`Self::read`].
    #[cold]
    unsafe fn read_scattered(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        for part in self.parts(offset, into.len()) {
            let Some(to) = into.get_mut(done..done + part.len) else { break };
            // SAFETY: `part` lies in the segments, which may be read (promised); `to` has its
            // length.
            unsafe { copy(part.base, to.as_mut_ptr(), part.len) };
            done += part.len;
        }
        done
    }

    /// Prefetches the cache lines at `offset`, as far as they lie in one segment: the next packet
    /// is filled from them, or written there. Without it the copy's stores stay in the store buffer
    /// until the lines arrive, and the next packet's checksum, which reads them, waits for that.
    #[inline]
    pub(super) fn fetch(&self, offset: u64, len: usize) {
        if let Some(part) = self.parts(offset, len.min(FETCH_MAX)).next() {
            part.fetch();
        }
    }

    /// Copies into the buffer at `offset`, as many bytes as fit.
    ///
    /// # Safety
    /// The segments may be written, and do not overlap `bytes`.
    #[inline]
    pub(super) unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        if let Some(to) = self.in_first(offset, bytes.len()) {
            // SAFETY: `bytes.len()` bytes at `to` lie in the first segment, which may be written
            // and does not overlap `bytes` (promised).
            unsafe { copy(bytes.as_ptr(), to, bytes.len()) };
            return;
        }
        // SAFETY: promised by the caller.
        unsafe { self.write_scattered(offset, bytes) };
    }

    /// # Safety
    /// As [`Self::write`].
    #[cold]
    unsafe fn write_scattered(&self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        for part in self.parts(offset, bytes.len()) {
            let Some(from) = bytes.get(done..done + part.len) else { break };
            // SAFETY: `part` lies in the segments, which may be written (promised); `from` has its
            // length.
            unsafe { copy(from.as_ptr(), part.base, part.len) };
            done += part.len;
        }
    }
}

/// Copies `len` bytes, at most [`COPY_MAX`] at a time.
///
/// # Safety
/// `len` bytes may be read at `from` and written at `to`, and do not overlap.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    for done in (0..len).step_by(COPY_MAX) {
        let (from, to) = (from.wrapping_add(done), to.wrapping_add(done));
        // SAFETY: the piece is a part of the bytes of which the caller promises this.
        unsafe { std::ptr::copy_nonoverlapping(from, to, COPY_MAX.min(len - done)) };
    }
}
