// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored messages (`docs/PROTOCOL.md` §6.1, §6.3): those that wait for a receive, in order of
//! acceptance, and out-of-order ones.
//!
//! In: messages as they are stored; a request, a peer or a message number. Out: the oldest message
//! that fits. Caller: the matcher.
//!
//! A search looks at the first [`LINEAR_STEPS`] messages one by one. Behind these it uses hash
//! bins. A *view* sorts the messages by the fields that receives of one kind compare
//! ([`MatchKind`]): source or not, and some bits of the tag. Each message is in one bin of each
//! view. The first view is by source alone. The others are made when a search needs them, or when a
//! message is stored and the last posted receive has a new kind. A search of a kind without a view
//! walks the messages, and each sixteenth one replaces a view.
//!
//! A message gets its bins when a search needs them, or when [`UNBINNED_MAX`] messages wait without
//! any. The messages with bins are the oldest of their queue. Messages out of order are in bins of
//! their own, by batch and message number. Bounds: [`LINEAR_STEPS`] steps, the messages without
//! bins, and [`UNBINNED_MAX`]; a search that walks or makes a view: the stored messages.

#![allow(clippy::indexing_slicing, reason = "views are counted by the length of the arrays")]

use crate::api::matching::Queues;
use crate::api::posted::{LINEAR_STEPS, MatchKind};
use crate::collections::bins::Bins;
use crate::collections::list::{Linked, Links, List};
use crate::collections::mix::mix;
use crate::collections::serial::Msn;
use crate::collections::slab::SlotIndex;
use crate::engine::matching::unexpected::UnexpectedPool;
use crate::peer::operation::{Unexpected, VIEWS};
use crate::peer::slots::StoredSlot;
use crate::{PeerId, RecvRequest};

/// Tables of bins: one for each view, and one for messages out of order.
pub(crate) const TABLES: usize = VIEWS + 1;
/// Messages that wait without bins at the most.
const UNBINNED_MAX: u32 = 32;
/// Searches without a view after which one is replaced.
const WALKS: u32 = 16;
/// The view by source alone, of tagged and untagged messages.
const BY_SOURCE: MatchKind = MatchKind { tagged: false, directed: true, ignore: !0 };

/// Stored messages in order of acceptance, tagged and untagged ones apart, and those out of order.
#[derive(Debug)]
pub(crate) struct StoredQueue<'s> {
    queues: Queues<StoredSlot>,
    views: [Option<MatchKind>; VIEWS],
    bins: [Bins<'s, StoredSlot>; VIEWS],
    out_of_order: Bins<'s, StoredSlot>,
    /// Secret, so that peers cannot choose tags that collide.
    secret: [u64; 2],
    /// The last message with bins, of untagged and of tagged ones.
    last_binned: [StoredSlot; 2],
    /// Messages with bins.
    binned: u32,
    /// Searches of kinds without a view.
    walks: u32,
    /// The view that is replaced next.
    oldest_view: usize,
}

/// The chains of one view. Messages out of order use the links of the first.
struct InView<'a, 's>(&'a mut UnexpectedPool<'s>, usize);

impl Linked<StoredSlot> for InView<'_, '_> {
    #[inline]
    fn links(&mut self, slot: StoredSlot) -> &mut Links<StoredSlot> {
        &mut self.0.message(slot).chains.links[self.1]
    }
}

impl<'s> StoredQueue<'s> {
    /// No messages.
    pub(crate) fn new(chains: &'s mut [List<StoredSlot>], secret: [u64; 2]) -> Self {
        let (out_of_order, chains) = chains.split_at_mut(chains.len() / TABLES);
        let mut views = [None; VIEWS];
        views[0] = Some(BY_SOURCE);
        Self {
            queues: Queues::default(),
            views,
            bins: Bins::tables(chains),
            out_of_order: Bins::new(out_of_order),
            secret,
            last_binned: [StoredSlot::NONE; 2],
            binned: 0,
            walks: 0,
            oldest_view: 1,
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
        if core::mem::take(&mut pool.message(slot).chains.binned) {
            let key = key_of(pool, slot);
            for view in 0..VIEWS {
                if let Some(chain) = self.chain(view, self.views[view], key) {
                    chain.remove(&mut InView(pool, view), slot);
                }
            }
            self.binned -= 1;
            let last = &mut self.last_binned[usize::from(tagged)];
            if *last == slot {
                *last = List::prev(pool, slot);
            }
        }
        self.queues.of(tagged).remove(pool, slot);
        pool.adopt(slot);
    }

    /// The oldest message that fits a request, of those that `skips` does not exclude.
    pub(super) fn find(
        &mut self,
        pool: &mut UnexpectedPool<'_>,
        request: &RecvRequest,
        mut skips: impl FnMut(&Unexpected) -> bool,
    ) -> StoredSlot {
        let kind = MatchKind::of(&(request.from, request.tag));
        let mut slot = self.queues.first(kind.tagged);
        for _ in 0..LINEAR_STEPS {
            if slot.is_none() || fits(pool.message(slot), request, &mut skips) {
                return slot;
            }
            slot = List::next(pool, slot);
        }
        if slot.is_none() {
            return slot;
        }
        self.bin_all(pool, kind.tagged);
        let Some(view) = self.view_of(pool, kind) else {
            // bound: the stored messages
            while slot.is_some() && !fits(pool.message(slot), request, &mut skips) {
                slot = List::next(pool, slot);
            }
            return slot;
        };
        let tag = request.tag.map_or(0, |tag| tag.tag);
        let peer = request.from.unwrap_or(PeerId::NONE);
        let mut slot = self.bins[view].chain(kind.hash(self.secret, &peer, tag)).head();
        // bound: the chain
        while slot.is_some() && !fits(pool.message(slot), request, &mut skips) {
            slot = List::next(&mut InView(pool, view), slot);
        }
        slot
    }

    /// The first message of a peer, tagged or not. Bound: its chain.
    pub(super) fn first_of(&mut self, pool: &mut UnexpectedPool<'_>, peer: PeerId) -> StoredSlot {
        self.bin_all(pool, false);
        self.bin_all(pool, true);
        let slot = self.bins[0].chain(BY_SOURCE.hash(self.secret, &peer, 0)).head();
        of_peer(pool, peer, slot)
    }

    /// The next message of the peer of message `slot`. Bound: its chain.
    pub(super) fn next_of(pool: &mut UnexpectedPool<'_>, slot: StoredSlot) -> StoredSlot {
        let peer = pool.message(slot).peer;
        let next = List::next(&mut InView(pool, 0), slot);
        of_peer(pool, peer, next)
    }

    /// Makes a view for a kind of receives, if a view is free and the kind compares source or tag.
    pub(super) fn add_view(&mut self, pool: &mut UnexpectedPool<'_>, kind: MatchKind) {
        let compares = kind.directed || (kind.tagged && kind.ignore != !0);
        if compares
            && !self.views.contains(&Some(kind))
            && let Some(free) = self.views.iter().position(Option::is_none)
        {
            self.make_view(pool, free, kind);
        }
    }

    /// The view for a kind of receives. `None`: the messages must be walked.
    fn view_of(&mut self, pool: &mut UnexpectedPool<'_>, kind: MatchKind) -> Option<usize> {
        let of = |view: &Option<MatchKind>, kind| *view == kind;
        let known = self.views.iter().position(|view| of(view, Some(kind)));
        if known.is_some() {
            return known;
        }
        let free = self.views.iter().position(|view| of(view, None));
        let view = if let Some(free) = free {
            free
        } else {
            self.walks += 1;
            if !self.walks.is_multiple_of(WALKS) {
                return None;
            }
            let view = self.oldest_view;
            self.oldest_view = view % (VIEWS - 1) + 1;
            self.bins[view].clear();
            view
        };
        self.make_view(pool, view, kind);
        Some(view)
    }

    /// Sorts the messages that have bins by `kind`, in an empty view. Bound: these messages.
    fn make_view(&mut self, pool: &mut UnexpectedPool<'_>, view: usize, kind: MatchKind) {
        self.views[view] = Some(kind);
        let mut slot = self.queues.first(kind.tagged);
        while slot.is_some() && pool.message(slot).chains.binned {
            let key = key_of(pool, slot);
            if let Some(chain) = self.chain(view, Some(kind), key) {
                chain.push_back(&mut InView(pool, view), slot);
            }
            slot = List::next(pool, slot);
        }
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
        let key = key_of(pool, next);
        for view in 0..VIEWS {
            if let Some(chain) = self.chain(view, self.views[view], key) {
                chain.push_back(&mut InView(pool, view), next);
            }
        }
        true
    }

    /// The chain of a view in which a message is, if it is in one.
    #[inline(always)]
    fn chain(
        &mut self,
        view: usize,
        kind: Option<MatchKind>,
        (peer, tag): (PeerId, Option<u64>),
    ) -> Option<&mut List<StoredSlot>> {
        let kind = kind?;
        if view > 0 && kind.tagged != tag.is_some() {
            return None;
        }
        let hash = kind.hash(self.secret, &peer, tag.unwrap_or(0));
        Some(self.bins[view].chain(hash))
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

/// The source and the tag of a message.
fn key_of(pool: &mut UnexpectedPool<'_>, slot: StoredSlot) -> (PeerId, Option<u64>) {
    let message = pool.message(slot);
    (message.peer, message.envelope.tag)
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
