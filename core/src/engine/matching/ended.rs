// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stored messages, and receives of long messages, of connections that have ended
//! (`docs/PROTOCOL.md` §6.3). A peer that has sent thousands of messages does not stop an endpoint
//! with its close.
//!
//! In: the end of a connection. Out: announced messages dropped, whole ones made orphans, receives
//! completed in error. Callers: `abort.rs`, and each progress call. Bound: [`ENDED_PER_CALL`] slots
//! and receives a call. The first ones of the peer end at once. If there may be others, all are
//! searched in later calls. A message has the number of its connection, which tells it from those
//! of the next one.

use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::matching::stored::StoredQueue;
use crate::peer::operation::Unexpected;
use crate::peer::slots::StoredSlot;
use crate::{OpError, PeerId};

/// Slots, or receives, that one call looks at.
const ENDED_PER_CALL: u32 = 64;

impl Matcher<'_> {
    /// Ends the first stored messages of a peer, which has no connection.
    pub(crate) fn end_stored(&mut self, cx: &Ctx<'_>, peer: PeerId) {
        let mut slot = self.stored.first_of(&mut self.unexpected, peer);
        for _ in 0..ENDED_PER_CALL {
            if slot.is_none() {
                return;
            }
            let next = StoredQueue::next_of(&mut self.unexpected, slot);
            self.end_stored_message(cx, slot);
            slot = next;
        }
        self.ended.restart(self.unexpected.slots().capacity(), 0);
    }

    /// Ends the stored messages of a peer that was removed. They are those of an unknown peer from
    /// now on, and the claimed ones too: another peer may have the identifier later. A connected
    /// endpoint [discards](Self::discard_finished) its own. Bound: these messages.
    pub(crate) fn disown_stored(&mut self, cx: &Ctx<'_>, peer: PeerId) {
        if cx.config.named_peers_only {
            return self.end_stored(cx, peer);
        }
        let mut slot = self.stored.first_of(&mut self.unexpected, peer);
        while slot.is_some() {
            // Before it moves: the queue is walked once.
            let next = StoredQueue::next_of(&mut self.unexpected, slot);
            self.stored.disown(&mut self.unexpected, slot);
            self.end_stored_message(cx, slot);
            slot = next;
        }
        let mut slot = self.claimed.head();
        while slot.is_some() {
            let message = self.unexpected.message(slot);
            if message.peer == peer {
                message.peer = PeerId::NONE;
            }
            slot = List::next(&mut self.unexpected, slot);
        }
    }

    /// Ends the receives of long messages of a peer, among the first ones that wait for their turn.
    pub(super) fn abort_queued_rendezvous(
        &mut self,
        cx: &mut Ctx<'_>,
        peer: PeerId,
        error: OpError,
    ) {
        let mut slot = self.rendezvous_queue.head();
        for _ in 0..ENDED_PER_CALL {
            if slot.is_none() {
                return;
            }
            let next = List::next(&mut self.recvs, slot);
            if self.recvs[slot].peer == peer {
                self.abort_rendezvous(cx, slot, false, error);
            }
            slot = next;
        }
        self.ended.restart(0, self.recvs.used_in_all());
    }

    /// Goes on with the search. Bound: [`ENDED_PER_CALL`] slots, and as many receives.
    pub(super) fn end_some(&mut self, cx: &mut Ctx<'_>) {
        for _ in 0..ENDED_PER_CALL.min(self.ended.slots) {
            let slot = self.ended.next;
            let next = (slot.number() + 1) % self.unexpected.slots().capacity();
            self.ended.next = StoredSlot::from_number(next);
            self.ended.slots -= 1;
            if self.unexpected.waits_for_receive(slot) {
                let Unexpected { peer, epoch, .. } = *self.unexpected.message(slot);
                if !peer.is_none() && cx.table.find_connected(peer, epoch).is_none() {
                    self.end_stored_message(cx, slot);
                }
            }
        }
        for _ in 0..ENDED_PER_CALL.min(self.ended.recvs) {
            self.ended.recvs -= 1;
            let recv = self.rendezvous_queue.head();
            if recv.is_none() {
                self.ended.recvs = 0;
                break;
            }
            let (peer, epoch) = (self.recvs[recv].peer, self.recvs[recv].rendezvous.epoch);
            if cx.table.find_connected(peer, epoch).is_none() {
                self.abort_rendezvous(cx, recv, false, OpError::Closed);
            } else {
                self.rendezvous_queue.remove(&mut self.recvs, recv);
                self.rendezvous_queue.push_back(&mut self.recvs, recv);
            }
        }
        self.ended.end_if_over();
    }

    /// Goes on with the search to its end. Bound: the slots and the receives.
    pub(crate) fn end_all_stored(&mut self, cx: &mut Ctx<'_>) {
        while !self.ended.is_over() {
            self.end_some(cx);
        }
    }

    /// Frees the claimed messages of a removed peer, all of which have ended. Bound: the claimed
    /// messages.
    pub(super) fn discard_claimed_of(&mut self, peer: PeerId) {
        let mut slot = self.claimed.head();
        while slot.is_some() {
            let next = List::next(&mut self.unexpected, slot);
            if self.unexpected.message(slot).peer == peer {
                self.claimed.remove(&mut self.unexpected, slot);
                self.unexpected.release(slot);
            }
            slot = next;
        }
    }

    /// The connection of a stored message that waits for a receive has ended: an announced one is
    /// dropped, another one is an orphan if its sender is unnamed.
    fn end_stored_message(&mut self, cx: &Ctx<'_>, slot: StoredSlot) {
        let Unexpected { peer, handle, .. } = *self.unexpected.message(slot);
        if handle.is_some() {
            self.unqueue_stored(slot);
            self.unexpected.release(slot);
        } else if !cx.table.is_named(peer) && !cx.config.datagrams {
            self.unexpected.orphan(slot);
        }
    }
}
