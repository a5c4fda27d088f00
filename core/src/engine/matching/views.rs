// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of the stored messages, and their bins.
//!
//! A *view* sorts the messages by the fields that receives of one kind compare ([`MatchKind`]):
//! source or not, and some bits of the tag. Each message is in one bin of each view. The first view
//! is by source alone. The others are made when a search needs them, or when a message is stored
//! and the last posted receive has a new kind. Where all are in use, each [`WALKS`]th search
//! without one replaces a view.
//!
//! In: messages as they get and leave their bins, kinds of receives. Out: the view of a kind.
//! Caller: the queue of stored messages. Bound: a view is made in several calls, each of which
//! sorts [`SORTED_PER_CALL`] messages; until then no search uses it.

#![allow(clippy::indexing_slicing, reason = "views are counted by the length of the arrays")]

use crate::PeerId;
use crate::api::posted::MatchKind;
use crate::collections::bins::Bins;
use crate::collections::list::{Linked, Links, List};
use crate::collections::slab::SlotIndex;
use crate::engine::matching::unexpected::UnexpectedPool;
use crate::peer::operation::VIEWS;
use crate::peer::slots::StoredSlot;

/// The view by source alone, of tagged and untagged messages.
const BY_SOURCE: MatchKind = MatchKind { tagged: false, directed: true, ignore: !0 };
/// Messages that one call sorts into a view. The tests of the queue have few.
const SORTED_PER_CALL: u32 = if cfg!(test) { 2 } else { 80 };
/// Searches without a view after which one is replaced.
const WALKS: u32 = 16;

/// A view that is being made. The messages before `next` are in it.
#[derive(Clone, Copy, Debug)]
struct Unsorted {
    view: usize,
    kind: MatchKind,
    next: StoredSlot,
}

/// The view for a kind of receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    /// This one.
    Of(usize),
    /// One that is being made.
    Begun,
    /// None: the messages must be walked.
    None,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Views<'s> {
    kinds: [Option<MatchKind>; VIEWS],
    bins: [Bins<'s, StoredSlot>; VIEWS],
    /// Secret, so that peers cannot choose tags that collide.
    secret: [u64; 2],
    /// Searches of kinds without a view.
    walks: u32,
    /// The view that is replaced next.
    oldest: usize,
    /// The view that is being made.
    unsorted: Option<Unsorted>,
    /// The number of the view that was begun last.
    made: u32,
}

/// The chains of one view. Messages out of order use the links of the first.
pub(super) struct InView<'a, 's>(pub(super) &'a mut UnexpectedPool<'s>, pub(super) usize);

impl Linked<StoredSlot> for InView<'_, '_> {
    #[inline]
    fn links(&mut self, slot: StoredSlot) -> &mut Links<StoredSlot> {
        &mut self.0.message(slot).chains.links[self.1]
    }
}

impl<'s> Views<'s> {
    /// No messages, and the view by source.
    pub(super) fn new(chains: &'s mut [List<StoredSlot>], secret: [u64; 2]) -> Self {
        let mut kinds = [None; VIEWS];
        kinds[0] = Some(BY_SOURCE);
        let bins = Bins::tables(chains);
        Self { kinds, bins, secret, walks: 0, oldest: 1, unsorted: None, made: 0 }
    }

    /// Whether a view is being made.
    #[inline]
    pub(super) const fn is_sorting(&self) -> bool {
        self.unsorted.is_some()
    }

    /// Begins a view for a kind of receives, if a view is free and the kind compares source or tag.
    /// `first` is the first message of its queue.
    #[inline]
    pub(super) fn add(
        &mut self,
        pool: &mut UnexpectedPool<'_>,
        (kind, first): (MatchKind, StoredSlot),
    ) {
        let compares = kind.directed || (kind.tagged && kind.ignore != !0);
        if compares
            && !self.kinds.contains(&Some(kind))
            && self.unsorted.is_none()
            && let Some(free) = self.kinds.iter().position(Option::is_none)
        {
            self.begin_view(free, (kind, first));
            self.sort_some(pool);
        }
    }

    /// The view for a kind of receives. Begins one, or goes on with one that was begun. `first` is
    /// the first message of its queue.
    pub(super) fn of(
        &mut self,
        pool: &mut UnexpectedPool<'_>,
        (kind, first): (MatchKind, StoredSlot),
    ) -> View {
        let known = |views: &[Option<MatchKind>]| views.iter().position(|&of| of == Some(kind));
        if let Some(view) = known(&self.kinds) {
            return View::Of(view);
        }
        match self.unsorted {
            Some(unsorted) if unsorted.kind != kind => return View::None,
            Some(_) => {}
            None => match self.kinds.iter().position(Option::is_none) {
                Some(free) => self.begin_view(free, (kind, first)),
                None => {
                    self.walks += 1;
                    if !self.walks.is_multiple_of(WALKS) {
                        return View::None;
                    }
                    let view = self.oldest;
                    self.oldest = view % (VIEWS - 1) + 1;
                    self.bins[view].clear();
                    self.begin_view(view, (kind, first));
                    return View::Begun;
                }
            },
        }
        self.sort_some(pool);
        known(&self.kinds).map_or(View::Begun, View::Of)
    }

    fn begin_view(&mut self, view: usize, (kind, next): (MatchKind, StoredSlot)) {
        self.kinds[view] = None;
        self.made = self.made.wrapping_add(1).max(1);
        self.unsorted = Some(Unsorted { view, kind, next });
    }

    /// Goes on with the view that is being made. Bound: [`SORTED_PER_CALL`].
    pub(super) fn sort_some(&mut self, pool: &mut UnexpectedPool<'_>) {
        let Some(Unsorted { view, kind, mut next }) = self.unsorted else { return };
        for _ in 0..SORTED_PER_CALL {
            if next.is_none() || !pool.message(next).chains.binned {
                break;
            }
            pool.message(next).chains.made = self.made;
            let key = key_of(pool, next);
            if let Some(chain) = self.chain(view, Some(kind), key) {
                chain.push_back(&mut InView(pool, view), next);
            }
            next = List::next(pool, next);
        }
        self.sorted_until(pool, Unsorted { view, kind, next });
    }

    /// The messages before the next one of a view are in it. The view is made when no message with
    /// bins is left: those behind it come into the view with their other bins.
    fn sorted_until(&mut self, pool: &mut UnexpectedPool<'_>, unsorted: Unsorted) {
        let Unsorted { view, kind, next } = unsorted;
        let is_made = next.is_none() || !pool.message(next).chains.binned;
        self.kinds[view] = is_made.then_some(kind);
        self.unsorted = (!is_made).then_some(unsorted);
    }

    /// Puts a message in its bins.
    pub(super) fn join(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let key = key_of(pool, slot);
        for view in 0..VIEWS {
            if let Some(chain) = self.chain(view, self.kinds[view], key) {
                chain.push_back(&mut InView(pool, view), slot);
            }
        }
    }

    /// Takes a message that leaves its queue out of its bins.
    pub(super) fn leave(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let key = key_of(pool, slot);
        for view in 0..VIEWS {
            if let Some(chain) = self.chain(view, self.kinds[view], key) {
                chain.remove(&mut InView(pool, view), slot);
            }
        }
        self.leave_unsorted(pool, slot);
    }

    /// A message is one of an unknown peer from now on. No receive names that, so the place among
    /// others of its bins does not matter in the views that compare the source.
    pub(super) fn disown(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let (peer, tag) = key_of(pool, slot);
        pool.message(slot).peer = PeerId::NONE;
        let is_made = pool.message(slot).chains.made == self.made;
        let unsorted = self.unsorted.filter(|unsorted| is_made && unsorted.next != slot);
        for view in 0..VIEWS {
            let sorting = unsorted.filter(|unsorted| unsorted.view == view);
            let kind = self.kinds[view].or_else(|| sorting.map(|unsorted| unsorted.kind));
            let kind = kind.filter(|kind| kind.directed);
            if let Some(chain) = self.chain(view, kind, (peer, tag)) {
                chain.remove(&mut InView(pool, view), slot);
            }
            if let Some(chain) = self.chain(view, kind, (PeerId::NONE, tag)) {
                chain.push_back(&mut InView(pool, view), slot);
            }
        }
    }

    /// The first message in the bin of a view for this source and tag.
    pub(super) fn first_in(&mut self, view: usize, peer: PeerId, tag: u64) -> StoredSlot {
        let Some(kind) = self.kinds[view] else { return StoredSlot::NONE };
        self.bins[view].chain(kind.hash(self.secret, &peer, tag)).head()
    }

    /// The first message in the bin of a source.
    pub(super) fn first_of(&mut self, peer: PeerId) -> StoredSlot {
        self.first_in(0, peer, 0)
    }

    /// Takes a message that leaves its queue out of the view that is being made.
    fn leave_unsorted(&mut self, pool: &mut UnexpectedPool<'_>, slot: StoredSlot) {
        let Some(Unsorted { view, kind, next }) = self.unsorted else { return };
        if next == slot {
            let next = List::next(pool, slot);
            self.sorted_until(pool, Unsorted { view, kind, next });
        } else if pool.message(slot).chains.made == self.made {
            let key = key_of(pool, slot);
            if let Some(chain) = self.chain(view, Some(kind), key) {
                chain.remove(&mut InView(pool, view), slot);
            }
        }
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

/// The source and the tag of a message.
fn key_of(pool: &mut UnexpectedPool<'_>, slot: StoredSlot) -> (PeerId, Option<u64>) {
    let message = pool.message(slot);
    (message.peer, message.envelope.tag)
}

#[cfg(test)]
impl Views<'_> {
    /// Whether no bin has a message. `bins` are those of each view.
    pub(super) fn is_empty(&mut self, bins: u64) -> bool {
        self.bins.iter_mut().all(|table| (0..bins).all(|bin| table.chain(bin).is_empty()))
    }
}
