// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of a connection that ends (`docs/PROTOCOL.md` §5.5).
//!
//! In: the peer and the reason. Out: receives completed in error, storage free again. Bound: stored
//! messages of the peer, claimed messages, queued rendezvous, messages that were arriving.

use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::matching::stored::StoredQueue;
use crate::peer::operation::{MessageDestination, StoredState};
use crate::peer::slots::{ConnSlot, RecvSlot, StoredSlot};
use crate::{OpError, PeerId};

impl Matcher<'_> {
    /// Ends the announced messages of a peer, those that no receive has matched and those that wait
    /// to be read. Its other stored messages are orphans, unless the application has named it.
    pub(crate) fn abort_announced(&mut self, cx: &mut Ctx<'_>, peer: PeerId, error: OpError) {
        self.drop_announced(cx, peer, error);
        self.abort_queued_rendezvous(cx, peer, error);
    }

    /// Ends the messages of a connection that were arriving, and drops its events.
    pub(crate) fn abort_arriving(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, error: OpError) {
        self.discard_out_of_order(cx, conn);
        // bound: messages that were arriving
        loop {
            let assembly = cx.table[conn].assemblies().head();
            if assembly.is_none() {
                break;
            }
            let destination = self.assemblies[assembly].destination;
            self.drop_assembly(cx, conn, assembly);
            self.abandon(cx, destination, error);
        }
        // bound: events of one window
        while let Some(event) = cx.table[conn].pending_events_mut().pop_front(&mut self.recvs) {
            cx.completions.release_recv(&mut self.recvs, event);
        }
    }

    /// Drops announced messages of a peer that no receive has matched; the claim of one fails.
    fn drop_announced(&mut self, cx: &Ctx<'_>, peer: PeerId, error: OpError) {
        let named = cx.table.is_named(peer);
        let mut slot = self.stored.first_of(&mut self.unexpected, peer);
        // bound: stored messages of the peer
        while slot.is_some() {
            let next = StoredQueue::next_of(&mut self.unexpected, slot);
            if self.unexpected.message(slot).handle.is_some() {
                self.unqueue_stored(slot);
                self.unexpected.release(slot);
            } else if !named {
                self.unexpected.orphan(slot);
            }
            slot = next;
        }
        let mut slot = self.claimed.head();
        while slot.is_some() {
            let message = self.unexpected.message(slot);
            if message.peer == peer && message.handle.take().is_some() {
                message.failed = Some(error);
            }
            slot = List::next(&mut self.unexpected, slot);
        }
    }

    /// Ends the receives of long messages of a peer that wait for their turn.
    fn abort_queued_rendezvous(&mut self, cx: &mut Ctx<'_>, peer: PeerId, error: OpError) {
        let mut slot = self.rendezvous_queue.head();
        while slot.is_some() {
            let next = List::next(&mut self.recvs, slot);
            if self.recvs[slot].peer == peer {
                self.abort_rendezvous(cx, slot, false, error);
            }
            slot = next;
        }
    }

    /// The rest of a message will not arrive: its receive ends in error, its storage is free again.
    fn abandon(&mut self, cx: &mut Ctx<'_>, destination: MessageDestination, error: OpError) {
        let recv = match destination {
            MessageDestination::Recv(id) => RecvSlot::of(id),
            MessageDestination::Stored(id) => {
                let slot = StoredSlot::of(id);
                let message = self.unexpected.message(slot);
                let recv = match message.state {
                    StoredState::Claimed(_) => {
                        message.failed = Some(error);
                        return;
                    }
                    StoredState::Unmatched => {
                        self.unqueue_stored(slot);
                        RecvSlot::NONE
                    }
                    StoredState::Matched(recv) => recv,
                    StoredState::Discarded => RecvSlot::NONE,
                };
                self.unexpected.release(slot);
                recv
            }
        };
        if recv.is_some() {
            self.recvs[recv].outcome = Err(error);
            cx.completions.finish_recv(&mut self.recvs, recv);
        }
    }
}
