// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of a connection that ends (`docs/PROTOCOL.md` §5.5).
//!
//! In: the peer and the reason. Out: receives completed in error, storage free again. Bound:
//! [`ended`](super::ended), and O(1) for each other call.

use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::hosts::SharedPool;
use crate::peer::operation::{Assembly, MessageDestination, StoredState};
use crate::peer::slots::{ConnSlot, RecvSlot, StoredSlot};
use crate::{OpError, PeerId};

impl Matcher<'_> {
    /// Ends the announced messages of a peer, those that no receive has matched and those that wait
    /// to be read. Its other stored messages are orphans, unless the application has named it.
    /// Progress calls end what is beyond the bounds of [`ended`](super::ended).
    pub(crate) fn abort_announced(&mut self, cx: &mut Ctx<'_>, peer: PeerId, error: OpError) {
        self.end_stored(cx, peer);
        self.abort_queued_rendezvous(cx, peer, error);
    }

    /// Leaves the messages of a connection that were arriving, and its events, to
    /// [`Self::end_next_message`] and [`Self::drop_next_event`].
    pub(crate) fn abort_arriving(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, error: OpError) {
        self.discard_messages_out_of_order(cx, conn);
        let state = &mut cx.table[conn];
        cx.ending.add_assemblies(&mut self.assemblies, state.assemblies_mut(), error);
        cx.ending.add_events(&mut self.recvs, state.pending_events_mut());
    }

    /// Ends the next message that was arriving on an ended connection, if one is left.
    pub(crate) fn end_next_message(&mut self, cx: &mut Ctx<'_>) -> bool {
        let Some((slot, error)) = cx.ending.next_assembly(&mut self.assemblies) else {
            return false;
        };
        let Assembly { destination, host, .. } = self.assemblies[slot];
        cx.table.give_host_share_back(host, SharedPool::Assemblies, 1);
        self.assemblies.release(slot);
        if !self.is_discarded(destination) {
            self.abandon(cx, destination, error);
        }
        true
    }

    /// Drops the next event of an ended connection, if one is left.
    pub(crate) fn drop_next_event(&mut self, cx: &mut Ctx<'_>) -> bool {
        let next = cx.ending.next_event(&mut self.recvs);
        next.inspect(|&event| cx.completions.release_recv(&mut self.recvs, event)).is_some()
    }

    /// Whether a message was out of order, and was discarded with those: its slot is free, or will
    /// be.
    fn is_discarded(&mut self, destination: MessageDestination) -> bool {
        let MessageDestination::Stored(id) = destination else { return false };
        let slot = StoredSlot::of(id);
        !self.unexpected.is_current(slot, id) || self.unexpected.message(slot).batch != 0
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
