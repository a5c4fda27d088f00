// SPDX-License-Identifier: MIT OR Apache-2.0
//! The UMEM: the memory of all frames, shared with the kernel. Only this file turns a [`UmemChunk`]
//! into bytes.
//!
//! In: a [`Layout`] and the memory file that was registered with it. Out: the mapping, and one
//! [`UmemChunk`] for each frame. Callers: `rings.rs`, the `AF_XDP` port. Bounds: the memory is
//! mapped once and never grows; offsets and lengths from the kernel are checked against the
//! mapping.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::slice;

use nix::errno::Errno;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::process::{Resource, getrlimit};

use super::mapping::Mapping;
use crate::config::{RingSize, RingSizes};

/// Bytes of one frame: the largest chunk that all kernels and drivers accept (a page).
pub(crate) const FRAME_BYTES: u32 = 4096;
/// Bytes at the start of each frame that the kernel reserves for the XDP program
/// (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: u32 = 256;
/// Alignment of packets: a cache line, for fast copies.
const ALIGN: usize = 64;
/// Least number of bytes between the XDP program's headroom and the first header. Where the kernel
/// copies a packet into the frame, it often lies behind the same headroom there. AMD Zen 3
/// copies slowly to a place that is 1 to 31 bytes further behind the start of its page than the
/// source (decision 0233).
const APART: usize = 32;
/// Layouts have less headroom of their own than this.
const HEADROOM_END: u32 = (APART + ALIGN) as u32;

/// Division of the memory into frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pub(crate) sizes: RingSizes,
    /// Bytes between the XDP program's headroom and the frame's first header.
    pub(crate) headroom: u32,
}

impl Layout {
    /// A layout with as many frames as rings of `sizes` hold. The payload behind `headers` bytes of
    /// headers is aligned.
    #[must_use]
    pub const fn new(sizes: RingSizes, headers: usize) -> Self {
        let aligned = (headers + APART).next_multiple_of(ALIGN);
        Self { sizes, headroom: (aligned - headers) as u32 }
    }

    /// The layout that another process requests with plain numbers, limited to valid values.
    pub(crate) fn requested(rx: u32, tx: u32, headroom: u32) -> Self {
        let sizes = RingSizes { rx: RingSize::new(rx), tx: RingSize::new(tx) };
        Self { sizes, headroom: headroom % HEADROOM_END }
    }

    /// All rx frames fit in the fill ring, and all tx frames in the tx ring. So no ring is too full
    /// for a frame that returns.
    const fn frames(&self) -> u32 {
        self.sizes.rx.get() + self.sizes.tx.get()
    }

    /// Address of the first header byte of frame `index`.
    fn address(&self, index: u32) -> u64 {
        let start = u64::from(index) * u64::from(FRAME_BYTES);
        start + u64::from(XDP_HEADROOM + self.headroom)
    }

    /// Addresses of the rx frames.
    pub(crate) fn for_receiving(self) -> impl Iterator<Item = u64> {
        (0..self.sizes.rx.get()).map(move |index| self.address(index))
    }

    /// Bytes of all frames, which the kernel pins.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.frames() as usize * FRAME_BYTES as usize
    }

    /// Bytes of a frame for headers and packet.
    pub(crate) const fn room(&self) -> usize {
        (FRAME_BYTES - XDP_HEADROOM - self.headroom) as usize
    }
}

/// The token of one chunk of the UMEM: its holder owns the chunk's bytes. One token is made for
/// each chunk. It moves into a ring, out of a ring, and through the port's free list. It is neither
/// `Copy` nor `Clone`, and only `umem.rs` and `rings.rs` see its content or make one.
#[derive(Debug)]
pub(crate) struct UmemChunk(pub(super) XdpDesc);

impl UmemChunk {
    /// Whether the packet in this received frame continues in the next frame.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.0.options.contains(XdpDescOptions::XDP_PKT_CONTD)
    }
}

/// A memory file for `layout`. Its size is sealed, so no process can truncate it under the mapping
/// of another one.
///
/// # Errors
/// `EFBIG` beyond the limit of the process: at that size the kernel would send `SIGXFSZ`, which
/// ends the process (setrlimit(2), `RLIMIT_FSIZE`).
pub(crate) fn memory_file(layout: Layout) -> io::Result<OwnedFd> {
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| layout.bytes() as u64 > limit) {
        return Err(Errno::EFBIG.into());
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("ofi-xdp-umem", flags)?;
    ftruncate(&file, layout.bytes() as u64)?;
    // Further seals are permitted: by one the broker asks whether the memory is in use.
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK)?;
    Ok(file)
}

/// The mapped UMEM.
#[derive(Debug)]
pub(crate) struct UmemMapping {
    mapping: Mapping,
    layout: Layout,
}

impl UmemMapping {
    /// Maps `memory`, which was registered with `layout`. Returns the tx frames; the rx frames are
    /// in the fill ring since the socket was made.
    pub(crate) fn map(
        memory: BorrowedFd<'_>,
        layout: Layout,
    ) -> io::Result<(Self, Vec<UmemChunk>)> {
        let mapping = Mapping::new(memory, 0, layout.bytes())?;
        let frame = |addr| UmemChunk(XdpDesc { addr, len: 0, options: XdpDescOptions::empty() });
        let send = layout.sizes.rx.get()..layout.frames();
        let send = send.map(|index| frame(layout.address(index))).collect();
        Ok((Self { mapping, layout }, send))
    }

    /// Bytes of a frame for headers and packet.
    pub(crate) const fn room(&self) -> usize {
        self.layout.room()
    }

    /// The bytes of a received frame; empty if the kernel's numbers lie outside of the memory.
    #[inline]
    pub(crate) fn received<'a>(&'a self, frame: &'a UmemChunk) -> &'a [u8] {
        let len = frame.0.len as usize;
        let Some(start) = self.mapping.at::<u8>(frame.0.addr as usize, len) else {
            return &[];
        };
        // SAFETY: the bytes are in the mapping, and the kernel wrote them. No one writes to them
        // while they are borrowed: the token is here, so the frame is in no ring.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Fills a frame by `write`, and sets its length to the returned one. The slice is
    /// [`Self::room`] long.
    #[inline]
    pub(crate) fn write<R>(
        &self,
        frame: &mut UmemChunk,
        write: impl FnOnce(&mut [u8]) -> (usize, R),
    ) -> R {
        let room = self.room();
        // Tx frames never enter the fill ring, so the address is still that of the layout.
        let start = self.mapping.at::<u8>(frame.0.addr as usize, room);
        debug_assert!(start.is_some(), "{frame:?}");
        let (length, result) = match start {
            // SAFETY: the bytes are in the mapping and initialised (a new file is zeroes). There is
            // no other access while they are borrowed: the token is here and borrowed mutably, so
            // the frame is in no ring.
            Some(start) => write(unsafe { slice::from_raw_parts_mut(start.as_ptr(), room) }),
            None => write(&mut []),
        };
        frame.0.len = length.min(room) as u32;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn frames_are_disjoint_and_aligned() {
        let layout = Layout::new(RingSizes { rx: RingSize::MIN, tx: RingSize::MIN }, 42);
        let file = memory_file(layout).unwrap();
        let (memory, mut tx) = UmemMapping::map(file.as_fd(), layout).unwrap();
        let rx: Vec<u64> = layout.for_receiving().collect();
        assert_eq!((rx.len(), tx.len()), (64, 64));
        assert!(tx.iter().all(|frame| !rx.contains(&frame.0.addr)));
        assert_eq!(memory.room(), 4096 - 256 - 86);
        for (index, frame) in (0_u8..).zip(&mut tx) {
            memory.write(frame, |bytes| {
                assert_eq!(bytes.len(), memory.room());
                assert_eq!(bytes[42..].as_ptr().align_offset(ALIGN), 0);
                assert!(
                    bytes.as_ptr().addr() % 4096 - 256 >= APART,
                    "apart from the kernel's place"
                );
                bytes.fill(index);
                (100, ())
            });
        }
        for (index, frame) in (0_u8..).zip(&tx) {
            assert_eq!(memory.received(frame), [index; 100]);
        }
    }

    #[test]
    fn a_frame_outside_the_memory_has_no_bytes() {
        let layout = Layout::new(RingSizes { rx: RingSize::MIN, tx: RingSize::MIN }, 42);
        let file = memory_file(layout).unwrap();
        let (memory, ..) = UmemMapping::map(file.as_fd(), layout).unwrap();
        for (addr, len) in [(128 * 4096, 1), (128 * 4096 - 1, 2), (u64::MAX, 4), (0, u32::MAX)] {
            let frame = UmemChunk(XdpDesc { addr, len, options: XdpDescOptions::empty() });
            assert_eq!(memory.received(&frame), [0; 0], "{addr} {len}");
        }
    }

    #[test]
    fn a_requested_layout_is_limited_to_valid_values() {
        let layout = Layout::requested(u32::MAX, 0, u32::MAX);
        assert_eq!((layout.sizes.rx, layout.sizes.tx), (RingSize::MAX, RingSize::MIN));
        assert!(layout.headroom < HEADROOM_END);
    }
}
