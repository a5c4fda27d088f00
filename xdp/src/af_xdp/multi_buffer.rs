// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multi-buffer packets: packets longer than a frame (`XDP_USE_SG`; Linux 6.6 and newer).
//!
//! A frame is a page at most (`net/xdp/xdp_umem.c`, `xdp_umem_reg`), and the MTU of a link may be
//! 9000. An outgoing packet is split into fragments of a frame each; the fragments of an incoming
//! packet are joined. Each costs a copy, which is cheaper than more packets. Only a port with
//! packets longer than a frame has a [`MultiBuffer`].
//!
//! In: a packet, or its fragments. Out: the other of the two. Caller: the `AF_XDP` port. Bounds:
//! [`FRAGMENTS_MAX`] fragments a packet, one packet each way.

use std::ops::Range;

use crate::xsk::umem::{UmemChunk, UmemMapping};

/// Maximum number of fragments of a packet: a 9000-byte MTU takes three. Longer packets come from
/// other programs.
const FRAGMENTS_MAX: usize = 4;

/// Room for one packet each way.
#[derive(Debug)]
pub(super) struct MultiBuffer {
    /// Fragments of the longest packet, headers included.
    fragments: usize,
    /// The outgoing packet, with its headers.
    out: Box<[u8]>,
    /// The chunks of its fragments.
    chunks: Vec<UmemChunk>,
    /// The incoming packet.
    joined: Vec<u8>,
    state: Joined,
}

/// State of `joined`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Joined {
    /// Empty, or a complete packet.
    Done,
    /// The beginning of a packet.
    Part,
    /// The beginning of a packet that is longer than the limit.
    TooLong,
}

impl MultiBuffer {
    /// Room for packets of up to `longest` bytes, headers included, in frames of `room` bytes.
    /// `None` if each packet fits in one frame, or if the longest does not fit in
    /// [`FRAGMENTS_MAX`].
    pub(super) fn new(longest: usize, room: usize) -> Option<Self> {
        let fragments = longest.div_ceil(room.max(1));
        (2..=FRAGMENTS_MAX).contains(&fragments).then(|| Self {
            fragments,
            out: vec![0; longest].into_boxed_slice(),
            chunks: Vec::with_capacity(FRAGMENTS_MAX),
            joined: Vec::with_capacity(FRAGMENTS_MAX * room),
            state: Joined::Done,
        })
    }

    /// Fragments of the longest packet.
    pub(super) const fn fragments(&self) -> usize {
        self.fragments
    }

    /// Room for the outgoing packet, with its headers.
    pub(super) fn packet(&mut self) -> &mut [u8] {
        &mut self.out
    }

    /// Copies bytes `range` of [`Self::packet`] into chunks of `free`, and returns these chunks.
    pub(super) fn split(
        &mut self,
        range: Range<usize>,
        memory: &UmemMapping,
        free: &mut Vec<UmemChunk>,
    ) -> &mut Vec<UmemChunk> {
        let bytes = self.out.get(range).unwrap_or_default();
        for fragment in bytes.chunks(memory.room()) {
            let Some(mut chunk) = free.pop() else { break };
            memory.write(&mut chunk, |room| {
                let room = room.get_mut(..fragment.len()).unwrap_or_default();
                room.copy_from_slice(fragment);
                (room.len(), ())
            });
            self.chunks.push(chunk);
        }
        &mut self.chunks
    }

    /// Takes one received fragment, and returns the packet that it completes. A packet that is too
    /// long comes out empty.
    #[inline]
    pub(super) fn join<'a>(&'a mut self, fragment: &'a [u8], more: bool) -> Option<&'a [u8]> {
        if self.state == Joined::Done {
            if !more {
                return Some(fragment);
            }
            self.joined.clear();
            self.state = Joined::Part;
        }
        // The allocation never grows.
        if self.joined.len() + fragment.len() > self.joined.capacity() {
            self.state = Joined::TooLong;
        }
        if self.state == Joined::Part {
            self.joined.extend_from_slice(fragment);
        }
        if more {
            return None;
        }
        let too_long = self.state == Joined::TooLong;
        self.state = Joined::Done;
        Some(if too_long { &[] } else { &self.joined })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packets_that_take_several_frames_have_one() {
        for (longest, fragments) in [(1514, 0), (3818, 0), (3819, 2), (9014, 3), (15_272, 4)] {
            let made = MultiBuffer::new(longest, 3818);
            assert_eq!(
                made.map_or(0, |multi_buffer| multi_buffer.fragments),
                fragments,
                "{longest}"
            );
        }
        assert!(MultiBuffer::new(65_549, 3818).is_none());
        assert!(MultiBuffer::new(9014, 0).is_none());
    }

    #[test]
    fn fragments_become_packets() {
        let mut multi_buffer = MultiBuffer::new(30, 10).unwrap();
        assert_eq!(multi_buffer.join(b"single", false), Some(&b"single"[..]));
        assert_eq!(multi_buffer.join(b"one,", true), None);
        assert_eq!(multi_buffer.join(b"two,", true), None);
        assert_eq!(multi_buffer.join(b"three", false), Some(&b"one,two,three"[..]));
        assert_eq!(multi_buffer.join(b"again", false), Some(&b"again"[..]));
        assert_eq!(multi_buffer.join(b"a", true), None);
        assert_eq!(multi_buffer.join(b"b", false), Some(&b"ab"[..]));
    }

    #[test]
    fn a_packet_that_is_too_long_comes_out_empty_and_allocates_nothing() {
        let mut multi_buffer = MultiBuffer::new(30, 10).unwrap();
        let capacity = multi_buffer.joined.capacity();
        for _ in 0..100 {
            assert_eq!(multi_buffer.join(&[7; 10], true), None);
        }
        assert_eq!(multi_buffer.join(&[7; 10], false), Some(&[][..]));
        assert_eq!(multi_buffer.joined.capacity(), capacity);
        assert_eq!(multi_buffer.join(b"next", false), Some(&b"next"[..]));
    }
}
