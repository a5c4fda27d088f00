// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is under way: a 16-byte note for each transmitted packet that is not acknowledged.
//!
//! Notes live in extents of 32 out of a pool that all peers share; a peer holds the extents that
//! its window touches, at most [`EXTENTS_PER_PEER`], in a directory that is part of its active
//! state. One extent for each active peer is set aside, so that a busy peer cannot keep another one
//! from sending at all.

#![allow(clippy::indexing_slicing, reason = "indices are masked to the arrays' lengths")]

use crate::OpId;
use crate::serial::Psn;
use crate::slab::{NIL, Slab, Slot};
use crate::time::Tick;
use crate::wire::SEGMENT_QUANTUM;

/// Notes in an extent.
const EXTENT_PACKETS: u32 = 32;
/// Extents that one peer's window can touch.
pub(crate) const EXTENTS_PER_PEER: usize = 8;

bitflags::bitflags! {
    /// State of a transmitted packet.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub(crate) struct TxFlags: u8 {
        /// It carries a part of one operation: `offset` and `len` say which. Otherwise `len` whole
        /// operations from `op` on.
        const PART = 1 << 0;
        /// Selectively acknowledged.
        const ACKED = 1 << 1;
        /// Taken for lost, waiting to be sent again.
        const LOST = 1 << 2;
        /// Sent more than once.
        const RESENT = 1 << 3;
        /// It must not be taken in before everything that was sent before it.
        const BARRIER = 1 << 4;
        /// It brings remote CQ data, which the peer's application is told when everything before it
        /// has arrived; until then its operations cannot end.
        const EVENT = 1 << 5;
    }
}

/// One transmitted packet: enough to write it again, and to credit its operations when it is
/// acknowledged.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct TxPacket {
    /// The first operation in it.
    pub(crate) op: OpId,
    /// Offset of a part in its operation, in units of [`SEGMENT_QUANTUM`] bytes, modulo 2^32:
    /// [`Self::begins_at`] knows the rest.
    pub(crate) offset: u32,
    /// When it was last sent.
    pub(crate) sent_at: Tick,
    /// Bytes of a part, or number of whole operations.
    pub(crate) len: u16,
    pub(crate) flags: TxFlags,
    /// The receiver-not-ready epoch in which it was first sent.
    pub(crate) rnr_epoch: u8,
}

static_assertions::const_assert_eq!(size_of::<TxPacket>(), 16);

/// Parts begin at multiples of this many bytes.
const QUANTUM: u64 = SEGMENT_QUANTUM as u64;

impl TxPacket {
    /// What a note keeps of the offset of a part.
    #[inline]
    pub(crate) const fn note_offset(offset: u64) -> u32 {
        (offset / QUANTUM) as u32
    }

    /// Where the part begins in its operation, of which `sent` bytes have been handed to packets:
    /// the last place before that with these low bits. A window of parts is much less than the
    /// 256 GiB between two of them.
    pub(crate) const fn begins_at(&self, sent: u64) -> u64 {
        let end = sent.div_ceil(QUANTUM);
        let behind = (end as u32).wrapping_sub(self.offset);
        end.saturating_sub(behind as u64) * QUANTUM
    }
}

impl Default for TxPacket {
    fn default() -> Self {
        Self {
            op: OpId::NONE,
            offset: 0,
            sent_at: Tick::default(),
            len: 0,
            flags: TxFlags::empty(),
            rnr_epoch: 0,
        }
    }
}

/// A run of notes.
#[derive(Clone, Debug, Default, Hash)]
pub struct Extent([TxPacket; EXTENT_PACKETS as usize]);

/// One peer's extents: number `psn / 32` modulo 8 is where the notes of that stretch are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Directory([u32; EXTENTS_PER_PEER]);

impl Default for Directory {
    fn default() -> Self {
        Self([NIL; EXTENTS_PER_PEER])
    }
}

impl Directory {
    fn is_empty(&self) -> bool {
        self.0 == [NIL; EXTENTS_PER_PEER]
    }
}

/// The pool of extents.
#[derive(Debug, Hash)]
pub(crate) struct InFlight<'s> {
    extents: Slab<'s, Extent>,
    /// Extents that must stay free for active peers that hold none.
    set_aside: u32,
}

impl<'s> InFlight<'s> {
    /// `slots` are at least as many as `peers` that can be active at once.
    pub(crate) fn new(slots: &'s mut [Slot<Extent>], peers: u32) -> Self {
        Self { extents: Slab::new(slots), set_aside: peers }
    }

    /// Whether free and used extents add up.
    pub(crate) fn is_sound(&self) -> bool {
        self.extents.is_sound()
    }

    /// Whether [`Self::push`] of `next` will find room, where `first` is the oldest unacknowledged
    /// number.
    #[inline]
    pub(crate) fn has_room(&self, directory: &Directory, first: Psn, next: Psn) -> bool {
        if stretch(next).wrapping_sub(stretch(first)) & STRETCH_MASK >= EXTENTS_PER_PEER as u32 {
            return false;
        }
        if directory.0[at(next)] != NIL {
            return true;
        }
        let free = self.extents.capacity() - self.extents.used();
        free > if directory.is_empty() { 0 } else { self.set_aside }
    }

    /// Notes `packet` as number `psn`. Returns false, and notes nothing, where [`Self::has_room`]
    /// says so.
    #[inline]
    pub(crate) fn push(&mut self, directory: &mut Directory, psn: Psn, packet: TxPacket) -> bool {
        let mut extent = directory.0[at(psn)];
        if extent == NIL {
            let Some(taken) = self.take(directory) else { return false };
            directory.0[at(psn)] = taken;
            extent = taken;
        }
        self.extents[extent].0[within(psn)] = packet;
        true
    }

    fn take(&mut self, directory: &Directory) -> Option<u32> {
        let extent = self.extents.alloc(Extent::default())?;
        self.set_aside -= u32::from(directory.is_empty());
        Some(extent)
    }

    /// The note of `psn`, which must be under way; to look at.
    #[inline]
    pub(crate) fn note(&self, directory: &Directory, psn: Psn) -> Option<&TxPacket> {
        let extent = directory.0[at(psn)];
        (extent != NIL).then(|| &self.extents[extent].0[within(psn)])
    }

    /// The note of `psn`, which must be under way.
    #[inline]
    pub(crate) fn packet(&mut self, directory: &Directory, psn: Psn) -> Option<&mut TxPacket> {
        let extent = directory.0[at(psn)];
        (extent != NIL).then(|| &mut self.extents[extent].0[within(psn)])
    }

    /// Everything before `upto` is acknowledged (it was `first` until now): gives back the extents
    /// that are behind. The one that the next packet goes to stays, so that a peer that sends a
    /// packet at a time does not take and give back an extent for each.
    #[inline]
    pub(crate) fn retire(&mut self, directory: &mut Directory, first: Psn, upto: Psn) {
        let gone = stretch(upto).wrapping_sub(stretch(first)) & STRETCH_MASK;
        // bound: the extents of one peer
        for step in 0..gone.min(EXTENTS_PER_PEER as u32) {
            self.release(directory, (at(first) + step as usize) % EXTENTS_PER_PEER);
        }
    }

    /// Gives back everything a peer holds.
    pub(crate) fn clear(&mut self, directory: &mut Directory) {
        for index in 0..EXTENTS_PER_PEER {
            self.release(directory, index);
        }
    }

    fn release(&mut self, directory: &mut Directory, index: usize) {
        let extent = core::mem::replace(&mut directory.0[index], NIL);
        if extent != NIL {
            self.extents.release(extent);
            self.set_aside += u32::from(directory.is_empty());
        }
    }
}

/// Stretch numbers have 27 bits and wrap.
const STRETCH_MASK: u32 = u32::MAX / EXTENT_PACKETS;

const fn stretch(psn: Psn) -> u32 {
    psn.0 / EXTENT_PACKETS
}

const fn at(psn: Psn) -> usize {
    stretch(psn) as usize % EXTENTS_PER_PEER
}

const fn within(psn: Psn) -> usize {
    (psn.0 % EXTENT_PACKETS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec;

    #[derive(Default)]
    struct Peer {
        directory: Directory,
        first: Psn,
        model: VecDeque<u32>,
    }

    proptest! {
        #[test]
        fn in_flight_is_a_queue_for_each_peer(
            bases: [u32; 3],
            spare in 0usize..6,
            steps in prop::collection::vec((0usize..3, any::<bool>(), 1u32..70), 1..80),
        ) {
            let mut slots = vec![Slot::<Extent>::default(); 3 + spare];
            let mut pool = InFlight::new(&mut slots, 3);
            let mut peers = bases.map(|base| Peer { first: Psn(base), ..Peer::default() });
            let mut stamp = 0;
            for (who, push, count) in steps {
                let peer = &mut peers[who];
                for _ in 0..count {
                    let next = peer.first.plus(peer.model.len() as u32);
                    if push {
                        let room = pool.has_room(&peer.directory, peer.first, next);
                        let holds = !peer.model.is_empty() || !peer.directory.is_empty();
                        prop_assert!(room || holds, "its own extent is set aside");
                        if room {
                            stamp += 1;
                            let sent_at = Tick::from_bits(stamp);
                            let packet = TxPacket { sent_at, ..TxPacket::default() };
                            prop_assert!(pool.push(&mut peer.directory, next, packet));
                            peer.model.push_back(stamp);
                        }
                    } else if peer.model.pop_front().is_some() {
                        let upto = peer.first.plus(1);
                        pool.retire(&mut peer.directory, peer.first, upto);
                        peer.first = upto;
                    }
                }
                for peer in &peers {
                    for (psn, &stamp) in (0..).map(|n| peer.first.plus(n)).zip(&peer.model) {
                        let found = pool.packet(&peer.directory, psn).map(|p| p.sent_at.bits());
                        prop_assert_eq!(found, Some(stamp));
                    }
                    prop_assert!(!peer.directory.is_empty() || peer.model.is_empty());
                }
            }
            for peer in &mut peers {
                pool.clear(&mut peer.directory);
            }
            prop_assert_eq!((pool.extents.used(), pool.set_aside), (0, 3));
        }
    }
}
