// SPDX-License-Identifier: MIT OR Apache-2.0
//! The match rule: receives in posting order on one side, messages in order of acceptance on the
//! other (`docs/PROTOCOL.md` §6.1, `fi_msg(3)`, `fi_tagged(3)`).
//!
//! Bounds: those of [`PostedQueue`](crate::api::posted::PostedQueue) and
//! [`StoredQueue`](super::stored::StoredQueue).

use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::operation::{RecvKind, StoredState, Unexpected};
use crate::peer::slots::{ConnSlot, RecvSlot, StoredSlot};
use crate::wire::{Envelope, MessageRecord, Records};
use crate::{Memory, OpError, PeerId, Placement, RecvId, Target};

impl Matcher<'_> {
    /// A packet begins: see [`PostedQueue`](crate::api::posted::PostedQueue::begin_searches).
    #[inline(always)]
    pub(crate) const fn begin_searches(&mut self) {
        self.posted.begin_searches();
        self.event_place = None;
    }

    /// Accepts whole messages, `tagged` or untagged ones, from the front of `records` in one loop.
    /// It stops before a message that is not the next one, or that the first posted receive does
    /// not take. [`Self::accept_record`] has the same effect, one message at a time. The receives
    /// are neighbours in their queue, and stay neighbours as they end. Bound: the records.
    // Not inlined: the loop needs all registers.
    #[inline(never)]
    pub(crate) fn receive_run<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        (rnr_epoch, tagged): (u8, bool),
        records: &mut Records<'_>,
        memory: &mut M,
    ) {
        let peer = cx.table.peer_of(conn);
        let state = &mut cx.table[conn];
        let ordinary = rnr_epoch == state.rx().rnr_epoch()
            && !state.rx().is_not_ready()
            && state.out_of_order().is_empty()
            && !(self.slices_exhausted && cx.completions.link_slots().is_exhausted(peer));
        let mut next = self.posted.first(tagged);
        let Some(queue) = self.posted.run(tagged) else { return };
        if !ordinary || next.is_none() {
            return;
        }
        let (first, mut last) = (next, RecvSlot::NONE);
        let (mut expected, mut bytes) = (state.rx().expected_msn(), 0);
        records.take_messages(|&MessageRecord { envelope, payload }| {
            if next.is_none() {
                return false;
            }
            let (op, generation) = self.recvs.entry(next);
            let taken = envelope.msn == expected
                && op.kind == RecvKind::One
                && op.request.takes(peer, &envelope)
                && op.request.len >= envelope.total
                && op.request.signal;
            if !taken {
                return false;
            }
            op.peer = peer;
            op.envelope = envelope;
            expected = expected.plus(1);
            (last, next) = (next, op.links.next());
            if !payload.is_empty() {
                bytes += payload.len() as u64;
                let target = Target::Recv(last.id(generation));
                memory.place(Placement { target, offset: 0, more: false }, payload);
            }
            true
        });
        let count = u64::from(expected.since(state.rx().expected_msn()));
        if count > 0 {
            state.messages_accepted(expected);
            let run = (first, last);
            cx.completions.finish_recv_run(&mut self.recvs, queue, run, count);
            cx.stats.messages_accepted += count;
            cx.stats.bytes_placed += bytes;
        }
    }

    /// The first posted receive, if it takes a whole message from `peer` and nothing is out of the
    /// ordinary.
    #[inline(always)]
    pub(crate) fn predict_match(
        &self,
        cx: &Ctx<'_>,
        peer: PeerId,
        envelope: &Envelope,
    ) -> Option<RecvSlot> {
        let recv = self.posted.first(envelope.tag.is_some());
        if recv.is_none() || self.waits_for_slice(cx, peer) {
            return None;
        }
        let op = &self.recvs[recv];
        (op.kind == RecvKind::One && op.request.takes(peer, envelope)).then_some(recv)
    }

    /// Completes the first posted receive with a whole message from `peer`.
    #[inline(always)]
    pub(crate) fn receive_message<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        recv: RecvSlot,
        peer: PeerId,
        message: &MessageRecord<'_>,
        memory: &mut M,
    ) {
        self.posted.remove(&mut self.recvs, recv, message.envelope.tag.is_some());
        let MessageRecord { envelope, payload } = message;
        let (op, generation) = self.recvs.entry(recv);
        op.peer = peer;
        op.envelope = *envelope;
        let mut bytes = *payload;
        if envelope.total > op.request.len {
            op.outcome = Err(OpError::Truncated);
            let room = usize::try_from(op.request.len).unwrap_or(usize::MAX);
            bytes = bytes.get(..room).unwrap_or(bytes);
        }
        let is_usual = op.request.signal && op.outcome.is_ok();
        if is_usual {
            op.links = cx.completions.recv_links();
        }
        if !bytes.is_empty() {
            cx.stats.bytes_placed += bytes.len() as u64;
            let target = Target::Recv(recv.id(generation));
            memory.place(Placement { target, offset: 0, more: false }, bytes);
        }
        if is_usual {
            cx.completions.finish_linked(&mut self.recvs, recv);
        } else {
            cx.completions.finish_one(&mut self.recvs, recv);
        }
        cx.stats.messages_accepted += 1;
    }

    /// Takes the first posted receive that fits a message out of its queue, and records the match.
    #[inline]
    pub(super) fn match_posted<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        peer: PeerId,
        envelope: &Envelope,
        memory: &mut M,
    ) -> Option<RecvSlot> {
        let tagged = envelope.tag.is_some();
        let slot = self.posted.find(&mut self.recvs, peer, envelope.tag);
        if slot.is_none() {
            return self.match_shared(cx, peer, envelope, memory);
        }
        if self.slices_exhausted || self.recvs[slot].kind != RecvKind::One {
            return self.match_multi_recv(cx, slot, (peer, envelope), memory);
        }
        self.posted.remove(&mut self.recvs, slot, tagged);
        self.record_match(slot, peer, envelope);
        Some(slot)
    }

    #[inline]
    pub(super) fn record_match(&mut self, recv: RecvSlot, peer: PeerId, envelope: &Envelope) {
        let op = &mut self.recvs[recv];
        op.peer = peer;
        op.envelope = *envelope;
        if envelope.total > op.request.len {
            op.outcome = Err(OpError::Truncated);
        }
    }

    /// Takes a stored message out of its queue.
    pub(super) fn unqueue_stored(&mut self, slot: StoredSlot) {
        self.stored.remove(&mut self.unexpected, slot);
    }

    /// Binds a receive and a stored message, both out of their queues: delivers the message now, or
    /// when its rest has arrived.
    pub(super) fn bind_stored<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        slot: StoredSlot,
        recv: RecvSlot,
        memory: &mut M,
    ) {
        let message = self.unexpected.message(slot);
        message.state = StoredState::Matched(recv);
        let Unexpected { peer, epoch, envelope, complete, handle, .. } = *message;
        self.record_match(recv, peer, &envelope);
        if let Some(handle) = handle {
            self.unexpected.release(slot);
            self.start_rendezvous(cx, recv, (handle, epoch));
        } else if complete {
            self.deliver_stored(cx, slot, recv, memory);
        }
    }

    /// Copies a complete stored message to its receive, and completes that.
    pub(super) fn deliver_stored<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        slot: StoredSlot,
        recv: RecvSlot,
        memory: &mut M,
    ) {
        let total = self.unexpected.message(slot).envelope.total;
        let len = total.min(self.recvs[recv].request.len);
        memory.deliver(self.unexpected.id(slot), self.recv_id(recv), len);
        self.unexpected.release(slot);
        cx.completions.finish_recv(&mut self.recvs, recv);
    }

    /// Places bytes of a message in the buffer of its receive, up to the end of the buffer.
    pub(super) fn place_in_recv<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        recv: RecvId,
        offset: u64,
        bytes: &[u8],
        more: bool,
        memory: &mut M,
    ) {
        let room = self.recvs[RecvSlot::of(recv)].request.len.saturating_sub(offset);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let bytes = bytes.get(..fits).unwrap_or(bytes);
        if !bytes.is_empty() {
            cx.stats.bytes_placed += bytes.len() as u64;
            let target = Target::Recv(recv);
            memory.place(Placement { target, offset, more }, bytes);
        }
    }

    /// Places bytes of a stored message.
    pub(super) fn place_in_store<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        slot: StoredSlot,
        offset: u64,
        bytes: &[u8],
        more: bool,
        memory: &mut M,
    ) {
        if !bytes.is_empty() {
            cx.stats.bytes_placed += bytes.len() as u64;
            let target = Target::Unexpected(self.unexpected.id(slot));
            memory.place(Placement { target, offset, more }, bytes);
        }
    }
}
