// SPDX-License-Identifier: MIT OR Apache-2.0
//! Searches among the packets under way of one connection, by the bits of their chunks; the times
//! that loss detection leaves for its next search.
//!
//! In: a set, and where to search. Out: numbers of packets. The sender calls, by
//! [`SendState`](crate::peer::send_state::SendState). Bound: the chunks of the window, each a few
//! instructions.

use super::{
    CHUNK_PACKETS, Directory, InFlight, PAGE_STRETCHES, PacketSet, STRETCH_PACKETS, TxChunk,
    page_at, within,
};
use crate::collections::serial::Psn;
use crate::collections::slab::SlotIndex;
use crate::collections::time::Tick;
use crate::peer::slots::PageSlot;

impl PacketSet {
    /// The members in a chunk.
    #[inline(always)]
    const fn word(self, chunk: &TxChunk) -> u32 {
        match self {
            Self::Outstanding => chunk.outstanding,
            Self::Lost => chunk.lost,
            Self::Open => chunk.outstanding | chunk.lost,
        }
    }
}

/// The number after those of the stretch of `psn`.
pub(crate) const fn stretch_end(psn: Psn) -> Psn {
    psn.plus(STRETCH_PACKETS - psn.0 % STRETCH_PACKETS)
}

const fn stretch_in_page(psn: Psn) -> usize {
    (psn.0 / STRETCH_PACKETS) as usize % PAGE_STRETCHES
}

impl InFlight<'_> {
    /// The first packet of `set` from `psn` on and before `end`.
    #[inline]
    pub(crate) fn find(
        &self,
        directory: &Directory,
        set: PacketSet,
        (psn, end): (Psn, Psn),
    ) -> Option<Psn> {
        let mut psn = psn;
        // bound: the chunks of one connection
        while psn.is_before(end) {
            let rest = self.word(directory, psn, set) >> within(psn);
            if rest != 0 {
                let found = psn.plus(rest.trailing_zeros());
                return found.is_before(end).then_some(found);
            }
            psn = psn.plus(CHUNK_PACKETS - psn.0 % CHUNK_PACKETS);
        }
        None
    }

    /// The last packet of `set` from `first` on and before `end`.
    pub(crate) fn find_last(
        &self,
        directory: &Directory,
        set: PacketSet,
        (first, end): (Psn, Psn),
    ) -> Option<Psn> {
        let mut end = end;
        // bound: the chunks of one connection
        while first.is_before(end) {
            let last = Psn(end.0.wrapping_sub(1));
            let upto = self.word(directory, last, set) << (CHUNK_PACKETS - 1 - within(last) as u32);
            if upto != 0 {
                let found = Psn(last.0.wrapping_sub(upto.leading_zeros()));
                return (!found.is_before(first)).then_some(found);
            }
            end = Psn(last.0.wrapping_sub(within(last) as u32));
        }
        None
    }

    /// The bits of the chunk of `psn`: its packets that are in `set`.
    #[inline]
    fn word(&self, directory: &Directory, psn: Psn, set: PacketSet) -> u32 {
        let chunk = self.chunk(directory, psn);
        if chunk.is_none() { 0 } else { set.word(&self.chunks[chunk]) }
    }

    /// Which of the 64 packets from `psn` on are not acknowledged: bit `i` stands for `psn + i`.
    /// Bits beyond the window mean nothing.
    pub(crate) fn open_from(&self, directory: &Directory, psn: Psn) -> u64 {
        let skip = within(psn) as u32;
        let mut word = u64::from(self.word(directory, psn, PacketSet::Open)) >> skip;
        // bound: the chunks that 64 packets touch
        for chunk in 1..=2 {
            let from = chunk * CHUNK_PACKETS - skip;
            if from < u64::BITS {
                let next = self.word(directory, psn.plus(from), PacketSet::Open);
                word |= u64::from(next) << from;
            }
        }
        word
    }

    /// The time before which no outstanding packet in the stretch of `psn` counts from, if it is
    /// known: see [`Self::set_checked`].
    #[inline]
    pub(crate) fn checked(&self, directory: &Directory, psn: Psn) -> Option<Tick> {
        let page = page_of(directory, psn);
        if page.is_none() { None } else { self.pages[page].checked[stretch_in_page(psn)] }
    }

    /// Records that no outstanding packet in the stretch of `psn` counts from an earlier time than
    /// `oldest`, nor will: all of its packets were sent, and those that go again are sent later.
    /// `None`: that is not known. A window without pages is short, and keeps no such time.
    pub(crate) fn set_checked(&mut self, directory: &Directory, psn: Psn, oldest: Option<Tick>) {
        let page = page_of(directory, psn);
        if page.is_some() {
            self.pages[page].checked[stretch_in_page(psn)] = oldest;
        }
    }
}

/// The page of `psn`, or none.
const fn page_of(directory: &Directory, psn: Psn) -> PageSlot {
    match directory {
        Directory::Chunks(_) => PageSlot::NONE,
        Directory::Pages(pages) => pages[page_at(psn)],
    }
}
