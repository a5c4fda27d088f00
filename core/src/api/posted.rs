// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives in posting order, and the search for the first one that takes a message
//! (`fi_msg(3)`, `fi_tagged(3)`).
//!
//! In: receives as they are posted, the source and tag of a message. Out: the receive that was
//! posted first among those that match. Callers: the engine, for its own receives; the queue of
//! receives that several engines share.
//!
//! A search looks at the first [`LINEAR_STEPS`] receives one by one. Behind these it uses hash
//! bins. A receive has a *kind*: whether it names a source, and which bits of the tag it ignores.
//! Receives of one kind match by equality of source and remaining tag, which is the key of their
//! bin. A search looks into one bin for each kind in use. It takes the oldest receive that it finds
//! (tuple space search: Srinivasan, Suri and Varghese, SIGCOMM 1999). Receives of more than
//! [`KINDS`] kinds at once share one chain, which a search walks.
//!
//! Messages mostly arrive in the order of the receives. Therefore a receive gets its bin when a
//! search finds none in the bins, or when [`UNBINNED_MAX`] receives wait without one. The receives
//! with a bin are the oldest of their queue. Bounds: [`LINEAR_STEPS`], [`KINDS`] and
//! [`UNBINNED_MAX`] steps, and [`BINNED_PER_SEARCH`] bins; the chain of receives of further kinds.

#![allow(clippy::indexing_slicing, reason = "there is an entry for each slot")]

use super::matching::{Queues, TagMatch, matches};
use crate::collections::bins::Bins;
use crate::collections::index::IndexKey;
use crate::collections::list::{Link, Linked, Links, List};
use crate::collections::mix::mix;
use crate::collections::slab::{Slab, SlotIndex};

/// Receives that a search looks at one by one.
pub(crate) const LINEAR_STEPS: u32 = 16;
/// Receives that wait without a bin at the most.
const UNBINNED_MAX: u32 = 512;
/// Kinds of receives that have bins. The tests of this file have few receives.
const KINDS: usize = if cfg!(test) { 8 } else { 32 };
/// Receives that get a bin from a search that found none in the bins.
const BINNED_PER_SEARCH: u32 = if cfg!(test) { 4 } else { 24 };
/// Steps after which the searches of a packet, or of a progress call, are [long](
/// PostedQueue::is_long).
const STEPS_MAX: u32 = 160;
/// The cost of a bin in steps: that of a receive that gets one, or of a look into one.
const BIN_STEPS: u32 = 4;

/// The entry of a receive in its bin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BinEntry<I> {
    links: Links<I>,
    /// The position in posting order, among the receives with a bin.
    serial: u64,
    chain: Chain,
}

impl<I: SlotIndex> Default for BinEntry<I> {
    fn default() -> Self {
        Self { links: Links::default(), serial: 0, chain: Chain::None }
    }
}

/// The chain that a receive is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Chain {
    None,
    /// A bin of the kind with this number.
    Bin(u8),
    /// The chain of further kinds.
    Others,
}

/// A receive that waits for a message.
pub(crate) trait Posted<I>: Link<I> {
    /// The name of a source.
    type Source: IndexKey;

    /// The source (`None`: any) and the tags (`None`: untagged) that it wants.
    fn wanted(&self) -> (Option<Self::Source>, Option<TagMatch>);
}

/// The properties that decide by which key a receive matches: receives of one kind share them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MatchKind {
    pub(crate) tagged: bool,
    /// A source is named.
    pub(crate) directed: bool,
    /// Bits of the tag that are not compared.
    pub(crate) ignore: u64,
}

impl MatchKind {
    /// The kind of a receive.
    pub(crate) fn of<S>((from, tag): &(Option<S>, Option<TagMatch>)) -> Self {
        let ignore = tag.map_or(0, |tag| tag.ignore);
        Self { tagged: tag.is_some(), directed: from.is_some(), ignore }
    }

    /// The hash of the key by which receives of this kind match a message.
    #[inline]
    pub(crate) fn hash<S: IndexKey>(&self, secret: [u64; 2], source: &S, tag: u64) -> u64 {
        let source = if self.directed { source.hash(secret) } else { 0 };
        let [_, key] = secret;
        mix(mix(key ^ (tag & !self.ignore)) ^ source.rotate_left(29) ^ self.ignore)
    }
}

/// Receives in posting order, tagged and untagged ones apart.
#[derive(Debug)]
pub(crate) struct PostedQueue<'s, I> {
    queues: Queues<I>,
    bins: Bins<'s, I>,
    /// The entries of the receives, by slot.
    entries: BinEntries<'s, I>,
    /// Secret, so that others cannot choose keys that collide.
    secret: [u64; 2],
    /// The kinds in use, each with the number of its receives that have a bin.
    kinds: [(MatchKind, u32); KINDS],
    /// The kinds behind these are not in use.
    kinds_end: usize,
    others: List<I>,
    /// The last receive with a bin, of untagged and of tagged ones.
    last_binned: [I; 2],
    /// Receives with a bin.
    binned: u32,
    /// The position of the next receive that gets a bin.
    serial: u64,
    /// Steps of the searches of this packet, or of this progress call, behind the first receives.
    steps: u32,
}

/// The slices that a queue borrows: the heads of its bins, and an entry for each slot.
pub(crate) type PostedSlices<'s, I> = (&'s mut [List<I>], &'s mut [BinEntry<I>]);

/// The entries by slot number.
#[derive(Debug)]
struct BinEntries<'s, I>(&'s mut [BinEntry<I>]);

impl<I: SlotIndex> BinEntries<'_, I> {
    #[inline]
    fn of(&mut self, slot: I) -> &mut BinEntry<I> {
        &mut self.0[slot.number() as usize]
    }
}

impl<I: SlotIndex> Linked<I> for BinEntries<'_, I> {
    #[inline]
    fn links(&mut self, slot: I) -> &mut Links<I> {
        &mut self.of(slot).links
    }
}

impl<'s, I: SlotIndex> PostedQueue<'s, I> {
    /// An empty queue.
    pub(crate) fn new((chains, entries): PostedSlices<'s, I>, secret: [u64; 2]) -> Self {
        Self {
            queues: Queues::default(),
            bins: Bins::new(chains),
            entries: BinEntries(entries),
            secret,
            kinds: [(MatchKind::default(), 0); KINDS],
            kinds_end: 0,
            others: List::default(),
            last_binned: [I::NONE; 2],
            binned: 0,
            serial: 0,
            steps: 0,
        }
    }

    /// The first receive, or [`SlotIndex::NONE`].
    #[inline(always)]
    pub(crate) fn first(&self, tagged: bool) -> I {
        self.queues.first(tagged)
    }

    /// A packet, or a progress call, begins: its searches have taken no steps.
    #[inline(always)]
    pub(crate) const fn begin_searches(&mut self) {
        self.steps = 0;
    }

    /// Whether the searches of this packet, or of this progress call, have taken so many steps that
    /// others should wait for the next call.
    #[inline(always)]
    pub(crate) const fn is_long(&self) -> bool {
        self.steps >= STEPS_MAX
    }

    /// Searches of a queue that several engines share are counted by none of these.
    const fn count_steps(&mut self, steps: u32) {
        self.steps = self.steps.wrapping_add(steps);
    }

    /// The receives in posting order.
    pub(crate) fn list(&self, tagged: bool) -> List<I> {
        if tagged { self.queues.tagged } else { self.queues.untagged }
    }

    /// The receives in posting order, from which neighbours may be removed together. `None` if any
    /// receive has a bin.
    #[inline(always)]
    pub(crate) fn run(&mut self, tagged: bool) -> Option<&mut List<I>> {
        (self.binned == 0).then_some(self.queues.of(tagged))
    }
}

impl<I: SlotIndex> PostedQueue<'_, I> {
    /// Adds a receive behind all others; `used` are the used slots of the pool.
    #[inline]
    pub(crate) fn push<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        (slot, tagged): (I, bool),
        used: u32,
    ) {
        *slots.links(slot) = self.links_behind(tagged);
        self.push_linked(slots, (slot, tagged), used);
    }

    /// The links of a receive behind all others, for [`Self::push_linked`].
    #[inline(always)]
    pub(crate) fn links_behind(&self, tagged: bool) -> Links<I> {
        self.list(tagged).links_behind()
    }

    /// Adds a receive that has the links of [`Self::links_behind`], as [`Self::push`] does.
    #[inline(always)]
    pub(crate) fn push_linked<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        (slot, tagged): (I, bool),
        used: u32,
    ) {
        self.queues.of(tagged).push_linked(slots, slot);
        if used.wrapping_sub(self.binned) > UNBINNED_MAX {
            self.bin_next(slots, tagged, 1);
        }
    }

    /// Takes a receive out.
    #[inline]
    pub(crate) fn remove<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        slot: I,
        tagged: bool,
    ) {
        if self.binned > 0 {
            self.unbin(slots, slot, tagged);
        }
        self.queues.of(tagged).remove(slots, slot);
    }

    /// Puts a receive back before another one, or last if that is [`SlotIndex::NONE`]. Bound: the
    /// receives behind it.
    pub(crate) fn restore<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        (slot, tagged): (I, bool),
        before: I,
    ) {
        // The receives with a bin are the oldest: those behind this one get theirs again later.
        if before.is_some() && self.entries.of(before).chain != Chain::None {
            let mut last = I::NONE;
            while last != before {
                last = *self.last_binned(tagged);
                self.unbin(slots, last, tagged);
            }
        }
        self.queues.of(tagged).insert_before(slots, slot, before);
    }

    /// The first receive that takes a message from `source` with `tag`, or [`SlotIndex::NONE`].
    pub(crate) fn find<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        source: T::Source,
        tag: Option<u64>,
    ) -> I {
        let mut slot = self.queues.first(tag.is_some());
        for _ in 0..self.linear_steps(tag.is_some()) {
            if slot.is_none() || matches(slots[slot].wanted(), (source, tag)) {
                return slot;
            }
            slot = List::next(slots, slot);
        }
        if slot.is_none() { slot } else { self.find_in_bins(slots, source, tag) }
    }

    /// How many receives a search looks at one by one. Where all have bins, of at most two kinds,
    /// these are cheaper than further steps.
    #[inline]
    fn linear_steps(&mut self, tagged: bool) -> u32 {
        let tail = self.list(tagged).tail();
        let is_binned = self.binned > 0 && self.kinds_end <= 2 && *self.last_binned(tagged) == tail;
        if is_binned { 1 } else { LINEAR_STEPS }
    }

    #[inline(never)]
    fn find_in_bins<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        source: T::Source,
        tag: Option<u64>,
    ) -> I {
        let tagged = tag.is_some();
        let mut oldest = (u64::MAX, I::NONE);
        for number in 0..self.kinds_end {
            let (kind, count) = self.kinds[number];
            if count > 0 && kind.tagged == tagged {
                self.count_steps(BIN_STEPS);
                let hash = kind.hash(self.secret, &source, tag.unwrap_or(0));
                let chain = *self.bins.chain(hash);
                if !chain.is_empty() {
                    oldest = self.first_in_chain(slots, chain, (source, tag), oldest);
                }
            }
        }
        if !self.others.is_empty() {
            oldest = self.first_in_chain(slots, self.others, (source, tag), oldest);
        }
        let (_, found) = oldest;
        // Receives without a bin are younger.
        let last = self.list(tagged).tail();
        if found.is_some() || *self.last_binned(tagged) == last {
            return found;
        }
        self.find_without_bin(slots, source, tag)
    }

    /// The first receive without a bin that takes a message. Gives some of them a bin.
    fn find_without_bin<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        source: T::Source,
        tag: Option<u64>,
    ) -> I {
        let tagged = tag.is_some();
        let last = *self.last_binned(tagged);
        let mut slot = if last.is_none() { self.first(tagged) } else { List::next(slots, last) };
        let mut walked = 0;
        // bound: receives without a bin
        while slot.is_some() && !matches(slots[slot].wanted(), (source, tag)) {
            walked += 1;
            slot = List::next(slots, slot);
        }
        let binned = self.binned;
        self.bin_next(slots, tagged, BINNED_PER_SEARCH);
        self.count_steps(walked + (self.binned - binned) * BIN_STEPS);
        slot
    }

    /// Gives a bin to the oldest receives of a queue that have none, up to `most` of them.
    #[inline(never)]
    fn bin_next<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        tagged: bool,
        most: u32,
    ) {
        let last = *self.last_binned(tagged);
        let mut next = if last.is_none() { self.first(tagged) } else { List::next(slots, last) };
        for _ in 0..most {
            if next.is_none() {
                break;
            }
            self.bin(slots, next);
            *self.last_binned(tagged) = next;
            next = List::next(slots, next);
        }
    }

    /// Puts a receive in the chain of its key.
    #[inline(always)]
    fn bin<T: Posted<I>, const N: usize>(&mut self, slots: &mut Slab<'_, T, I, N>, slot: I) {
        let wanted = slots[slot].wanted();
        let kind = MatchKind::of(&wanted);
        let known = self.kinds.iter().position(|&(known, count)| count > 0 && known == kind);
        let free = || self.kinds.iter().position(|&(_, count)| count == 0);
        let number = known.or_else(free);
        if let Some((known, count)) = number.and_then(|number| self.kinds.get_mut(number)) {
            *known = kind;
            *count += 1;
            self.kinds_end = self.kinds_end.max(number.map_or(0, |number| number + 1));
        }
        let entry = self.entries.of(slot);
        entry.chain = number.map_or(Chain::Others, |number| Chain::Bin(number as u8));
        entry.serial = self.serial;
        self.serial += 1;
        self.binned += 1;
        let Self { bins, entries, others, secret, .. } = self;
        let chain = if number.is_some() { chain_of(bins, *secret, wanted) } else { others };
        chain.push_back(entries, slot);
    }

    /// Takes a receive that leaves the queue out of its chain, if it is in one.
    #[inline(never)]
    fn unbin<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &mut Slab<'_, T, I, N>,
        slot: I,
        tagged: bool,
    ) {
        let wanted = slots[slot].wanted();
        let Self { bins, entries, others, secret, kinds, .. } = self;
        let chain = match core::mem::replace(&mut entries.of(slot).chain, Chain::None) {
            Chain::None => return,
            Chain::Bin(number) => {
                if let Some((_, count)) = kinds.get_mut(usize::from(number)) {
                    *count -= 1;
                }
                chain_of(bins, *secret, wanted)
            }
            Chain::Others => others,
        };
        chain.remove(entries, slot);
        self.binned -= 1;
        if self.binned == 0 {
            self.kinds_end = 0;
        }
        let last = self.last_binned(tagged);
        if *last == slot {
            *last = List::prev(slots, slot);
        }
    }

    /// The last receive of a queue that has a bin.
    fn last_binned(&mut self, tagged: bool) -> &mut I {
        let [of_untagged, of_tagged] = &mut self.last_binned;
        if tagged { of_tagged } else { of_untagged }
    }

    /// The first receive of a chain that takes a message, if it is older than `oldest`; else
    /// `oldest`. Bound: the chain.
    fn first_in_chain<T: Posted<I>, const N: usize>(
        &mut self,
        slots: &Slab<'_, T, I, N>,
        chain: List<I>,
        message: (T::Source, Option<u64>),
        oldest: (u64, I),
    ) -> (u64, I) {
        let mut slot = chain.head();
        while slot.is_some() {
            self.count_steps(1);
            let serial = self.entries.of(slot).serial;
            if serial >= oldest.0 {
                return oldest;
            }
            if matches(slots[slot].wanted(), message) {
                return (serial, slot);
            }
            slot = List::next(&mut self.entries, slot);
        }
        oldest
    }
}

/// The chain of the receives with one key.
fn chain_of<'b, S: IndexKey, I: SlotIndex>(
    bins: &'b mut Bins<'_, I>,
    secret: [u64; 2],
    wanted: (Option<S>, Option<TagMatch>),
) -> &'b mut List<I> {
    let kind = MatchKind::of(&wanted);
    let (from, tag) = (wanted.0, wanted.1.map_or(0, |tag| tag.tag));
    let hash = match &from {
        Some(from) => kind.hash(secret, from, tag),
        None => kind.hash(secret, &0, tag),
    };
    bins.chain(hash)
}

#[cfg(test)]
mod tests;
