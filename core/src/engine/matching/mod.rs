// SPDX-License-Identifier: MIT OR Apache-2.0
//! The matcher: posted receives and stored messages meet here (`docs/PROTOCOL.md` §6).
//!
//! In: receives of the application, records of messages in the order of their sender. Out: bytes
//! placed, receives completed, long messages read from their senders. Bound: a search has the
//! bounds of [`PostedQueue`] and [`StoredQueue`].

pub(super) mod abort;
pub(super) mod accept;
pub(super) mod audit;
pub(super) mod datagram;
pub(super) mod ended;
pub(super) mod ended_search;
pub(super) mod event;
pub(super) mod find;
pub(super) mod multi_recv;
pub(super) mod out_of_order;
pub(super) mod peek;
pub(super) mod post;
pub(super) mod rendezvous;
pub(super) mod run;
pub(super) mod shared_receive;
pub(super) mod stored;
pub(super) mod unexpected;
pub(super) mod views;
pub(super) mod waiting;

use crate::api::hosts::Host;
use crate::api::posted::PostedQueue;
use crate::collections::list::List;
use crate::collections::slab::{Slab, SlotIndex};
use crate::engine::completions::Completions;
use crate::engine::matching::ended_search::EndedSearch;
use crate::engine::matching::stored::StoredQueue;
use crate::engine::matching::unexpected::UnexpectedPool;
use crate::peer::operation::{Assembly, EVENTS, RECVS, RecvPool};
use crate::peer::slots::{AssemblySlot, RecvSlot, StoredSlot};
use crate::{Completion, CompletionGroup, DeferredId, Instant, PeerId, RecvId};

/// Posted receives, stored messages, and messages that are arriving.
#[derive(Debug)]
pub(super) struct Matcher<'s> {
    recvs: RecvPool<'s>,
    assemblies: Slab<'s, Assembly, AssemblySlot>,
    unexpected: UnexpectedPool<'s>,
    posted: PostedQueue<'s, RecvSlot>,
    stored: StoredQueue<'s>,
    /// Receives that are posted when the search of a stored message has ended.
    waiting: List<RecvSlot>,
    /// Stored messages that the application has claimed.
    claimed: List<StoredSlot>,
    /// A multi-receive buffer matched, but no slot for a slice was free for it. New messages of the
    /// peers that `LinkSlots` notes are stored until [`Matcher::resume_matching`].
    slices_exhausted: bool,
    /// Receives of long messages that have bytes to request.
    rendezvous_queue: List<RecvSlot>,
    /// When the next call looks at those that the last one has not reached.
    look_again_at: Option<Instant>,
    /// The search for messages of ended connections.
    ended: EndedSearch,
    /// Packets with records since the last progress call while messages out of order were the next
    /// ones.
    packets_with_next: u32,
    /// The pending event before which those of the present packet stand, or none; `None`: it has
    /// brought none so far.
    event_place: Option<RecvSlot>,
}

impl<'s> Matcher<'s> {
    /// A matcher without receives and messages.
    pub(super) fn new(
        recvs: RecvPool<'s>,
        assemblies: Slab<'s, Assembly, AssemblySlot>,
        unexpected: UnexpectedPool<'s>,
        (posted, stored): (PostedQueue<'s, RecvSlot>, StoredQueue<'s>),
    ) -> Self {
        Self {
            recvs,
            assemblies,
            unexpected,
            posted,
            stored,
            waiting: List::default(),
            claimed: List::default(),
            slices_exhausted: false,
            rendezvous_queue: List::default(),
            look_again_at: None,
            ended: EndedSearch::default(),
            packets_with_next: 0,
            event_place: None,
        }
    }
}

impl Matcher<'_> {
    /// The identifier of a receive.
    #[inline]
    pub(super) fn recv_id(&self, recv: RecvSlot) -> RecvId {
        recv.id(self.recvs.generation(recv))
    }

    /// Receives that wait for a message, or for the rest of one.
    pub(super) fn posted_receives(&self) -> u32 {
        self.recvs.used_in(RECVS)
    }

    /// Messages that are stored for want of a receive, or of an earlier message.
    pub(super) fn stored_messages(&self) -> u32 {
        self.unexpected.used()
    }

    /// How full the storage is for a peer: see [`UnexpectedPool::occupancy`]. `host`: its host,
    /// where peers there have a share together.
    #[inline]
    pub(super) fn occupancy(&self, host: impl FnOnce() -> Option<Host>) -> u8 {
        if self.unexpected.used() == 0 { 0 } else { self.unexpected.occupancy(host()) }
    }

    /// Whether a long message has bytes to request.
    #[inline]
    pub(super) fn has_rendezvous(&self) -> bool {
        !self.rendezvous_queue.is_empty()
    }

    /// See [`Engine::receives_left`](crate::Engine::receives_left).
    pub(super) fn receives_left(&self, completions: &Completions<'_>, peer: PeerId) -> u32 {
        completions.link_slots().recvs_left(&self.recvs, RECVS, peer)
    }

    /// How many more events of remote writes of a peer can be kept.
    #[inline]
    pub(super) fn events_left(&self, completions: &Completions<'_>, peer: PeerId) -> u32 {
        completions.link_slots().recvs_left(&self.recvs, EVENTS, peer)
    }

    /// How many more events of remote writes can be kept.
    #[inline]
    pub(super) fn free_events(&self) -> u32 {
        self.recvs.free_in(EVENTS)
    }

    /// The next completion of a receive or of a remote write.
    #[inline]
    pub(super) fn poll(&mut self, completions: &mut Completions<'_>) -> Option<Completion> {
        completions.poll_recv(&mut self.recvs)
    }

    /// See [`Engine::sort_completions`](crate::Engine::sort_completions).
    pub(super) fn sort_finished(
        &mut self,
        completions: &mut Completions<'_>,
        group_of: &mut impl FnMut(PeerId) -> CompletionGroup,
    ) {
        completions.sort_recvs(&mut self.recvs, group_of);
    }

    /// The next completion of a receive or of a remote write of the group.
    pub(super) fn poll_of(
        &mut self,
        completions: &mut Completions<'_>,
        group: CompletionGroup,
    ) -> Option<Completion> {
        completions.poll_recv_of(&mut self.recvs, group)
    }

    /// See [`Engine::discard_completions`](crate::Engine::discard_completions).
    pub(super) fn discard_finished(
        &mut self,
        completions: &mut Completions<'_>,
        peer: PeerId,
        each: impl FnMut(RecvId),
    ) {
        completions.discard_recvs(&mut self.recvs, peer, each);
        self.discard_claimed_of(peer);
        // bound: the stored messages of the peer, all of which have ended
        loop {
            let slot = self.stored.first_of(&mut self.unexpected, peer);
            if slot.is_none() {
                break;
            }
            self.unexpected.adopt(slot);
            self.unqueue_stored(slot);
            self.unexpected.release(slot);
        }
    }

    /// The next end of a deferred receive, and whether it succeeded.
    pub(super) fn poll_deferred(
        &mut self,
        completions: &mut Completions<'_>,
    ) -> Option<(DeferredId, bool)> {
        completions.poll_deferred_recv(&mut self.recvs)
    }

    /// Whether a finished receive or a stored message names `peer`. Bound: the finished receives,
    /// the claimed messages.
    pub(super) fn refers_to(&mut self, completions: &Completions<'_>, peer: PeerId) -> bool {
        let pool = &mut self.unexpected;
        self.stored.first_of(pool, peer).is_some()
            || self.claimed.any(pool, |pool, slot| pool.message(slot).peer == peer)
            || completions.names_in_recvs(&mut self.recvs, peer)
    }
}
