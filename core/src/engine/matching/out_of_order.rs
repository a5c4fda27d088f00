// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages out of order (`docs/PROTOCOL.md` §6.3): an earlier one of their sender is missing.
//!
//! In: records of such messages, and the acceptance of earlier ones. Out: messages stored until
//! their turn, then matched or kept as unexpected ones. Callers: `accept.rs`, and the engine after
//! each packet and in each progress call. Bound: [`NEXT_PER_CALL`] messages a call, so a message
//! that fills a hole does not release all messages behind it at once. When a message is refused or
//! a connection ends, its messages out of order are discarded together. Each progress call then
//! releases [`RELEASED_PER_CALL`] of them.

use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::operation::{MessageDestination, Unexpected};
use crate::peer::slots::{ConnSlot, PeerSlot, StoredSlot};
use crate::wire::{Envelope, RECORDS_MAX, Record};
use crate::{DropReason, Memory};

/// Messages out of order that a progress call accepts, and as many more for each packet that came
/// meanwhile: more than it brings, so that a receiver catches up.
const NEXT_PER_CALL: u32 = 64;
static_assertions::const_assert!(NEXT_PER_CALL as usize > RECORDS_MAX);
/// Messages out of order of one sender that are accepted before those of another one.
const NEXT_PER_TURN: u32 = 16;
/// Discarded messages that one progress call releases.
const RELEASED_PER_CALL: u32 = 64;

impl Matcher<'_> {
    /// Stores a message that arrived before an earlier one.
    ///
    /// After an out-of-order message of a connection found no storage, its next ones get none until
    /// a message leaves the storage. So the records of a repeated packet cost no search.
    pub(super) fn store_out_of_order<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        (envelope, rnr_epoch): (&Envelope, u8),
        record: &Record<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        if cx.table[conn].out_of_order_refused_at() == self.unexpected.releases() {
            return Err(DropReason::OutOfOrderWithoutStorage);
        }
        cx.table[conn].forget_refusal();
        let batch = self.unexpected.batch_of(*cx.table[conn].out_of_order());
        if self.stored.find_out_of_order(&mut self.unexpected, batch, envelope.msn).is_some() {
            // Its packet carried another message that could not be stored, and is repeated.
            cx.stats.records_discarded += 1;
            return Ok(());
        }
        if matches!(record, Record::Segment(_)) && self.lacks_assembly(cx, conn) {
            return Err(DropReason::OutOfOrderWithoutStorage);
        }
        let Some(slot) = self.store_record(cx, conn, record, memory) else {
            cx.table[conn].refuse_out_of_order(self.unexpected.releases());
            return Err(DropReason::OutOfOrderWithoutStorage);
        };
        cx.stats.messages_out_of_order += 1;
        cx.table[conn].out_of_order_mut().push_back(&mut self.unexpected, slot);
        self.unexpected.message(slot).batch = batch;
        self.stored.push_out_of_order(&mut self.unexpected, slot);
        if let Record::Segment(segment) = record {
            let destination = MessageDestination::Stored(self.unexpected.id(slot));
            return self.assemble(cx, conn, (rnr_epoch, destination), segment, memory);
        }
        Ok(())
    }

    /// The next message of a connection, if it is stored out of order.
    fn find_next(&mut self, cx: &Ctx<'_>, conn: ConnSlot) -> Option<StoredSlot> {
        let state = &cx.table[conn];
        if state.out_of_order().is_empty() {
            return None;
        }
        let batch = self.unexpected.batch_of(*state.out_of_order());
        let next = state.rx().expected_msn();
        let slot = self.stored.find_out_of_order(&mut self.unexpected, batch, next);
        (slot.is_some()).then_some(slot)
    }

    #[inline]
    pub(super) fn is_next_stored(&mut self, cx: &Ctx<'_>, conn: ConnSlot) -> bool {
        self.find_next(cx, conn).is_some()
    }

    /// Lists the next message of a connection, if it is stored out of order.
    #[inline]
    pub(super) fn mark_next(&mut self, cx: &Ctx<'_>, conn: ConnSlot) {
        if let Some(slot) = self.find_next(cx, conn) {
            self.unexpected.mark_next(slot);
        }
    }

    /// A packet with records was processed. A progress call accepts messages for it.
    #[inline]
    pub(crate) fn count_packet(&mut self) {
        if !self.unexpected.next_messages().is_empty() {
            self.packets_with_next = self.packets_with_next.saturating_add(1);
        }
    }

    /// Accepts messages out of order that are the next ones. After [`NEXT_PER_TURN`] a sender goes
    /// behind the others. Bound: [`NEXT_PER_CALL`], and the steps of their searches.
    #[cold]
    pub(super) fn accept_next_stored<M: Memory>(&mut self, cx: &mut Ctx<'_>, memory: &mut M) {
        let mut left = NEXT_PER_CALL;
        // bound: each turn accepts a message
        while left > 0 && !self.posted.is_long() {
            let slot = self.unexpected.next_messages().head();
            if slot.is_none() {
                return;
            }
            self.unexpected.unmark_next(slot);
            let peer = PeerSlot::of(self.unexpected.message(slot).peer);
            let Some(conn) = cx.table.connection_of(peer) else { continue };
            left -= self.accept_from(cx, (conn, slot), NEXT_PER_TURN.min(left), memory);
            self.mark_next(cx, conn);
            cx.owe_ack_now(conn);
        }
    }

    /// Accepts messages out of order of one connection, from its next one on, `most` at the most.
    /// Returns how many.
    fn accept_from<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        (conn, mut slot): (ConnSlot, StoredSlot),
        most: u32,
        memory: &mut M,
    ) -> u32 {
        let Unexpected { peer, batch, .. } = *self.unexpected.message(slot);
        let mut count = 0;
        while slot.is_some() && count < most && !self.posted.is_long() {
            self.stored.remove_out_of_order(&mut self.unexpected, slot);
            cx.table[conn].out_of_order_mut().remove(&mut self.unexpected, slot);
            let message = self.unexpected.message(slot);
            message.batch = 0;
            let envelope = message.envelope;
            match self.match_posted(cx, peer, &envelope, memory) {
                Some(recv) => self.bind_stored(cx, slot, recv, memory),
                None => self.queue_stored(cx, slot),
            }
            count += 1;
            let next = envelope.msn.plus(1);
            slot = self.stored.find_out_of_order(&mut self.unexpected, batch, next);
        }
        let state = &mut cx.table[conn];
        state.messages_accepted(state.rx().expected_msn().plus(count));
        cx.stats.messages_accepted += u64::from(count);
        count
    }

    /// Discards every out-of-order message of a connection. They keep their slots until
    /// [`Self::release_discarded`]. Bound: messages of the connection that are arriving.
    pub(crate) fn discard_out_of_order(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        self.discard_messages_out_of_order(cx, conn);
        let mut slot = cx.table[conn].assemblies().head();
        while slot.is_some() {
            let next = List::next(&mut self.assemblies, slot);
            if let MessageDestination::Stored(id) = self.assemblies[slot].destination
                && self.unexpected.message(StoredSlot::of(id)).batch != 0
            {
                self.drop_assembly(cx, conn, slot);
            }
            slot = next;
        }
    }

    /// As [`Self::discard_out_of_order`], but for the assemblies of these messages. O(1).
    pub(super) fn discard_messages_out_of_order(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        if let Some(next) = self.find_next(cx, conn) {
            self.unexpected.unmark_next(next);
        }
        let list = core::mem::take(cx.table[conn].out_of_order_mut());
        self.unexpected.discard(list);
    }

    /// Whether a discarded message still has its slot.
    #[inline]
    pub(crate) fn has_discarded(&self) -> bool {
        !self.unexpected.discarded().is_empty()
    }

    /// Releases the slots of discarded messages. Bound: [`RELEASED_PER_CALL`].
    #[cold]
    pub(crate) fn release_discarded(&mut self) {
        for _ in 0..RELEASED_PER_CALL {
            let Some(slot) = self.unexpected.pop_discarded() else { return };
            self.stored.remove_out_of_order(&mut self.unexpected, slot);
            self.unexpected.release(slot);
        }
    }
}
