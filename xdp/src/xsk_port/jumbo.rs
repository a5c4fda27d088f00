// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets longer than a frame (multi-buffer `AF_XDP`, `XDP_USE_SG`; Linux 6.6 and newer).
//!
//! A frame is a page at most (`net/xdp/xdp_umem.c`, `xdp_umem_reg`), whatever the memory behind it;
//! a link's MTU may be 9000. Then a packet is cut on its way out, into as many frames as it takes,
//! and joined on its way in: each a copy, which costs less than the packets that are saved. Only a
//! port whose packets can be longer than a frame has a [`Jumbo`]; for others nothing changes.
//! `xsk_port.rs` calls. Bounds: [`PIECES_MAX`] frames a packet, one packet each way.

use ofi_xdp_core::Transmitted;
use ofi_xdp_core::frame;

use super::{Outgoing, XskPort, headers};
use crate::frame::Frame;
use crate::stats::PortStats;

/// Most frames of one packet: a 9000-byte MTU takes three. What is longer was not sent by us.
const PIECES_MAX: usize = 4;

/// Room for one packet each way.
#[derive(Debug)]
pub(super) struct Jumbo {
    /// Frames that the longest packet takes, headers and all.
    pieces: usize,
    /// The packet that goes out, with its headers.
    out: Box<[u8]>,
    /// Its frames.
    cut: Vec<Frame>,
    /// The packet that comes in.
    joined: Vec<u8>,
    state: Joined,
}

/// What is in `joined`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Joined {
    /// Nothing, or a packet that was handed on.
    Done,
    /// The beginning of a packet.
    Part,
    /// The beginning of one that is longer than any of ours.
    TooLong,
}

impl Jumbo {
    /// For packets that are up to `longest` bytes with their headers, in frames of `room` bytes;
    /// `None` where each fits in one frame, and where one does not fit in [`PIECES_MAX`].
    pub(super) fn new(longest: usize, room: usize) -> Option<Self> {
        let pieces = longest.div_ceil(room.max(1));
        (2..=PIECES_MAX).contains(&pieces).then(|| Self {
            pieces,
            out: vec![0; longest].into_boxed_slice(),
            cut: Vec::with_capacity(PIECES_MAX),
            joined: Vec::with_capacity(PIECES_MAX * room),
            state: Joined::Done,
        })
    }

    /// Frames that the longest packet takes.
    pub(super) const fn pieces(&self) -> usize {
        self.pieces
    }

    /// Takes one received frame; the packet that it ends. One that is too long comes out empty.
    #[inline]
    pub(super) fn join<'a>(&'a mut self, piece: &'a [u8], more: bool) -> Option<&'a [u8]> {
        if self.state == Joined::Done {
            if !more {
                return Some(piece);
            }
            self.joined.clear();
            self.state = Joined::Part;
        }
        // Within what was allocated, for ever.
        if self.joined.len() + piece.len() > self.joined.capacity() {
            self.state = Joined::TooLong;
        }
        if self.state == Joined::Part {
            self.joined.extend_from_slice(piece);
        }
        if more {
            return None;
        }
        let too_long = self.state == Joined::TooLong;
        self.state = Joined::Done;
        Some(if too_long { &[] } else { &self.joined })
    }
}

impl XskPort {
    /// As [`XskPort::transmit`], for packets that may take several frames.
    pub(super) fn transmit_cut(
        &mut self,
        stats: &mut PortStats,
        write: impl FnOnce(&mut [u8]) -> Option<Outgoing>,
    ) -> Transmitted {
        let Some(jumbo) = &mut self.jumbo else {
            return Transmitted::Full;
        };
        if self.free.len() < jumbo.pieces {
            self.rings.reclaim(&mut self.free);
        }
        if self.free.len() < jumbo.pieces {
            return Transmitted::Full;
        }
        let packet = self.headers..self.headers + self.payload_max;
        let written = jumbo.out.get_mut(packet).and_then(write).and_then(|outgoing| {
            let end = self.headers + outgoing.len.min(self.payload_max);
            let headers = headers(self.mac, self.local, &outgoing);
            frame::emit(&headers, &mut jumbo.out, self.headers..end).ok()
        });
        let Some(bytes) = written.and_then(|range| jumbo.out.get(range)) else {
            return Transmitted::Nothing;
        };
        for piece in bytes.chunks(self.memory.room()) {
            let Some(mut frame) = self.free.pop() else { break };
            self.memory.write(&mut frame, |room| {
                let room = room.get_mut(..piece.len()).unwrap_or_default();
                room.copy_from_slice(piece);
                (room.len(), ())
            });
            jumbo.cut.push(frame);
        }
        let count = jumbo.cut.len();
        if !self.rings.send_packet(&mut jumbo.cut) {
            self.free.append(&mut jumbo.cut);
            return Transmitted::Full;
        }
        self.queued += u32::try_from(count).unwrap_or(0);
        stats.xsk_transmitted += 1;
        Transmitted::Sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packets_that_take_several_frames_have_one() {
        for (longest, pieces) in [(1514, 0), (3818, 0), (3819, 2), (9014, 3), (15_272, 4)] {
            let made = Jumbo::new(longest, 3818);
            assert_eq!(made.map_or(0, |jumbo| jumbo.pieces), pieces, "{longest}");
        }
        assert!(Jumbo::new(65_549, 3818).is_none());
        assert!(Jumbo::new(9014, 0).is_none());
    }

    #[test]
    fn pieces_become_packets() {
        let mut jumbo = Jumbo::new(30, 10).unwrap();
        assert_eq!(jumbo.join(b"single", false), Some(&b"single"[..]));
        assert_eq!(jumbo.join(b"one,", true), None);
        assert_eq!(jumbo.join(b"two,", true), None);
        assert_eq!(jumbo.join(b"three", false), Some(&b"one,two,three"[..]));
        assert_eq!(jumbo.join(b"again", false), Some(&b"again"[..]));
        assert_eq!(jumbo.join(b"a", true), None);
        assert_eq!(jumbo.join(b"b", false), Some(&b"ab"[..]));
    }

    #[test]
    fn what_is_too_long_comes_out_empty_and_allocates_nothing() {
        let mut jumbo = Jumbo::new(30, 10).unwrap();
        let capacity = jumbo.joined.capacity();
        for _ in 0..100 {
            assert_eq!(jumbo.join(&[7; 10], true), None);
        }
        assert_eq!(jumbo.join(&[7; 10], false), Some(&[][..]));
        assert_eq!(jumbo.joined.capacity(), capacity);
        assert_eq!(jumbo.join(b"next", false), Some(&b"next"[..]));
    }
}
