// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of a connection that ends (`docs/PROTOCOL.md` §5.5).
//!
//! In: the peer and the reason. Out: receives completed in error, storage free again. Bound:
//! messages that were arriving, claimed messages, and the bounds of [`ended`](super::ended).

use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::operation::{MessageDestination, StoredState};
use crate::peer::slots::{ConnSlot, RecvSlot, StoredSlot};
use crate::{OpError, PeerId};

impl Matcher<'_> {
    /// Ends the announced messages of a peer, those that no receive has matched and those that wait
    /// to be read. Its other stored messages are orphans, unless the application has named it.
    /// Progress calls end what is beyond the bounds of [`ended`](super::ended).
    pub(crate) fn abort_announced(&mut self, cx: &mut Ctx<'_>, peer: PeerId, error: OpError) {
        self.end_stored(cx, peer);
        self.abort_claimed(peer, error);
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

    /// The claims of announced messages of a peer fail. Bound: the claimed messages.
    fn abort_claimed(&mut self, peer: PeerId, error: OpError) {
        let mut slot = self.claimed.head();
        while slot.is_some() {
            let message = self.unexpected.message(slot);
            if message.peer == peer && message.handle.take().is_some() {
                message.failed = Some(error);
            }
            slot = List::next(&mut self.unexpected, slot);
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
