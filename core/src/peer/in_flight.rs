// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets in flight: a record for each transmitted packet that is not acknowledged.
//!
//! Records live in chunks of 32 out of a pool that all connections share. A connection holds the
//! chunks that its window touches. Up to [`ROOT_SLOTS`] chunks are named by its directory; a larger
//! window borrows *pages* of [`PAGE_CHUNKS`] chunk slots each, and the directory names the pages.
//! One chunk for each connection is reserved, so that a busy connection cannot keep another one
//! from sending. A connection that holds chunks takes another one only while [`SHARE`] times the
//! chunks that are free exceed its own. Source: Choudhury and Hahne, IEEE/ACM Transactions on
//! Networking 6(2), 1998 (dynamic thresholds).

#![allow(clippy::indexing_slicing, reason = "indices are masked to the arrays' lengths")]

mod search;

pub(crate) use search::stretch_end;

use crate::collections::serial::Psn;
use crate::collections::slab::{Slab, Slot, SlotIndex};
use crate::collections::slots::Slots;
use crate::collections::time::Tick;
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ChunkSlot, PageSlot};

/// Records in a chunk.
pub(crate) const CHUNK_PACKETS: u32 = 32;
/// Slots of a directory: chunks of a small window, pages of a large one.
pub(crate) const ROOT_SLOTS: usize = 4;
/// Chunks that a page names.
pub(crate) const PAGE_CHUNKS: usize = 512;
/// Packets that loss detection checks together.
const STRETCH_PACKETS: u32 = 256;
/// Stretches of a page.
const PAGE_STRETCHES: usize = PAGE_CHUNKS * CHUNK_PACKETS as usize / STRETCH_PACKETS as usize;
/// Pages that one window can touch.
pub(crate) const PAGES_PER_PEER: u32 = ROOT_SLOTS as u32;
/// Chunks that one window can touch: none of them is in the page of packets that are just retired.
pub(crate) const CHUNKS_PER_PEER: u32 = ((ROOT_SLOTS - 1) * PAGE_CHUNKS) as u32 + 1;
/// A connection holds at most this many times the chunks that are free.
const SHARE: u32 = 4;

/// A run of packet records, and two bits for each: whether the packet is outstanding, and whether
/// it is lost. Outstanding is neither acknowledged nor lost. The bits repeat the flags of the
/// records, so that a search does not read every record.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct TxChunk {
    packets: [TxPacket; CHUNK_PACKETS as usize],
    outstanding: u32,
    lost: u32,
}

/// Chunks of a large window.
#[derive(Clone, Debug, Hash)]
pub(crate) struct TxPage {
    chunks: [ChunkSlot; PAGE_CHUNKS],
    /// For each stretch: no outstanding packet of it counts from an earlier time. Unknown until
    /// loss detection has checked all of them.
    checked: [Option<Tick>; PAGE_STRETCHES],
}

impl Default for TxPage {
    fn default() -> Self {
        Self { chunks: [ChunkSlot::NONE; PAGE_CHUNKS], checked: [None; PAGE_STRETCHES] }
    }
}

/// The chunks of one connection. The chunk with number `psn / 32` stands at that number modulo the
/// slots: of the directory itself, or of its pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Directory {
    /// The slots are chunks.
    Chunks([ChunkSlot; ROOT_SLOTS]),
    /// The slots are pages.
    Pages([PageSlot; ROOT_SLOTS]),
}

impl Default for Directory {
    fn default() -> Self {
        Self::Chunks([ChunkSlot::NONE; ROOT_SLOTS])
    }
}

impl Directory {
    fn is_empty(&self) -> bool {
        match self {
            Self::Chunks(chunks) => *chunks == [ChunkSlot::NONE; ROOT_SLOTS],
            Self::Pages(pages) => *pages == [PageSlot::NONE; ROOT_SLOTS],
        }
    }
}

/// The pools of chunks and pages.
#[derive(Debug, Hash)]
pub(crate) struct InFlight<'s> {
    chunks: Slab<'s, TxChunk, ChunkSlot>,
    pages: Slab<'s, TxPage, PageSlot>,
    /// Chunks reserved for connections that hold none.
    reserved: u32,
}

/// A set of packets that has an index: its members are found without a visit of each record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketSet {
    /// Neither acknowledged nor taken for lost.
    Outstanding,
    /// Taken for lost.
    Lost,
    /// Not acknowledged.
    Open,
}

impl<'s> InFlight<'s> {
    /// A pool of `chunks`, at least as many as the `peers` that can have a connection at once, and
    /// of `pages`.
    pub(crate) fn new(
        chunks: Slots<'s, Slot<TxChunk>>,
        pages: Slots<'s, Slot<TxPage>>,
        peers: u32,
    ) -> Self {
        Self { chunks: Slab::new(chunks), pages: Slab::new(pages), reserved: peers }
    }

    /// Whether free and used chunks and pages add up.
    pub(crate) fn is_sound(&self) -> bool {
        self.chunks.is_sound() && self.pages.is_sound()
    }

    /// Whether [`Self::push`] of `next` will find room, where `first` is the oldest unacknowledged
    /// number.
    #[inline]
    pub(crate) fn has_room(&self, directory: &Directory, first: Psn, next: Psn) -> bool {
        // A chunk may be there, but be that of `first`, a whole directory earlier.
        let holds = chunks_between(first, next) < slots(directory);
        (holds && self.chunk(directory, next).is_some()) || self.may_take(directory, first, next)
    }

    /// Whether the chunk of `next`, which the connection does not hold, can be taken.
    #[inline(never)]
    fn may_take(&self, directory: &Directory, first: Psn, next: Psn) -> bool {
        let in_use = chunks_between(first, next);
        let free = self.chunks.capacity() - self.chunks.used();
        if directory.is_empty() {
            return free > 0;
        }
        let spare = free.saturating_sub(self.reserved);
        let pages_needed = match directory {
            Directory::Chunks(_) if in_use < ROOT_SLOTS as u32 => return spare > 0,
            // The chunks of a small window may be in two pages, and the next one in a third.
            Directory::Chunks(_) => 3,
            Directory::Pages(pages) => u32::from(pages[page_at(next)].is_none()),
        };
        in_use < CHUNKS_PER_PEER
            && in_use < spare.saturating_mul(SHARE)
            && self.pages.capacity() - self.pages.used() >= pages_needed
    }

    /// Records `packet` as number `psn`, where `first` is the oldest unacknowledged number. Returns
    /// false, and records nothing, if [`Self::has_room`] is false.
    #[inline]
    pub(crate) fn push(
        &mut self,
        directory: &mut Directory,
        first: Psn,
        psn: Psn,
        packet: TxPacket,
    ) -> bool {
        let mut chunk = self.chunk(directory, psn);
        if chunk.is_none() || chunks_between(first, psn) >= slots(directory) {
            let Some(taken) = self.take(directory, first, psn) else { return false };
            chunk = taken;
        }
        let TxChunk { packets, outstanding, lost } = &mut self.chunks[chunk];
        packets[within(psn)] = packet;
        *outstanding |= bit(psn);
        *lost &= !bit(psn);
        true
    }

    /// Takes the chunk of `psn`, and a page for it where the window is large.
    #[inline(never)]
    fn take(&mut self, directory: &mut Directory, first: Psn, psn: Psn) -> Option<ChunkSlot> {
        if !self.may_take(directory, first, psn) {
            return None;
        }
        let was_empty = directory.is_empty();
        if chunks_between(first, psn) >= slots(directory) {
            self.grow(directory, first)?;
        }
        let chunk = self.chunks.alloc(TxChunk::default())?;
        match directory {
            Directory::Chunks(chunks) => chunks[at(psn)] = chunk,
            Directory::Pages(pages) => {
                let page = &mut pages[page_at(psn)];
                if page.is_none() {
                    *page = self.pages.alloc(TxPage::default())?;
                }
                self.pages[*page].chunks[in_page(psn)] = chunk;
            }
        }
        self.reserved -= u32::from(was_empty);
        Some(chunk)
    }

    /// Moves the chunks of a small window, the first of which has `first`, to pages.
    fn grow(&mut self, directory: &mut Directory, first: Psn) -> Option<()> {
        let Directory::Chunks(chunks) = *directory else { return Some(()) };
        let mut pages = [PageSlot::NONE; ROOT_SLOTS];
        for step in 0..ROOT_SLOTS as u32 {
            let psn = first.plus(step * CHUNK_PACKETS);
            let page = &mut pages[page_at(psn)];
            if page.is_none() {
                // At most two pages, which `may_take` has seen.
                *page = self.pages.alloc(TxPage::default())?;
            }
            self.pages[*page].chunks[in_page(psn)] = chunks[at(psn)];
        }
        *directory = Directory::Pages(pages);
        Some(())
    }

    /// The chunk of `psn`, or none.
    #[inline(always)]
    fn chunk(&self, directory: &Directory, psn: Psn) -> ChunkSlot {
        match directory {
            Directory::Chunks(chunks) => chunks[at(psn)],
            Directory::Pages(pages) => match pages[page_at(psn)] {
                page if page.is_none() => ChunkSlot::NONE,
                page => self.pages[page].chunks[in_page(psn)],
            },
        }
    }

    /// The record of `psn`, which must be under way; to be read.
    #[inline(always)]
    pub(crate) fn record(&self, directory: &Directory, psn: Psn) -> Option<&TxPacket> {
        let chunk = self.chunk(directory, psn);
        if chunk.is_none() { None } else { Some(&self.chunks[chunk].packets[within(psn)]) }
    }

    /// The records of `psn`, which must be under way, and of the numbers behind it in its chunk.
    #[inline]
    pub(crate) fn records_from(&self, directory: &Directory, psn: Psn) -> &[TxPacket] {
        let chunk = self.chunk(directory, psn);
        if chunk.is_none() { &[] } else { &self.chunks[chunk].packets[within(psn)..] }
    }

    /// Changes the record of `psn`, which must be under way, and returns it as it was.
    #[inline]
    pub(crate) fn change(
        &mut self,
        directory: &Directory,
        psn: Psn,
        change: impl FnOnce(&mut TxPacket),
    ) -> Option<TxPacket> {
        let chunk = self.chunk(directory, psn);
        if chunk.is_none() {
            return None;
        }
        let TxChunk { packets, outstanding, lost } = &mut self.chunks[chunk];
        let packet = &mut packets[within(psn)];
        let before = *packet;
        change(packet);
        let put =
            |word: &mut u32, is: bool| if is { *word |= bit(psn) } else { *word &= !bit(psn) };
        put(lost, packet.flags.contains(TxFlags::LOST));
        put(outstanding, !packet.flags.intersects(TxFlags::LOST | TxFlags::ACKED));
        Some(before)
    }

    /// Gives back the chunks before `upto`: everything before it is acknowledged, and `first` was
    /// the oldest until now. The chunk of the next packet stays, so that a sender of single packets
    /// does not take and give back a chunk for each.
    #[inline]
    pub(crate) fn retire(&mut self, directory: &mut Directory, first: Psn, upto: Psn) {
        let gone = chunks_between(first, upto);
        // bound: the chunks of one connection
        for step in 0..gone.min(CHUNKS_PER_PEER) {
            self.release(directory, first.plus(step * CHUNK_PACKETS));
        }
        if gone > 0 {
            self.release_pages(directory, first, upto);
        }
    }

    /// Gives back the pages that end before `upto`. A directory of pages that holds one chunk at
    /// most becomes one of chunks.
    fn release_pages(&mut self, directory: &mut Directory, first: Psn, upto: Psn) {
        let Directory::Pages(pages) = directory else { return };
        let span = CHUNK_PACKETS * PAGE_CHUNKS as u32;
        let gone = (upto.0 / span).wrapping_sub(first.0 / span) & (u32::MAX / span);
        // bound: the pages of one connection
        for step in 0..gone.min(PAGES_PER_PEER) {
            let page = &mut pages[(page_at(first) + step as usize) % ROOT_SLOTS];
            if page.is_some() {
                self.pages.release(core::mem::replace(page, PageSlot::NONE));
            }
        }
    }

    /// Turns a directory of pages into one of chunks, when nothing is under way and `next` is the
    /// next number.
    #[inline(always)]
    pub(crate) fn shrink(&mut self, directory: &mut Directory, next: Psn) {
        if let Directory::Pages(pages) = *directory {
            *directory = self.without_pages(directory, pages, next);
        }
    }

    /// The chunk of `next` alone, in place of the `pages` of a directory.
    #[cold]
    fn without_pages(
        &mut self,
        directory: &Directory,
        pages: [PageSlot; ROOT_SLOTS],
        next: Psn,
    ) -> Directory {
        let last = self.chunk(directory, next);
        for page in pages.into_iter().filter(|page| page.is_some()) {
            self.pages.release(page);
        }
        let mut chunks = [ChunkSlot::NONE; ROOT_SLOTS];
        chunks[at(next)] = last;
        self.reserved += u32::from(last.is_none());
        Directory::Chunks(chunks)
    }

    /// Gives back every chunk of a connection with the packets from `first` to `next`.
    pub(crate) fn clear(&mut self, directory: &mut Directory, first: Psn, next: Psn) {
        // bound: the chunks of one connection
        for step in 0..=chunks_between(first, next).min(CHUNKS_PER_PEER - 1) {
            self.release(directory, first.plus(step * CHUNK_PACKETS));
        }
        self.shrink(directory, next);
    }

    fn release(&mut self, directory: &mut Directory, psn: Psn) {
        let chunk = match directory {
            Directory::Chunks(chunks) => core::mem::take(&mut chunks[at(psn)]),
            Directory::Pages(pages) => match pages[page_at(psn)] {
                page if page.is_none() => return,
                page => core::mem::take(&mut self.pages[page].chunks[in_page(psn)]),
            },
        };
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

/// The chunks from that of `first` to the one before that of `next`.
const fn chunks_between(first: Psn, next: Psn) -> u32 {
    chunk_number(next).wrapping_sub(chunk_number(first)) & CHUNK_NUMBER_MASK
}

/// How many chunks a directory can name.
const fn slots(directory: &Directory) -> u32 {
    match directory {
        Directory::Chunks(_) => ROOT_SLOTS as u32,
        Directory::Pages(_) => CHUNKS_PER_PEER,
    }
}

const fn at(psn: Psn) -> usize {
    chunk_number(psn) as usize % ROOT_SLOTS
}

const fn page_at(psn: Psn) -> usize {
    chunk_number(psn) as usize / PAGE_CHUNKS % ROOT_SLOTS
}

const fn in_page(psn: Psn) -> usize {
    chunk_number(psn) as usize % PAGE_CHUNKS
}

const fn within(psn: Psn) -> usize {
    (psn.0 % CHUNK_PACKETS) as usize
}

const fn bit(psn: Psn) -> u32 {
    1 << (psn.0 % CHUNK_PACKETS)
}

#[cfg(test)]
mod tests;
