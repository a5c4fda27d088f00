// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory that frames lie in, shared with the kernel: the one place where a [`Frame`] becomes
//! bytes.
//!
//! A number of frames comes in, the registered memory and one [`Frame`] for each go out, to
//! `rings.rs` and `xsk_port.rs`. Bounds: the memory is mapped once and never grows.

#![allow(unsafe_code)]

use std::num::NonZeroU32;

use nix::errno::Errno;
use xsk_rs::Umem;
use xsk_rs::config::{FrameSize, QueueSize, UmemConfig};

use crate::config::RingSizes;
use crate::frame::Frame;
use crate::rings::RingsError;

/// Bytes of one frame: the largest chunk that every kernel and driver accepts (a page).
const FRAME_BYTES: u32 = 4096;
/// What the kernel reserves for the XDP program at the start of each frame (`XDP_PACKET_HEADROOM`).
const XDP_HEADROOM: usize = 256;
/// Packets start on a cache line, so that copies in and out of them do.
const ALIGN: usize = 64;

/// The registered memory.
#[derive(Debug)]
pub(crate) struct FrameMemory {
    umem: Umem,
    room: usize,
}

impl FrameMemory {
    /// Registers memory for as many frames as the rings can hold, laid out so that what follows
    /// `headers` bytes of headers is aligned. Returns the frames for receiving, and those for
    /// sending.
    pub(crate) fn new(
        sizes: RingSizes,
        headers: usize,
    ) -> Result<(Self, Vec<Frame>, Vec<Frame>), RingsError> {
        let headroom = headers.next_multiple_of(ALIGN) - headers;
        let size = |size| QueueSize::new(size).map_err(RingsError::config);
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(FRAME_BYTES).map_err(RingsError::config)?)
            .frame_headroom(u32::try_from(headroom).map_err(RingsError::config)?)
            .fill_queue_size(size(sizes.rx.get())?)
            .comp_queue_size(size(sizes.tx.get())?)
            .build()
            .map_err(RingsError::config)?;
        // Every rx frame fits in the fill ring and every tx frame in the tx ring, at once: no ring
        // is ever too full for a frame that comes back.
        let count = NonZeroU32::MIN.saturating_add(sizes.rx.get() + sizes.tx.get() - 1);
        let (umem, descriptors) = Umem::new(config, count, false).map_err(|error| {
            // ENOBUFS: RLIMIT_MEMLOCK is exceeded (net/xdp/xdp_umem.c, `xdp_umem_account_pages`).
            let error = RingsError::os("register the UMEM", error);
            error.with_advice(Errno::ENOBUFS, "raise `ulimit -l` or grant CAP_IPC_LOCK")
        })?;
        let mut frames = descriptors.into_iter().map(Frame);
        let rx = frames.by_ref().take(sizes.rx.get() as usize).collect();
        let room = FRAME_BYTES as usize - XDP_HEADROOM - headroom;
        Ok((Self { umem, room }, rx, frames.collect()))
    }

    /// What the rings are made on.
    pub(crate) const fn umem(&self) -> &Umem {
        &self.umem
    }

    /// Bytes that a frame has for headers and packet.
    pub(crate) const fn room(&self) -> usize {
        self.room
    }

    /// The bytes of a frame that was received.
    #[inline]
    pub(crate) fn received<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        // SAFETY: `frame` belongs to this UMEM: a port has one UMEM and `Frame`s come from nowhere
        // else. Nobody writes to it while it is borrowed: the token is here, so it is in no ring,
        // and address and length in it are those that the kernel wrote into the rx ring for a
        // packet inside the frame.
        unsafe { self.umem.data(&frame.0) }.contents()
    }

    /// Lets `write` fill a frame that is to be sent, and sets the frame's length to the one that it
    /// returns. The slice is [`Self::room`] long.
    #[inline]
    pub(crate) fn write<R>(
        &self,
        frame: &mut Frame,
        write: impl FnOnce(&mut [u8]) -> (usize, R),
    ) -> R {
        // SAFETY: `frame` belongs to this UMEM, as above, and nobody else reads or writes it while
        // it is borrowed mutably: the token is here, so it is in no ring. Frames for sending are
        // never given to the fill ring, so the address is still the one that the UMEM was laid out
        // with.
        let mut data = unsafe { self.umem.data_mut(&mut frame.0) };
        let mut cursor = data.cursor();
        let room = cursor.buf_len();
        cursor.set_pos(room);
        let (length, result) = write(data.contents_mut());
        data.cursor().set_pos(length);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RingSize;

    #[test]
    fn root_frames_are_disjoint_and_aligned() {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: needs CAP_NET_RAW");
            assert!(std::env::var("OFI_XDP_UNPRIVILEGED").is_ok_and(|value| value == "skip"));
            return;
        }
        let sizes = RingSizes { rx: RingSize::MIN, tx: RingSize::MIN };
        let (memory, rx, mut tx) = FrameMemory::new(sizes, 42).unwrap();
        assert_eq!((rx.len(), tx.len()), (64, 64));
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
}
