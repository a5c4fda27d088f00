// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that frames lie in, shared with the kernel: the one place where a [`Frame`] becomes
//! bytes.
//!
//! A [`Layout`] and the memory file that was registered with it come in, the mapped memory and one
//! [`Frame`] for each frame go out, to `rings.rs` and `xsk_port.rs`. Bounds: the memory is mapped
//! once and never grows; what the kernel says of a frame is checked against the mapping.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::BorrowedFd;
use std::slice;

use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use crate::config::{RingSize, RingSizes};
use crate::frame::Frame;
use crate::mapping::Mapping;

/// Bytes of one frame: the largest chunk that every kernel and driver accepts (a page).
pub(crate) const FRAME_BYTES: u32 = 4096;
/// What the kernel reserves for the XDP program at the start of each frame (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: u32 = 256;
/// Packets start on a cache line, so that copies in and out of them do.
const ALIGN: usize = 64;

/// How the memory is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pub(crate) sizes: RingSizes,
    /// Bytes between the XDP program's headroom and the frame's first header.
    pub(crate) headroom: u32,
}

impl Layout {
    /// Frames for as many packets as rings of `sizes` hold, such that what follows `headers` bytes
    /// of headers is aligned.
    #[must_use]
    pub const fn new(sizes: RingSizes, headers: usize) -> Self {
        Self { sizes, headroom: (headers.next_multiple_of(ALIGN) - headers) as u32 }
    }

    /// The layout that another process asks for with plain numbers, made to fit.
    pub(crate) fn requested(rx: u32, tx: u32, headroom: u32) -> Self {
        let sizes = RingSizes { rx: RingSize::new(rx), tx: RingSize::new(tx) };
        Self { sizes, headroom: headroom % ALIGN as u32 }
    }

    /// Every rx frame fits in the fill ring and every tx frame in the tx ring, at once: no ring is
    /// ever too full for a frame that comes back.
    const fn frames(&self) -> u32 {
        self.sizes.rx.get() + self.sizes.tx.get()
    }

    /// Where frame `index` has its first byte for headers.
    fn address(&self, index: u32) -> u64 {
        let start = u64::from(index) * u64::from(FRAME_BYTES);
        start + u64::from(XDP_HEADROOM + self.headroom)
    }

    /// The addresses of the frames for receiving.
    pub(crate) fn for_receiving(self) -> impl Iterator<Item = u64> {
        (0..self.sizes.rx.get()).map(move |index| self.address(index))
    }

    /// Bytes of all frames, which the kernel pins.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.frames() as usize * FRAME_BYTES as usize
    }

    /// Bytes that a frame has for headers and packet.
    pub(crate) const fn room(&self) -> usize {
        (FRAME_BYTES - XDP_HEADROOM - self.headroom) as usize
    }
}

/// The registered memory.
#[derive(Debug)]
pub(crate) struct FrameMemory {
    mapping: Mapping,
    layout: Layout,
}

impl FrameMemory {
    /// Maps `memory`, which was registered with `layout`. Returns the frames for sending; those for
    /// receiving are in the fill ring, where who made the socket put them.
    pub(crate) fn map(memory: BorrowedFd<'_>, layout: Layout) -> io::Result<(Self, Vec<Frame>)> {
        let mapping = Mapping::new(memory, 0, layout.bytes())?;
        let frame = |addr| Frame(XdpDesc { addr, len: 0, options: XdpDescOptions::empty() });
        let send = layout.sizes.rx.get()..layout.frames();
        let send = send.map(|index| frame(layout.address(index))).collect();
        Ok((Self { mapping, layout }, send))
    }

    /// Bytes that a frame has for headers and packet.
    pub(crate) const fn room(&self) -> usize {
        self.layout.room()
    }

    /// The bytes of a frame that was received; none if the kernel's numbers are no part of the
    /// memory.
    #[inline]
    pub(crate) fn received<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        let len = frame.0.len as usize;
        let Some(start) = self.mapping.at::<u8>(frame.0.addr as usize, len) else {
            return &[];
        };
        // SAFETY: the bytes are in the mapping, and were written by the kernel. Nobody writes to
        // them while they are borrowed: the token is here, so the frame is in no ring.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// Lets `write` fill a frame that is to be sent, and sets the frame's length to the one that it
    /// returns. The slice is [`Self::room`] long.
    #[inline]
    pub(crate) fn write<R>(
        &self,
        frame: &mut Frame,
        write: impl FnOnce(&mut [u8]) -> (usize, R),
    ) -> R {
        let room = self.room();
        // Frames for sending are never given to the fill ring, so the address is still the one
        // that the memory was laid out with.
        let start = self.mapping.at::<u8>(frame.0.addr as usize, room);
        debug_assert!(start.is_some(), "{frame:?}");
        let (length, result) = match start {
            // SAFETY: the bytes are in the mapping and initialised (a new file is zeroes), and
            // nobody else reads or writes them while they are borrowed: the token is here and
            // borrowed mutably, so the frame is in no ring.
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
    use crate::socket::memory_file;
    use std::os::fd::AsFd;

    #[test]
    fn frames_are_disjoint_and_aligned() {
        let layout = Layout::new(RingSizes { rx: RingSize::MIN, tx: RingSize::MIN }, 42);
        let file = memory_file(layout).unwrap();
        let (memory, mut tx) = FrameMemory::map(file.as_fd(), layout).unwrap();
        let rx: Vec<u64> = layout.for_receiving().collect();
        assert_eq!((rx.len(), tx.len()), (64, 64));
        assert!(tx.iter().all(|frame| !rx.contains(&frame.0.addr)));
        assert_eq!(memory.room(), 4096 - 256 - 22);
        for (index, frame) in (0_u8..).zip(&mut tx) {
            memory.write(frame, |bytes| {
                assert_eq!(bytes.len(), memory.room());
                assert_eq!(bytes[42..].as_ptr().align_offset(ALIGN), 0);
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
        let (memory, ..) = FrameMemory::map(file.as_fd(), layout).unwrap();
        for (addr, len) in [(128 * 4096, 1), (128 * 4096 - 1, 2), (u64::MAX, 4), (0, u32::MAX)] {
            let frame = Frame(XdpDesc { addr, len, options: XdpDescOptions::empty() });
            assert_eq!(memory.received(&frame), [0; 0], "{addr} {len}");
        }
    }

    #[test]
    fn what_is_asked_for_is_made_to_fit() {
        let layout = Layout::requested(u32::MAX, 0, u32::MAX);
        assert_eq!((layout.sizes.rx, layout.sizes.tx), (RingSize::MAX, RingSize::MIN));
        assert!(layout.headroom < 64);
    }
}
