// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets in flight: a 16-byte record for each transmitted packet that is not acknowledged.
//!
//! Records live in chunks of 32 out of a pool that all connections share. A connection holds the
//! chunks that its window touches, at most [`CHUNKS_PER_PEER`], in its directory. One chunk for
//! each connection is reserved, so that a busy connection cannot keep another one from sending.

#![allow(clippy::indexing_slicing, reason = "indices are masked to the arrays' lengths")]

use crate::OpId;
use crate::collections::serial::Psn;
use crate::collections::slab::{Slab, Slot, SlotIndex};
use crate::collections::time::Tick;
use crate::peer::slots::ChunkSlot;
use crate::wire::SEGMENT_QUANTUM;

/// Records in a chunk.
const CHUNK_PACKETS: u32 = 32;
/// Chunks that one window can touch.
pub(crate) const CHUNKS_PER_PEER: usize = 8;

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
        const RETRANSMITTED = 1 << 3;
        /// It must not be processed before all packets that were sent before it.
        const BARRIER = 1 << 4;
        /// It brings remote CQ data. The event is delivered when everything before it has arrived;
        /// until then its operations cannot end.
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
    /// The offset of a part as a record keeps it.
    #[inline]
    pub(crate) const fn quantized_offset(offset: u64) -> u32 {
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

/// A run of packet records.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct TxChunk([TxPacket; CHUNK_PACKETS as usize]);

/// The chunks of one connection: number `psn / 32` modulo 8 has the records of that chunk number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Directory([ChunkSlot; CHUNKS_PER_PEER]);

impl Default for Directory {
    fn default() -> Self {
        Self([ChunkSlot::NONE; CHUNKS_PER_PEER])
    }
}

impl Directory {
    fn is_empty(&self) -> bool {
        self.0 == [ChunkSlot::NONE; CHUNKS_PER_PEER]
    }
}

/// The pool of chunks.
#[derive(Debug, Hash)]
pub(crate) struct InFlight<'s> {
    chunks: Slab<'s, TxChunk, ChunkSlot>,
    /// Chunks reserved for connections that hold none.
    reserved: u32,
}

impl<'s> InFlight<'s> {
    /// A pool of `slots`, at least as many as the `peers` that can have a connection at once.
    pub(crate) fn new(slots: &'s mut [Slot<TxChunk>], peers: u32) -> Self {
        Self { chunks: Slab::new(slots), reserved: peers }
    }

    /// Whether free and used chunks add up.
    pub(crate) fn is_sound(&self) -> bool {
        self.chunks.is_sound()
    }

    /// Whether [`Self::push`] of `next` will find room, where `first` is the oldest unacknowledged
    /// number.
    #[inline]
    pub(crate) fn has_room(&self, directory: &Directory, first: Psn, next: Psn) -> bool {
        if chunk_number(next).wrapping_sub(chunk_number(first)) & CHUNK_NUMBER_MASK
            >= CHUNKS_PER_PEER as u32
        {
            return false;
        }
        if directory.0[at(next)] != ChunkSlot::NONE {
            return true;
        }
        let free = self.chunks.capacity() - self.chunks.used();
        free > if directory.is_empty() { 0 } else { self.reserved }
    }

    /// Records `packet` as number `psn`. Returns false, and records nothing, if [`Self::has_room`]
    /// is false.
    #[inline]
    pub(crate) fn push(&mut self, directory: &mut Directory, psn: Psn, packet: TxPacket) -> bool {
        let mut chunk = directory.0[at(psn)];
        if chunk.is_none() {
            let Some(taken) = self.take(directory) else { return false };
            directory.0[at(psn)] = taken;
            chunk = taken;
        }
        self.chunks[chunk].0[within(psn)] = packet;
        true
    }

    fn take(&mut self, directory: &Directory) -> Option<ChunkSlot> {
        let chunk = self.chunks.alloc(TxChunk::default())?;
        self.reserved -= u32::from(directory.is_empty());
        Some(chunk)
    }

    /// The record of `psn`, which must be under way; to be read.
    #[inline]
    pub(crate) fn record(&self, directory: &Directory, psn: Psn) -> Option<&TxPacket> {
        let chunk = directory.0[at(psn)];
        (chunk.is_some()).then(|| &self.chunks[chunk].0[within(psn)])
    }

    /// The record of `psn`, which must be under way.
    #[inline]
    pub(crate) fn record_mut(&mut self, directory: &Directory, psn: Psn) -> Option<&mut TxPacket> {
        let chunk = directory.0[at(psn)];
        (chunk.is_some()).then(|| &mut self.chunks[chunk].0[within(psn)])
    }

    /// Gives back the chunks before `upto`: everything before it is acknowledged, and `first` was
    /// the oldest until now. The chunk of the next packet stays, so that a sender of single packets
    /// does not take and give back a chunk for each.
    #[inline]
    pub(crate) fn retire(&mut self, directory: &mut Directory, first: Psn, upto: Psn) {
        let gone = chunk_number(upto).wrapping_sub(chunk_number(first)) & CHUNK_NUMBER_MASK;
        // bound: the chunks of one connection
        for step in 0..gone.min(CHUNKS_PER_PEER as u32) {
            self.release(directory, (at(first) + step as usize) % CHUNKS_PER_PEER);
        }
    }

    /// Gives back every chunk of a connection.
    pub(crate) fn clear(&mut self, directory: &mut Directory) {
        for index in 0..CHUNKS_PER_PEER {
            self.release(directory, index);
        }
    }

    fn release(&mut self, directory: &mut Directory, index: usize) {
        let chunk = core::mem::replace(&mut directory.0[index], ChunkSlot::NONE);
        if chunk.is_some() {
            self.chunks.release(chunk);
            self.reserved += u32::from(directory.is_empty());
        }
    }
}

/// Chunk numbers have 27 bits and wrap.
const CHUNK_NUMBER_MASK: u32 = u32::MAX / CHUNK_PACKETS;

const fn chunk_number(psn: Psn) -> u32 {
    psn.0 / CHUNK_PACKETS
}

const fn at(psn: Psn) -> usize {
    chunk_number(psn) as usize % CHUNKS_PER_PEER
}

const fn within(psn: Psn) -> usize {
    (psn.0 % CHUNK_PACKETS) as usize
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
            let mut slots = vec![Slot::<TxChunk>::default(); 3 + spare];
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
                        prop_assert!(room || holds, "its own chunk is set aside");
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
                        let found = pool.record_mut(&peer.directory, psn).map(|p| p.sent_at.bits());
                        prop_assert_eq!(found, Some(stamp));
                    }
                    prop_assert!(!peer.directory.is_empty() || peer.model.is_empty());
                }
            }
            for peer in &mut peers {
                pool.clear(&mut peer.directory);
            }
            prop_assert_eq!((pool.chunks.used(), pool.reserved), (0, 3));
        }
    }
}
