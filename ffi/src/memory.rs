// SPDX-License-Identifier: MIT OR Apache-2.0
//! Application memory: the only reads and writes of the buffers that operations name.
//!
//! What comes in: at post, a [`Buffer`] (up to [`IOV_MAX`] segments) for an operation's slot;
//! later, the engine's word which bytes to copy. What goes out: bytes into packets, and packets'
//! bytes into buffers. The engine calls this through `core::Memory`, under the endpoint's lock.
//!
//! Never is a reference formed to application memory, which the application may read at any time:
//! all copies are raw. Whatever offset the engine gives, a copy is cut to the buffer's segments.
//!
//! Bounds: one `Buffer` for each send and receive slot, [`INJECT_MAX`] bytes for each send slot,
//! and the engine's arena for unexpected messages, all allocated at enable and touched only when
//! used.
#![allow(unsafe_code)]

use std::ffi::c_void;

use ofi_xdp_core::{
    AtomicAccess, Config, Gather, Memory, OpId, Placement, RecvId, Source, Target, UnexpectedId,
};

use crate::abi;
use crate::errno::Error;

/// Most segments of one buffer (`iov_limit`).
pub(crate) const IOV_MAX: usize = 4;
/// Longest message that can be injected, in bytes (`inject_size`).
pub(crate) const INJECT_MAX: usize = 1024;

/// One contiguous part of an application's buffer.
#[derive(Clone, Copy, Debug)]
struct Segment {
    base: *mut u8,
    len: usize,
}

impl Segment {
    const EMPTY: Self = Self { base: std::ptr::null_mut(), len: 0 };
}

/// Where a message lies or goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    segments: [Segment; IOV_MAX],
    /// Copied at post: the application may use its memory again when the call returns.
    inject: bool,
}

// SAFETY: a buffer is a description; only this module follows its pointers, under the endpoint's
// lock, and the application has lent the memory to whichever thread makes progress (fi_msg(3)).
unsafe impl Send for Buffer {}

impl Buffer {
    const EMPTY: Self = Self { segments: [Segment::EMPTY; IOV_MAX], inject: false };

    /// One contiguous buffer.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has a length and no address.
    #[inline]
    pub(crate) const fn contiguous(base: *mut c_void, len: usize) -> Result<Self, Error> {
        if base.is_null() && len > 0 {
            return Err(Error::Invalid);
        }
        let mut buffer = Self::EMPTY;
        buffer.segments[0] = Segment { base: base.cast(), len };
        Ok(buffer)
    }

    /// A scattered buffer.
    ///
    /// # Errors
    /// [`Error::Invalid`] for more than [`IOV_MAX`] segments, a segment with a length and no
    /// address, and a total beyond what an address space holds.
    pub(crate) fn scattered(iov: &[abi::iovec]) -> Result<Self, Error> {
        let mut buffer = Self::EMPTY;
        if iov.len() > IOV_MAX {
            return Err(Error::Invalid);
        }
        let mut total = 0_usize;
        for (segment, from) in buffer.segments.iter_mut().zip(iov) {
            if from.iov_base.is_null() && from.iov_len > 0 {
                return Err(Error::Invalid);
            }
            total = total.checked_add(from.iov_len).ok_or(Error::Invalid)?;
            *segment = Segment { base: from.iov_base.cast(), len: from.iov_len };
        }
        Ok(buffer)
    }

    /// The same memory, to be copied at post.
    ///
    /// # Errors
    /// [`Error::TooLong`] beyond [`INJECT_MAX`] bytes.
    #[inline]
    pub(crate) fn injected(self) -> Result<Self, Error> {
        if self.len() > INJECT_MAX {
            return Err(Error::TooLong);
        }
        Ok(Self { inject: true, ..self })
    }

    /// Bytes in all segments.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Cannot overflow: checked when the buffer was made.
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// The parts of the buffer from `offset` on, at most `len` bytes in all.
    fn parts(&self, offset: u64, len: usize) -> impl Iterator<Item = Segment> {
        let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
        let mut left = len;
        self.segments.iter().filter_map(move |segment| {
            let inside = skip.min(segment.len);
            skip -= inside;
            let count = (segment.len - inside).min(left);
            left -= count;
            // `wrapping_add` needs no proof; the result is inside the segment because `inside` is.
            (count > 0).then(|| Segment { base: segment.base.wrapping_add(inside), len: count })
        })
    }

    /// Copies from the buffer at `offset`; returns how many bytes it had.
    ///
    /// # Safety
    /// The segments may be read, and do not overlap `into`.
    unsafe fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        for part in self.parts(offset, into.len()) {
            let Some(to) = into.get_mut(done..done + part.len) else { break };
            // SAFETY: `part` lies in the segments, which may be read (promised); `to` has its
            // length.
            unsafe { std::ptr::copy_nonoverlapping(part.base, to.as_mut_ptr(), part.len) };
            done += part.len;
        }
        done
    }

    /// Copies into the buffer at `offset`, as much as it holds.
    ///
    /// # Safety
    /// The segments may be written, and do not overlap `bytes`.
    unsafe fn write(&self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        for part in self.parts(offset, bytes.len()) {
            let Some(from) = bytes.get(done..done + part.len) else { break };
            // SAFETY: `part` lies in the segments, which may be written (promised); `from` has its
            // length.
            unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), part.base, part.len) };
            done += part.len;
        }
    }
}

/// The buffers of one endpoint's operations.
pub(crate) struct AppMemory {
    /// By slot of [`OpId`].
    sends: Vec<Buffer>,
    /// By slot of [`RecvId`].
    recvs: Vec<Buffer>,
    /// [`INJECT_MAX`] bytes for each send slot.
    injected: Vec<u8>,
    /// Messages that no receive has matched yet.
    unexpected: Vec<u8>,
    /// Says where in `unexpected` a message lies.
    config: Config,
}

impl AppMemory {
    /// Room for an engine with this configuration.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when the address space is out; pages are taken when they are touched.
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let sends = usize::try_from(config.sends).map_err(|_| Error::NoMemory)?;
        let recvs = usize::try_from(config.recvs).map_err(|_| Error::NoMemory)?;
        let unexpected = usize::try_from(config.unexpected_bytes()).map_err(|_| Error::NoMemory)?;
        let injected = sends.checked_mul(INJECT_MAX).ok_or(Error::NoMemory)?;
        Ok(Self {
            sends: vec![Buffer::EMPTY; sends],
            recvs: vec![Buffer::EMPTY; recvs],
            injected: vec![0; injected],
            unexpected: vec![0; unexpected],
            config: config.clone(),
        })
    }

    /// The stored bytes of an unexpected message.
    fn stored(&self, id: UnexpectedId) -> std::ops::Range<usize> {
        let (offset, capacity) = self.config.unexpected_range(id);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.unexpected.len());
        let end = usize::try_from(offset.saturating_add(capacity)).unwrap_or(usize::MAX);
        start..end.min(self.unexpected.len())
    }
}

impl Memory for AppMemory {
    type Buffer = Buffer;

    fn attach_op(&mut self, op: OpId, buffer: Buffer) {
        let slot = op.slot() as usize;
        let Some(place) = self.sends.get_mut(slot) else { return };
        *place = buffer;
        if buffer.inject
            && let Some(copy) = self.injected.get_mut(slot * INJECT_MAX..(slot + 1) * INJECT_MAX)
        {
            // SAFETY: the application's memory may be read until the posting call returns
            // (fi_msg(3), `fi_inject`), and that call is under way; the copy is memory of ours.
            let len = unsafe { buffer.read(0, copy) };
            *place = Buffer::EMPTY;
            place.segments[0] = Segment { base: copy.as_mut_ptr(), len };
        }
    }

    fn attach_recv(&mut self, recv: RecvId, buffer: Buffer) {
        if let Some(place) = self.recvs.get_mut(recv.slot() as usize) {
            *place = buffer;
        }
    }

    fn gather(&mut self, from: Gather, into: &mut [u8]) {
        // No region can be registered with an endpoint, so none is ever read.
        let Source::Op(op) = from.source else { return into.fill(0) };
        let Some(buffer) = self.sends.get(op.slot() as usize) else { return into.fill(0) };
        // SAFETY: the application's memory may be read until the operation's completion is read
        // (fi_msg(3)), and the engine asks only for operations that have not completed; `injected`
        // lives as long as `self` and never moves. `into` is a packet of the port's.
        let done = unsafe { buffer.read(from.offset, into) };
        if let Some(missing) = into.get_mut(done..) {
            missing.fill(0);
        }
    }

    fn place(&mut self, at: Placement, bytes: &[u8]) {
        match at.target {
            Target::Recv(recv) => {
                let Some(buffer) = self.recvs.get(recv.slot() as usize) else { return };
                // SAFETY: the application's memory may be written until the receive's completion is
                // read (fi_msg(3)), and the engine places only into receives that have not
                // completed. `bytes` is a packet of the port's.
                unsafe { buffer.write(at.offset, bytes) };
            }
            // No read is ever posted, and no region registered.
            Target::Op(_) | Target::Region(_) => {}
            Target::Unexpected(id) => {
                let range = self.stored(id);
                let offset = usize::try_from(at.offset).unwrap_or(usize::MAX);
                let stored = self.unexpected.get_mut(range).and_then(|it| it.get_mut(offset..));
                let Some(stored) = stored else { return };
                for (to, &from) in stored.iter_mut().zip(bytes) {
                    *to = from;
                }
            }
        }
    }

    fn deliver(&mut self, from: UnexpectedId, to: RecvId, len: u64) {
        let Some(stored) = self.unexpected.get(self.stored(from)) else { return };
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(stored.len());
        let (Some(bytes), Some(buffer)) = (stored.get(..len), self.recvs.get(to.slot() as usize))
        else {
            return;
        };
        // SAFETY: as for a placement into a receive; `bytes` is memory of ours.
        unsafe { buffer.write(0, bytes) };
    }

    /// No region can be registered with an endpoint, so nothing is ever asked for.
    fn atomic(&mut self, _access: AtomicAccess<'_>) {}
}

impl std::fmt::Debug for AppMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppMemory").field("sends", &self.sends.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iov(parts: &mut [&mut [u8]]) -> Buffer {
        let iov: Vec<abi::iovec> = parts
            .iter_mut()
            .map(|part| abi::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() })
            .collect();
        Buffer::scattered(&iov).unwrap()
    }

    fn memory() -> AppMemory {
        let config = Config { sends: 2, recvs: 2, ..Config::new(ofi_xdp_checksum::crc32c) };
        AppMemory::new(&config).unwrap()
    }

    #[test]
    fn scattered_bytes_are_gathered_from_any_offset() {
        let (mut a, mut b, mut c) = (*b"ab", *b"", *b"cdefg");
        let buffer = iov(&mut [&mut a, &mut b, &mut c]);
        let mut memory = memory();
        let op = OpId::new(1, 7);
        memory.attach_op(op, buffer);
        for offset in 0..7 {
            for len in 0..=7 - offset {
                let mut packet = vec![b'?'; len];
                memory
                    .gather(Gather { source: Source::Op(op), offset: offset as u64 }, &mut packet);
                assert_eq!(packet, b"abcdefg"[offset..offset + len]);
            }
        }
        // Beyond the end there are zeros, not somebody's memory.
        let mut packet = [b'?'; 4];
        memory.gather(Gather { source: Source::Op(op), offset: 5 }, &mut packet);
        assert_eq!(&packet, b"fg\0\0");
    }

    #[test]
    fn an_injected_buffer_may_change_at_once() {
        let mut bytes = *b"before";
        let buffer = iov(&mut [&mut bytes]).injected().unwrap();
        let mut memory = memory();
        let op = OpId::new(0, 0);
        memory.attach_op(op, buffer);
        bytes.copy_from_slice(b"after!");
        let mut packet = [0; 6];
        memory.gather(Gather { source: Source::Op(op), offset: 0 }, &mut packet);
        assert_eq!(&packet, b"before");
    }

    #[test]
    fn placements_are_cut_to_the_buffer() {
        let (mut a, mut b) = ([0; 3], [0; 3]);
        let buffer = iov(&mut [&mut a, &mut b[..2]]);
        let mut memory = memory();
        let recv = RecvId::new(1, 3);
        memory.attach_recv(recv, buffer);
        memory.place(Placement { target: Target::Recv(recv), offset: 1 }, b"123456");
        memory.place(Placement { target: Target::Recv(recv), offset: 99 }, b"no");
        memory.place(Placement { target: Target::Recv(RecvId::NONE), offset: 0 }, b"no");
        assert_eq!((&a, &b), (b"\x0012", b"34\0"));
    }

    #[test]
    fn a_stored_message_is_delivered() {
        let mut bytes = [0; 4];
        let mut memory = memory();
        let (id, recv) = (UnexpectedId::new(0, 0), RecvId::new(0, 0));
        memory.place(Placement { target: Target::Unexpected(id), offset: 0 }, b"ab");
        memory.place(Placement { target: Target::Unexpected(id), offset: 2 }, b"cd");
        memory.attach_recv(recv, iov(&mut [&mut bytes]));
        memory.deliver(id, recv, 3);
        assert_eq!(&bytes, b"abc\0");
    }

    #[test]
    fn impossible_buffers_are_refused() {
        let null = std::ptr::null_mut();
        assert!(Buffer::contiguous(null, 0).is_ok());
        assert_eq!(Buffer::contiguous(null, 1).err(), Some(Error::Invalid));
        let part = |iov_len| abi::iovec { iov_base: std::ptr::dangling_mut::<c_void>(), iov_len };
        assert!(Buffer::scattered(&[part(1); IOV_MAX]).is_ok());
        assert_eq!(Buffer::scattered(&[part(1); IOV_MAX + 1]).err(), Some(Error::Invalid));
        assert_eq!(Buffer::scattered(&[part(usize::MAX), part(1)]).err(), Some(Error::Invalid));
        let long = Buffer::scattered(&[part(INJECT_MAX), part(1)]).unwrap();
        assert_eq!(long.injected().err(), Some(Error::TooLong));
    }
}
