// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives that wait for the search of a stored message (`fi_tagged(3)`).
//!
//! A receive of a kind that no view is sorted by must look at all stored messages. It does so in
//! several calls, and is not yet posted. Receives behind it wait for it. Messages that arrive
//! meanwhile and match no receive before it are stored, behind those that it has seen. So each
//! receive takes the message that it would take at once.
//!
//! In: receives as they are posted; each progress call. Out: receives with a stored message, or
//! posted. Callers: `post.rs`, `multi_recv.rs`. Other calls that search stored messages first end
//! the searches of all receives that wait. Bound: [`RESUMED_PER_CALL`] receives and one unfinished
//! search a call.

use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::matching::stored::Search;
use crate::engine::send::Sender;
use crate::peer::operation::Unexpected;
use crate::peer::slots::{RecvSlot, StoredSlot};
use crate::{Memory, RecvRequest};

/// Receives whose search ends in one progress call.
const RESUMED_PER_CALL: u32 = 16;

impl Matcher<'_> {
    /// Whether work goes on in the next call: messages out of order, or searches.
    #[inline]
    pub(crate) fn has_unfinished(&self) -> bool {
        // Empty lists have no slot as their head, all of whose bits are set: one test for four.
        let pool = &self.unexpected;
        let heads = pool.next_messages().head().number()
            & pool.discarded().head().number()
            & self.ended.next.number()
            & self.waiting.head().number();
        heads != StoredSlot::NONE.number() || self.stored.is_sorting()
    }

    /// Whether a search of stored messages, or the sorting of them, goes on in later calls.
    #[inline]
    pub(crate) fn has_searches(&self) -> bool {
        !self.waiting.is_empty() || self.stored.is_sorting()
    }

    /// Posts a receive among stored messages, or among receives that wait.
    // Not inlined: most receives find no stored message.
    #[inline(never)]
    pub(super) fn post_among_stored<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        slot: RecvSlot,
        memory: &mut M,
    ) {
        let request = self.recvs[slot].request;
        if self.waiting.is_empty() {
            let mut at = StoredSlot::NONE;
            if let Search::Ended(message) = self.search(cx, &request, &mut at) {
                self.search_ended(cx, (slot, message), request.tag.is_some(), memory);
                return self.schedule_rendezvous(cx, sender);
            }
            *self.stored.search_at() = at;
        }
        self.waiting.push_back(&mut self.recvs, slot);
    }

    /// The search of a receive has found a message, or none.
    #[inline(always)]
    fn search_ended<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        (slot, message): (RecvSlot, StoredSlot),
        tagged: bool,
        memory: &mut M,
    ) {
        if message.is_none() {
            self.queue_posted(slot, tagged);
        } else {
            self.unqueue_stored(message);
            self.bind_stored(cx, message, slot, memory);
        }
    }

    /// Goes on with the searches. Bound: [`RESUMED_PER_CALL`].
    #[cold]
    pub(super) fn resume_searches<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        memory: &mut M,
    ) {
        if self.waiting.is_empty() {
            return self.stored.sort_some(&mut self.unexpected);
        }
        for _ in 0..RESUMED_PER_CALL {
            if self.waiting.is_empty() || !self.search_for_first(cx, memory) {
                break;
            }
        }
        self.schedule_rendezvous(cx, sender);
    }

    /// Ends the searches of all receives that wait. Bound: these receives, the stored messages.
    pub(super) fn end_searches<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        memory: &mut M,
    ) {
        if self.waiting.is_empty() {
            return;
        }
        while !self.waiting.is_empty() {
            self.search_for_first(cx, memory);
        }
        self.schedule_rendezvous(cx, sender);
    }

    /// The search of the first receive that waits begins anew: it has passed messages that wait for
    /// a slice, and some of these may fit no posted receive any more.
    pub(super) fn restart_search(&mut self) {
        *self.stored.search_at() = StoredSlot::NONE;
    }

    /// A receive that waits does so no longer.
    pub(super) fn stop_waiting(&mut self, slot: RecvSlot) {
        if self.waiting.head() == slot {
            *self.stored.search_at() = StoredSlot::NONE;
        }
        self.waiting.remove(&mut self.recvs, slot);
    }

    /// The first receive that waits with a wanted request.
    pub(super) fn waiting_with(
        &mut self,
        wanted: impl Fn(&RecvRequest) -> bool,
    ) -> Option<RecvSlot> {
        let mut slot = self.waiting.head();
        // bound: receives that wait
        while slot.is_some() && !wanted(&self.recvs[slot].request) {
            slot = List::next(&mut self.recvs, slot);
        }
        (slot.is_some()).then_some(slot)
    }

    /// Goes on with the search of the first receive that waits. Returns whether it has ended: the
    /// receive has a message, or is posted.
    fn search_for_first<M: Memory>(&mut self, cx: &mut Ctx<'_>, memory: &mut M) -> bool {
        let slot = self.waiting.head();
        let request = self.recvs[slot].request;
        let mut at = *self.stored.search_at();
        let search = self.search(cx, &request, &mut at);
        *self.stored.search_at() = at;
        let Search::Ended(message) = search else { return false };
        self.stop_waiting(slot);
        self.search_ended(cx, (slot, message), request.tag.is_some(), memory);
        true
    }

    /// The first stored message that fits a request. Bound: the stored messages.
    pub(super) fn find_stored(
        &mut self,
        cx: &Ctx<'_>,
        request: &RecvRequest,
    ) -> Option<StoredSlot> {
        if self.stored.first(request.tag.is_some()).is_none() {
            return None;
        }
        let mut at = StoredSlot::NONE;
        loop {
            if let Search::Ended(slot) = self.search(cx, request, &mut at) {
                return slot.is_some().then_some(slot);
            }
        }
    }

    /// Goes on with a search. A stored message that fits a posted receive waits for a slice, where
    /// those for its peer are exhausted.
    #[inline(always)]
    fn search(&mut self, cx: &Ctx<'_>, request: &RecvRequest, at: &mut StoredSlot) -> Search {
        let Self { posted, recvs, stored, unexpected, slices_exhausted, .. } = self;
        let links = cx.completions.link_slots();
        let is_spoken_for = |&Unexpected { peer, envelope, .. }: &Unexpected| {
            *slices_exhausted
                && links.is_exhausted(peer)
                && posted.find(recvs, peer, envelope.tag).is_some()
        };
        stored.find(unexpected, request, at, is_spoken_for)
    }
}
