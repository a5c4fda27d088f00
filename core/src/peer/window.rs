// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive window: which packets of one peer have arrived (`docs/PROTOCOL.md` §4.2).
//!
//! A cumulative number, and a bitmap of the packets from it on. A packet number is admitted once in
//! an epoch; therefore every record takes effect exactly once. The bits of [`INLINE_PACKETS`]
//! packets stand in the window itself. While a packet is missing, a wider window borrows pages of a
//! pool that all connections share.
//!
//! In: packet numbers. Out: an admission for each, and the bitmap of selective acknowledgments.
//! Bounds: [`WINDOW_PACKETS`], and the pages of the pool. An insertion moves the cumulative number
//! over at most the whole window; all else is O(1).

#![allow(clippy::indexing_slicing, reason = "indices are masked to the arrays' lengths")]

use crate::api::hosts::Host;
use crate::collections::serial::Psn;
use crate::collections::slab::{Slab, Slot, SlotIndex};
use crate::collections::slots::Slots;
use crate::peer::slots::BitsSlot;
use zerocopy::native_endian::U64;

/// How many packets from the cumulative number on the window can span.
pub const WINDOW_PACKETS: u32 = 48 << 10;
/// How many of them it spans without a page.
const INLINE_PACKETS: u32 = 128;
/// Words of 64 bits for those.
const INLINE_WORDS: usize = (INLINE_PACKETS / 64) as usize;
/// Packets of a page.
const PAGE_PACKETS: u32 = 16 << 10;
/// Pages that one window can touch: that of the cumulative number, and those of the packets beyond.
/// A page is given back when its packets have been passed.
const PAGES: usize = 4;
/// The most pages that an insertion takes: for the inline bits two, for the packet another one.
const PAGES_FOR_GROWTH: u32 = 3;

// No packet of the window has its bit in the page of packets that are just passed.
static_assertions::const_assert!(WINDOW_PACKETS <= PAGE_PACKETS * (PAGES as u32 - 1));

/// The bits of a run of packets.
#[derive(Clone, Debug, Hash)]
pub(crate) struct BitsPage {
    bits: [u64; (PAGE_PACKETS / 64) as usize],
    /// The host of an unnamed peer.
    host: Option<Host>,
}

impl Default for BitsPage {
    fn default() -> Self {
        Self { bits: [0; (PAGE_PACKETS / 64) as usize], host: None }
    }
}

/// The pages that wide windows borrow.
#[derive(Debug, Hash)]
pub(crate) struct BitsPool<'s>(Slab<'s, BitsPage, BitsSlot>);

impl<'s> BitsPool<'s> {
    /// A pool of `pages`.
    pub(crate) fn new(pages: Slots<'s, Slot<BitsPage>>) -> Self {
        Self(Slab::new(pages))
    }

    /// Whether free and used pages add up.
    pub(crate) fn is_sound(&self) -> bool {
        self.0.is_sound()
    }

    fn free(&self) -> u32 {
        self.0.capacity() - self.0.used()
    }

    /// Whether `pages` are free for a peer at `host`, which has no more than are free. `None`: a
    /// named peer, to which only the first applies. Bound: the pages.
    fn has_room(&self, host: Option<Host>, pages: u32) -> bool {
        let of_host =
            |host| self.0.used_slots().filter(move |&page| self.0[page].host == Some(host));
        let is_shared = |host| of_host(host).count() as u32 <= self.free();
        self.free() >= pages && host.is_none_or(is_shared)
    }

    /// The word of a page that has the bit of `psn`; 0 without a page.
    fn word(&self, pages: &[BitsSlot; PAGES], psn: Psn) -> u64 {
        let page = pages[page_at(psn)];
        if page.is_none() { 0 } else { self.0[page].bits[word_at(psn)] }
    }

    /// The 64 bits from `psn` on.
    fn bits_from(&self, pages: &[BitsSlot; PAGES], psn: Psn) -> u64 {
        let skip = psn.0 % 64;
        let low = self.word(pages, psn) >> skip;
        if skip == 0 { low } else { low | self.word(pages, psn.plus(64)) << (64 - skip) }
    }

    /// Sets the bit of `psn`. Returns false where its page is missing, and none is free.
    fn set(&mut self, pages: &mut [BitsSlot; PAGES], psn: Psn, host: Option<Host>) -> bool {
        let page = &mut pages[page_at(psn)];
        if page.is_none() {
            let taken = self.0.alloc(BitsPage { host, ..BitsPage::default() });
            let Some(taken) = taken else { return false };
            *page = taken;
        }
        self.0[*page].bits[word_at(psn)] |= 1 << (psn.0 % 64);
        true
    }

    /// Gives back the page before `next`, if that is the first number of a page.
    fn release_passed(&mut self, pages: &mut [BitsSlot; PAGES], next: Psn) {
        if next.0.is_multiple_of(PAGE_PACKETS) {
            self.release(&mut pages[page_at(next.plus(u32::MAX))]);
        }
    }

    fn release(&mut self, page: &mut BitsSlot) {
        if page.is_some() {
            self.0.release(core::mem::take(page));
        }
    }
}

const fn page_at(psn: Psn) -> usize {
    (psn.0 / PAGE_PACKETS) as usize % PAGES
}

const fn word_at(psn: Psn) -> usize {
    (psn.0 % PAGE_PACKETS / 64) as usize
}

/// The decision of the window on a packet number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// Not seen yet.
    Fresh,
    /// Seen before.
    Duplicate,
    /// Too far ahead to be remembered.
    Beyond,
}

/// Which packets after the cumulative number have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Bits {
    /// Bit `i` stands for `next + i`. The alignment of `u64` would cost each connection 8 bytes.
    Inline([U64; INLINE_WORDS]),
    /// Each packet has its bit at its number, modulo the pages. Bits outside of the window are 0.
    Pages([BitsSlot; PAGES]),
}

/// Cumulative number and bitmap. The bit of `next` is never set between calls.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ReceiveWindow {
    next: Psn,
    /// The number after the highest that has arrived.
    end: Psn,
    bits: Bits,
}

impl Default for ReceiveWindow {
    fn default() -> Self {
        Self::new(Psn(0))
    }
}

impl ReceiveWindow {
    /// Nothing before `next` is missing, nothing from it on has arrived.
    pub(crate) const fn new(next: Psn) -> Self {
        Self { next, end: next, bits: Bits::Inline([U64::ZERO; INLINE_WORDS]) }
    }

    /// The lowest number that has not arrived: `ack_psn`.
    #[inline(always)]
    pub(crate) const fn next(&self) -> Psn {
        self.next
    }

    /// The number after the highest that has arrived.
    #[inline(always)]
    pub(crate) const fn end(&self) -> Psn {
        self.end
    }

    /// Whether the lowest missing number is not marked as arrived, which holds between calls.
    pub(crate) fn is_sound(&self, pool: &BitsPool<'_>) -> bool {
        let first = match &self.bits {
            Bits::Inline([first, ..]) => first.get(),
            Bits::Pages(pages) => pool.bits_from(pages, self.next),
        };
        first & 1 == 0 && (self.has_holes() || first == 0)
    }

    /// Whether something beyond a missing packet has arrived.
    #[inline(always)]
    pub(crate) const fn has_holes(&self) -> bool {
        self.end.0 != self.next.0
    }

    /// The decision on `psn`, of an unnamed peer at `host` or of a named one; changes nothing. The
    /// lowest missing number is always fresh: the window cannot move without it.
    #[inline]
    pub(crate) fn admission(
        &self,
        pool: &BitsPool<'_>,
        psn: Psn,
        host: impl Fn() -> Option<Host>,
    ) -> Admission {
        if psn == self.next {
            return Admission::Fresh;
        }
        if psn.is_before(self.next) {
            return Admission::Duplicate;
        }
        let distance = psn.since(self.next);
        let arrived = match &self.bits {
            Bits::Inline(bits) if distance < INLINE_PACKETS => {
                bits[(distance / 64) as usize].get() >> (distance % 64)
            }
            _ if distance > WINDOW_PACKETS => return Admission::Beyond,
            Bits::Inline(_) if !pool.has_room(host(), PAGES_FOR_GROWTH) => {
                return Admission::Beyond;
            }
            Bits::Inline(_) => 0,
            Bits::Pages(pages) if pages[page_at(psn)].is_none() && !pool.has_room(host(), 1) => {
                return Admission::Beyond;
            }
            Bits::Pages(pages) => pool.bits_from(pages, psn),
        };
        if arrived & 1 == 1 { Admission::Duplicate } else { Admission::Fresh }
    }

    /// Remembers that `psn`, which was [`Admission::Fresh`], has been placed. Pages that it takes
    /// count for `host`; the lowest missing number takes none.
    #[inline]
    pub(crate) fn insert(&mut self, pool: &mut BitsPool<'_>, psn: Psn, host: Option<Host>) {
        if psn == self.next && !self.has_holes() {
            self.next = psn.plus(1);
            self.end = self.next;
        } else {
            self.insert_out_of_order(pool, psn, host);
        }
    }

    fn insert_out_of_order(&mut self, pool: &mut BitsPool<'_>, psn: Psn, host: Option<Host>) {
        let distance = psn.since(self.next);
        if distance == 0 {
            return self.advance(pool);
        }
        if distance >= INLINE_PACKETS {
            self.widen(pool, host);
        }
        match &mut self.bits {
            Bits::Inline(bits) => {
                bits[(distance / 64) as usize % INLINE_WORDS] |= 1 << (distance % 64);
            }
            Bits::Pages(pages) => {
                let remembered = pool.set(pages, psn, host);
                debug_assert!(remembered, "`admission` has seen a free page");
            }
        }
        if self.end.is_before(psn.plus(1)) {
            self.end = psn.plus(1);
        }
    }

    /// Moves the inline bits to pages.
    fn widen(&mut self, pool: &mut BitsPool<'_>, host: Option<Host>) {
        let Bits::Inline(bits) = self.bits else { return };
        let mut pages = [BitsSlot::NONE; PAGES];
        for (word, from) in bits.into_iter().zip((0u32..).step_by(64)) {
            let mut rest = word.get();
            // bound: the bits of a word
            while rest != 0 {
                let psn = self.next.plus(from + rest.trailing_zeros());
                let remembered = pool.set(&mut pages, psn, host);
                debug_assert!(remembered, "`admission` has seen free pages");
                rest &= rest - 1;
            }
        }
        self.bits = Bits::Pages(pages);
    }

    /// Moves `next` over the packet that it stands for, and over all that has arrived behind it
    /// without a gap.
    fn advance(&mut self, pool: &mut BitsPool<'_>) {
        self.next = self.next.plus(1);
        match &mut self.bits {
            Bits::Inline(bits) => {
                *bits = shifted(*bits, 1);
                // bound: INLINE_WORDS whole words and one part of a word
                loop {
                    let run = bits[0].get().trailing_ones();
                    *bits = shifted(*bits, run);
                    self.next = self.next.plus(run);
                    if run < 64 {
                        return;
                    }
                }
            }
            Bits::Pages(pages) => {
                pool.release_passed(pages, self.next);
                // bound: the words of the window
                loop {
                    let skip = self.next.0 % 64;
                    let run = (pool.word(pages, self.next) >> skip).trailing_ones().min(64 - skip);
                    if run == 0 {
                        break;
                    }
                    let page = pages[page_at(self.next)];
                    let passed = u64::MAX >> (64 - run) << skip;
                    pool.0[page].bits[word_at(self.next)] &= !passed;
                    self.next = self.next.plus(run);
                    pool.release_passed(pages, self.next);
                    if run + skip < 64 {
                        break;
                    }
                }
            }
        }
        if !self.has_holes() {
            self.release(pool);
        }
    }

    /// Gives every page back, and forgets the packets that arrived after a missing one.
    pub(crate) fn release(&mut self, pool: &mut BitsPool<'_>) {
        if let Bits::Pages(pages) = &mut self.bits {
            pages.iter_mut().for_each(|page| pool.release(page));
        }
        *self = Self::new(self.next);
    }

    /// 64 bits of the bitmap as acknowledgments carry it: bit `i` stands for
    /// `next + 1 + 64 · word + i`.
    pub(crate) fn sack_word(&self, pool: &BitsPool<'_>, word: u32) -> u64 {
        match &self.bits {
            Bits::Inline(bits) => shifted(*bits, 1).get(word as usize).map_or(0, |word| word.get()),
            Bits::Pages(pages) => pool.bits_from(pages, self.next.plus(1 + 64 * word)),
        }
    }
}

/// Inline bits from bit `by` on, which is 64 at most.
fn shifted(bits: [U64; INLINE_WORDS], by: u32) -> [U64; INLINE_WORDS] {
    let [a, b] = bits.map(U64::get);
    let words = match by {
        0 => return bits,
        64 => [b, 0],
        _ => [a >> by | b << (64 - by), b >> by],
    };
    words.map(U64::new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec;

    proptest! {
        #[test]
        fn window_is_a_set_of_numbers(
            base: u32,
            reach in prop::sample::select(vec![300u32, 3_000, 20_000, 70_000]),
            pages in 0usize..6,
            steps in prop::collection::vec(0u32..70_000, 1..600),
            fill in any::<bool>(),
        ) {
            let slots = Slots::with_room(pages).unwrap();
            let mut pool = BitsPool::new(slots);
            let mut window = ReceiveWindow::new(Psn(base));
            let mut next = 0u64; // distance of the cumulative number from `base`
            let mut above = BTreeSet::new();
            for step in steps {
                // Numbers from a little below the window to a little beyond it.
                let step = if fill && step % 3 > 0 { 20 } else { step % reach };
                let number = (next + u64::from(step)).saturating_sub(20);
                let psn = Psn(base.wrapping_add(number as u32));
                let admission = window.admission(&pool, psn, || None);
                if number < next || above.contains(&number) {
                    prop_assert_eq!(admission, Admission::Duplicate);
                } else if number > next + u64::from(WINDOW_PACKETS) {
                    prop_assert_eq!(admission, Admission::Beyond);
                } else {
                    // A full ring has no page for growth. The lowest missing number needs none.
                    let needs_none = number == next || pages >= 5;
                    prop_assert!(admission == Admission::Fresh || !needs_none);
                }
                if admission == Admission::Fresh {
                    window.insert(&mut pool, psn, None);
                    above.insert(number);
                    while above.remove(&next) {
                        next += 1;
                    }
                }
                prop_assert!(window.is_sound(&pool));
                prop_assert_eq!(window.next(), Psn(base.wrapping_add(next as u32)));
                prop_assert_eq!(window.has_holes(), !above.is_empty());
                let end = above.last().map_or(next, |last| last + 1);
                prop_assert_eq!(window.end(), Psn(base.wrapping_add(end as u32)));
                for &number in &above {
                    let behind = number - next - 1;
                    let word = window.sack_word(&pool, (behind / 64) as u32);
                    prop_assert_eq!(word >> (behind % 64) & 1, 1);
                }
                let count: u32 =
                    (0..1_024).map(|word| window.sack_word(&pool, word).count_ones()).sum();
                prop_assert_eq!(count as usize, above.len());
                if above.is_empty() {
                    prop_assert_eq!(pool.free() as usize, pages);
                }
            }
            window.release(&mut pool);
            prop_assert_eq!(pool.free() as usize, pages);
        }
    }

    #[test]
    fn a_window_without_pages_spans_128_packets() {
        let mut pool = BitsPool::new(Slots::with_room(0).unwrap());
        let mut window = ReceiveWindow::new(Psn(7));
        window.insert(&mut pool, Psn(7 + 127), None);
        assert_eq!(window.admission(&pool, Psn(7 + 126), || None), Admission::Fresh);
        assert_eq!(window.admission(&pool, Psn(7 + 127), || None), Admission::Duplicate);
        assert_eq!(window.admission(&pool, Psn(7 + 128), || None), Admission::Beyond);
    }

    /// Every page is taken, and none has the bit of the lowest missing number. A window that waited
    /// for one would never give its own back.
    #[test]
    fn the_lowest_missing_number_needs_no_page() {
        const FIRST: Psn = Psn(PAGE_PACKETS - 1);
        let mut pool = BitsPool::new(Slots::with_room(3).unwrap());
        let mut window = ReceiveWindow::new(FIRST);
        for page in 1..4 {
            let psn = FIRST.plus(129 + (page - 1) * PAGE_PACKETS);
            assert_eq!(window.admission(&pool, psn, || None), Admission::Fresh);
            window.insert(&mut pool, psn, None);
        }
        assert_eq!(pool.free(), 0);
        for psn in (0..PAGE_PACKETS).map(|ahead| FIRST.plus(ahead)) {
            if window.next() == psn {
                assert_eq!(window.admission(&pool, psn, || None), Admission::Fresh);
                window.insert(&mut pool, psn, None);
            }
            assert_eq!(window.admission(&pool, psn, || None), Admission::Duplicate);
            assert!(window.is_sound(&pool));
        }
        assert_eq!(pool.free(), 0);
        window.insert(&mut pool, FIRST.plus(PAGE_PACKETS), None);
        assert_eq!(pool.free(), 1, "a page whose packets are passed is free");
    }
}
