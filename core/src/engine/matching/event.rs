// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of remote writes with CQ data: they are delivered among the completions of receives, in
//! the order of packets (`docs/PROTOCOL.md` §7).
//!
//! In: a write with data that was served. Out: a completion when every earlier packet has arrived.
//! Bound: the events of one window.

use crate::collections::list::List;
use crate::collections::serial::Psn;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::operation::{EVENTS, RecvKind, RecvOp};
use crate::peer::slots::{ConnSlot, RecvSlot};
use crate::wire::{Envelope, WriteRecord};
use crate::{Context, RecvRequest};

impl Matcher<'_> {
    /// Queues the event of a write with CQ data, at the record that ends it. The first one of a
    /// packet searches the place of all.
    pub(crate) fn queue_event(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        psn: Psn,
        write: &WriteRecord<'_>,
    ) {
        let peer = cx.table.peer_of(conn);
        let request = RecvRequest {
            from: None,
            len: 0,
            context: Context(u64::from(write.op.bits())),
            tag: None,
            signal: true,
        };
        let total = write.before + write.payload.len() as u64;
        let envelope = Envelope { data: write.data, total, ..Envelope::default() };
        let host = cx.table.sharing_host(conn);
        let kind = RecvKind::Event(host);
        let event = RecvOp { request, kind, peer, envelope, psn, ..RecvOp::default() };
        // A slot is free: `lacks_room` has checked.
        let links = cx.completions.link_slots_mut();
        let Ok((slot, _)) = links.take_recv(&mut self.recvs, EVENTS, event) else { return };
        cx.completions.event_taken(host);
        let before = match self.event_place {
            Some(before) => before,
            None => self.find_event_place(*cx.table[conn].pending_events(), psn),
        };
        self.event_place = Some(before);
        cx.table[conn].pending_events_mut().insert_before(&mut self.recvs, slot, before);
    }

    /// The first of some `events` that a later packet than `psn` brought. Bound: events of one
    /// window.
    fn find_event_place(&mut self, events: List<RecvSlot>, psn: Psn) -> RecvSlot {
        // From the last one on: packets mostly arrive in order.
        let (mut before, mut last) = (RecvSlot::NONE, events.tail());
        while last.is_some() && psn.is_before(self.recvs[last].psn) {
            (before, last) = (last, List::prev(&mut self.recvs, last));
        }
        before
    }

    /// Delivers the events before which no packet is missing.
    pub(crate) fn deliver_events(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        loop {
            let state = &mut cx.table[conn];
            let slot = state.pending_events().head();
            if slot.is_none() {
                return;
            }
            if !self.recvs[slot].psn.is_before(state.rx().receive_window().next()) {
                cx.stats.events_pending += 1;
                return;
            }
            state.pending_events_mut().remove(&mut self.recvs, slot);
            let op = &mut self.recvs[slot];
            let of_failed = op.request.context.0 == u64::from(state.errors().last());
            op.request.context = Context(0);
            if of_failed {
                // Another part of the same write was in error.
                cx.completions.release_recv(&mut self.recvs, slot);
            } else {
                cx.completions.finish_recv(&mut self.recvs, slot);
            }
        }
    }
}
