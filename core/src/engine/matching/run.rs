// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whole messages in the order of their sender, many in a packet (`docs/PROTOCOL.md` §6.1, §6.3).
//!
//! In: the records of a packet that was admitted once. Out: receives completed, messages stored.
//! `accept.rs` has the same effect, one message at a time, and takes every message at which a loop
//! stops. Bound: the records. Once the searches of the packet are
//! [long](crate::api::posted::PostedQueue::is_long), further messages are stored as those out of
//! order are, and matched in later calls.

use crate::Memory;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::operation::Unexpected;
use crate::peer::slots::{ConnSlot, StoredSlot};
use crate::wire::{MESSAGES_AHEAD_MAX, MessageRecord, Records};

impl Matcher<'_> {
    /// Accepts whole messages from the front of `records`, or stores them out of order. It stops
    /// before a message that is stale, or that finds no storage.
    #[inline]
    pub(crate) fn accept_run<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        rnr_epoch: u8,
        records: &mut Records<'_>,
        memory: &mut M,
    ) {
        let rx = cx.table[conn].rx();
        if rnr_epoch != rx.rnr_epoch() || rx.is_not_ready() {
            return;
        }
        let (peer, epoch) = (cx.table.peer_of(conn), cx.table.epoch_of(conn));
        let host = cx.table.sharing_host(conn);
        let sender = Unexpected { peer, epoch, host, complete: true, ..Unexpected::default() };
        if cx.table[conn].out_of_order().is_empty() {
            self.accept_in_order(cx, conn, &sender, records, memory);
        }
        self.store_later(cx, conn, &sender, records, memory);
    }

    /// Accepts messages while each is the next one: into the receive that it matches, or into
    /// storage.
    // Not inlined: the loop needs all registers.
    #[inline(never)]
    fn accept_in_order<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        sender: &Unexpected,
        records: &mut Records<'_>,
        memory: &mut M,
    ) {
        let first = cx.table[conn].rx().expected_msn();
        let (mut expected, mut stored) = (first, 0);
        records.take_messages(|message| {
            if message.envelope.msn != expected || self.posted.is_long() {
                return false;
            }
            if let Some(recv) = self.match_posted(cx, sender.peer, &message.envelope, memory) {
                let id = self.recv_id(recv);
                self.place_in_recv(cx, id, 0, message.payload, false, memory);
                cx.completions.finish_recv(&mut self.recvs, recv);
            } else {
                let Some(slot) = self.store_whole(cx, sender, message, memory) else {
                    return false;
                };
                if stored == 0 {
                    self.add_view(message.envelope.tag.is_some());
                }
                self.stored.push(&mut self.unexpected, slot);
                stored += 1;
            }
            expected = expected.plus(1);
            true
        });
        let count = u64::from(expected.since(first));
        if count > 0 {
            cx.table[conn].messages_accepted(expected);
        }
        cx.stats.messages_accepted += count;
        cx.stats.messages_unexpected += stored;
    }

    /// Stores messages out of order: those behind a missing one, and those of a packet with long
    /// searches.
    #[inline(never)]
    fn store_later<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        sender: &Unexpected,
        records: &mut Records<'_>,
        memory: &mut M,
    ) {
        let expected = cx.table[conn].rx().expected_msn();
        let nearest = u32::from(!self.posted.is_long());
        let refused = cx.table[conn].out_of_order_refused_at() == self.unexpected.releases();
        if refused || !records.starts_with_message() {
            return;
        }
        cx.table[conn].forget_refusal();
        let batch = self.unexpected.batch_of(*cx.table[conn].out_of_order());
        let sender = Unexpected { batch, ..*sender };
        let mut next = false;
        records.take_messages(|message| {
            let ahead = message.envelope.msn.since(expected);
            if !(nearest..MESSAGES_AHEAD_MAX).contains(&ahead) {
                return false;
            }
            next |= ahead == 0;
            let msn = message.envelope.msn;
            if self.stored.find_out_of_order(&mut self.unexpected, batch, msn).is_some() {
                // Its packet carried another message that could not be stored, and is repeated.
                cx.stats.records_discarded += 1;
                return true;
            }
            let Some(slot) = self.store_whole(cx, &sender, message, memory) else { return false };
            cx.table[conn].out_of_order_mut().push_back(&mut self.unexpected, slot);
            self.stored.push_out_of_order(&mut self.unexpected, slot);
            cx.stats.messages_out_of_order += 1;
            true
        });
        if next {
            self.mark_next(cx, conn);
        }
    }

    /// Storage for a whole message of `sender`, with its bytes. `None`: no slot is free.
    #[inline(always)]
    fn store_whole<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &Unexpected,
        message: &MessageRecord<'_>,
        memory: &mut M,
    ) -> Option<StoredSlot> {
        let &MessageRecord { envelope, payload } = message;
        let slot = self.unexpected.alloc(envelope.total, Unexpected { envelope, ..*sender })?;
        self.place_in_store(cx, slot, 0, payload, false, memory);
        Some(slot)
    }
}
