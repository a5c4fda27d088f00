// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored messages (`docs/PROTOCOL.md` §6.1, §6.3): those that wait for a receive, in order of
//! acceptance, and out-of-order ones.
//!
//! In: messages as they are stored; a request, a peer or a message number. Out: the oldest message
//! that fits. Caller: the matcher.
//!
//! A search looks at the first [`LINEAR_STEPS`] messages one by one. Behind these it uses hash
//! bins of a view (`views.rs`). Where no view is of its kind, it waits for one that is being
//! made, or walks the messages. Both take several calls among many messages.
//!
//! A message gets its bins when a search needs them, or when [`UNBINNED_MAX`] messages wait without
//! any. The messages with bins are the oldest of their queue. Messages out of order are in bins of
//! their own, by batch and message number. Bounds: [`LINEAR_STEPS`] and [`WALK_STEPS`] steps, the
//! messages without bins, and [`UNBINNED_MAX`].

#![allow(clippy::indexing_slicing, reason = "views are counted by the length of the arrays")]

use crate::api::matching::Queues;
use crate::api::posted::{LINEAR_STEPS, MatchKind};
use crate::collections::bins::Bins;
use crate::collections::list::List;
use crate::collections::mix::mix;
use crate::collections::serial::Msn;
use crate::collections::slab::SlotIndex;
use crate::engine::matching::unexpected::UnexpectedPool;
use crate::engine::matching::views::{InView, View, Views};
use crate::peer::operation::{Unexpected, VIEWS};
use crate::peer::slots::StoredSlot;
use crate::{PeerId, RecvRequest};

/// Tables of bins: one for each view, and one for messages out of order.
pub(crate) const TABLES: usize = VIEWS + 1;
/// Messages that wait without bins at the most.
const UNBINNED_MAX: u32 = 32;
/// Messages that one call of a search walks. The tests of this file have few.
const WALK_STEPS: u32 = if cfg!(test) { 4 } else { 256 };

/// Stored messages in order of acceptance, tagged and untagged ones apart, and those out of order.
#[derive(Debug)]
pub(crate) struct StoredQueue<'s> {
    queues: Queues<StoredSlot>,
    views: Views<'s>,
    out_of_order: Bins<'s, StoredSlot>,
    /// Secret, so that peers cannot choose tags that collide.
    secret: [u64; 2],
    /// The last message with bins, of untagged and of tagged ones.
    last_binned: [StoredSlot; 2],
    /// Messages with bins.
    binned: u32,
    /// Where the search of the first waiting receive stands.
    search_at: StoredSlot,
}

/// Where a search stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Search {
    /// It has found this message, or none.
    Ended(StoredSlot),
    /// Another call goes on with it.
    Unfinished,
}

impl<'s> StoredQueue<'s> {
    /// No messages.
    pub(crate) fn new(chains: &'s mut [List<StoredSlot>], secret: [u64; 2]) -> Self {
        let (out_of_order, chains) = chains.split_at_mut(chains.len() / TABLES);
        Self {
            queues: Queues::default(),
            views: Views::new(chains, secret),
            out_of_order: Bins::new(out_of_order),
            secret,
            last_binned: [StoredSlot::NONE; 2],
            binned: 0,
            search_at: StoredSlot::NONE,
        }
    }

    /// The first message, or none.
    #[inline(always)]
    pub(super) fn first(&self, tagged: bool) -> StoredSlot {
        self.queues.first(tagged)
    }

    /// The messages in order of acceptance.
    pub(super) const fn list(&self, tagged: bool) -> List<StoredSlot> {
        if tagged { self.queues.tagged } else { self.queues.untagged }
    }

    /// Whether a view is being made.
    #[inline]
    pub(super) const fn is_sorting(&self) -> bool {
        self.views.is_sorting()
    }

    /// Where the search of the first waiting receive stands. A message that leaves is not there.
    pub(super) const fn search_at(&mut self) -> &mut StoredSlot {
        &mut self.search_at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.untagged.is_empty() && self.queues.tagged.is_empty()
    }
}

// Messages that wait for a receive.
impl StoredQueue<'_> {
    /// Adds a message behind all others.
    pub(super) fn push(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let tagged = pool.message(slot).envelope.tag.is_some();
        self.queues.of(tagged).push_back(pool, slot);
        if pool.used() - self.binned > UNBINNED_MAX {
            self.bin_next(pool, tagged);
        }
    }

    /// Takes a message out.
    pub(super) fn remove(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let tagged = pool.message(slot).envelope.tag.is_some();
        if self.search_at == slot {
            self.search_at = List::next(pool, slot);
        }
        if core::mem::take(&mut pool.message(slot).chains.binned) {
            self.views.leave(pool, slot);
            self.binned -= 1;
            let last = &mut self.last_binned[usize::from(tagged)];
            if *last == slot {
                *last = List::prev(pool, slot);
            }
        }
        self.queues.of(tagged).remove(pool, slot);
        pool.adopt(slot);
    }

    /// Goes on with the search of the oldest message that fits a request, of those that `skips`
    /// does not exclude. `at` is where the search stands; none: it begins. Bound: [`LINEAR_STEPS`],
    /// [`WALK_STEPS`] and the steps of a [view](super::views); a chain.
    #[inline(always)]
    pub(super) fn find(
        &mut self,
        pool: &mut UnexpectedPool<'_>,
        request: &RecvRequest,
        at: &mut StoredSlot,
        mut skips: impl FnMut(&Unexpected) -> bool,
    ) -> Search {
        let mut slot = if at.is_some() { *at } else { self.first(request.tag.is_some()) };
        for _ in 0..LINEAR_STEPS {
            if slot.is_none() || fits(pool.message(slot), request, &mut skips) {
                return Search::Ended(slot);
            }
            slot = List::next(pool, slot);
        }
        if slot.is_none() {
            return Search::Ended(slot);
        }
        self.find_behind(pool, (request, slot), at, skips)
    }

    /// Goes on with a search at message `slot`, by a view or by a walk.
    #[inline(never)]
    fn find_behind(
        &mut self,
        pool: &mut UnexpectedPool<'_>,
        (request, mut slot): (&RecvRequest, StoredSlot),
        at: &mut StoredSlot,
        mut skips: impl FnMut(&Unexpected) -> bool,
    ) -> Search {
        if at.is_none() {
            let kind = MatchKind::of(&(request.from, request.tag));
            self.bin_all(pool, kind.tagged);
            match self.views.of(pool, (kind, self.queues.first(kind.tagged))) {
                View::Of(view) => {
                    let found = self.find_in(pool, view, request, skips);
                    return Search::Ended(found);
                }
                View::Begun => return Search::Unfinished,
                View::None => {}
            }
        }
        for _ in 0..WALK_STEPS {
            if slot.is_none() || fits(pool.message(slot), request, &mut skips) {
                return Search::Ended(slot);
            }
            slot = List::next(pool, slot);
        }
        *at = slot;
        if slot.is_none() { Search::Ended(slot) } else { Search::Unfinished }
    }

    /// The oldest message in a view of its kind that fits a request. Bound: the chain.
    fn find_in(
        &mut self,
        pool: &mut UnexpectedPool<'_>,
        view: usize,
        request: &RecvRequest,
        mut skips: impl FnMut(&Unexpected) -> bool,
    ) -> StoredSlot {
        let tag = request.tag.map_or(0, |tag| tag.tag);
        let peer = request.from.unwrap_or(PeerId::NONE);
        let mut slot = self.views.first_in(view, peer, tag);
        while slot.is_some() && !fits(pool.message(slot), request, &mut skips) {
            slot = List::next(&mut InView(pool, view), slot);
        }
        slot
    }

    /// The first message of a peer, tagged or not. Bound: its chain.
    pub(super) fn first_of(&mut self, pool: &mut UnexpectedPool<'_>, peer: PeerId) -> StoredSlot {
        self.bin_all(pool, false);
        self.bin_all(pool, true);
        let slot = self.views.first_of(peer);
        of_peer(pool, peer, slot)
    }

    /// A message that [`Self::first_of`] has found is one of an unknown peer from now on.
    pub(super) fn disown(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        self.views.disown(pool, slot);
    }

    /// The next message of the peer of message `slot`. Bound: its chain.
    pub(super) fn next_of(pool: &mut UnexpectedPool<'_>, slot: StoredSlot) -> StoredSlot {
        let peer = pool.message(slot).peer;
        let next = List::next(&mut InView(pool, 0), slot);
        of_peer(pool, peer, next)
    }
}

// Views and bins.
impl StoredQueue<'_> {
    /// Begins a view for a kind of receives, if a view is free and the kind compares source or tag.
    #[inline]
    pub(super) fn add_view(&mut self, pool: &mut UnexpectedPool<'_>, kind: MatchKind) {
        self.views.add(pool, (kind, self.queues.first(kind.tagged)));
    }

    /// Goes on with the view that is being made.
    pub(super) fn sort_some(&mut self, pool: &mut UnexpectedPool<'_>) {
        self.views.sort_some(pool);
    }

    /// Gives all messages of a queue their bins. Bound: the messages without bins.
    fn bin_all(&mut self, pool: &mut UnexpectedPool<'_>, tagged: bool) {
        while self.bin_next(pool, tagged) {}
    }

    /// Gives its bins to the oldest message of a queue that has none. Returns whether there was
    /// one.
    fn bin_next(&mut self, pool: &mut UnexpectedPool<'_>, tagged: bool) -> bool {
        let last = self.last_binned[usize::from(tagged)];
        let next = if last.is_none() { self.queues.first(tagged) } else { List::next(pool, last) };
        if next.is_none() {
            return false;
        }
        self.last_binned[usize::from(tagged)] = next;
        self.binned += 1;
        pool.message(next).chains.binned = true;
        self.views.join(pool, next);
        true
    }
}

// Messages out of order.
impl StoredQueue<'_> {
    /// Adds a message that came before an earlier one.
    pub(super) fn push_out_of_order(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let Unexpected { batch, envelope, .. } = *pool.message(slot);
        self.out_of_order_chain(batch, envelope.msn).push_back(&mut InView(pool, 0), slot);
    }

    /// Takes a message out of order out.
    pub(super) fn remove_out_of_order(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let Unexpected { batch, envelope, .. } = *pool.message(slot);
        self.out_of_order_chain(batch, envelope.msn).remove(&mut InView(pool, 0), slot);
    }

    /// The message out of order of a batch with number `msn`, or none. Bound: its chain.
    pub(super) fn find_out_of_order(
        &mut self,
        pool: &mut UnexpectedPool<'_>,
        batch: u32,
        msn: Msn,
    ) -> StoredSlot {
        let mut slot = self.out_of_order_chain(batch, msn).head();
        while slot.is_some() {
            let message = pool.message(slot);
            if (message.batch, message.envelope.msn) == (batch, msn) {
                break;
            }
            slot = List::next(&mut InView(pool, 0), slot);
        }
        slot
    }

    fn out_of_order_chain(&mut self, batch: u32, msn: Msn) -> &mut List<StoredSlot> {
        let [_, key] = self.secret;
        let hash = mix(key ^ (u64::from(batch) << 32 | u64::from(msn.0)));
        self.out_of_order.chain(hash)
    }
}

/// Whether a message fits a request, and is not excluded.
#[inline(always)]
fn fits(
    message: &Unexpected,
    request: &RecvRequest,
    skips: &mut impl FnMut(&Unexpected) -> bool,
) -> bool {
    request.takes(message.peer, &message.envelope) && !skips(message)
}

/// The first message of a peer in a chain of the first view, from `slot` on.
fn of_peer(pool: &mut UnexpectedPool<'_>, peer: PeerId, slot: StoredSlot) -> StoredSlot {
    let mut slot = slot;
    // bound: the chain
    while slot.is_some() && pool.message(slot).peer != peer {
        slot = List::next(&mut InView(pool, 0), slot);
    }
    slot
}

#[cfg(test)]
mod tests;
