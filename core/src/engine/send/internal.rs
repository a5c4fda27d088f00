// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations of the engine's own: responses and errors for peers, requests for the bytes of long
//! messages (`docs/PROTOCOL.md` §6.5, §8).
//!
//! In: an access of a peer, a receive that has bytes to request. Out: an operation in its peer's
//! queue of responses, and its slot free again at its end. Bound: the reserved slots.

use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::credit::CREDIT_MAX;
use crate::peer::hosts::SharedPool;
use crate::peer::operation::{RENDEZVOUS_READS, RESPONSES, ResponseData, TxKind, TxOp};
use crate::peer::slots::{ConnSlot, OpSlot};
use crate::wire::{ErrorCode, FinRecord, Header};
use crate::{OpError, OpId, RegionId, Remote};

impl Sender<'_> {
    /// Queues an internal operation; it is sent as soon as the window allows.
    pub(crate) fn queue_internal(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, slot: OpSlot) {
        let posted = self.is_posted(slot);
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        if !state.awaits_peer() {
            state.rx_mut().count_silence_from(now);
        }
        state.queue(posted).push(&mut self.ops, slot);
        cx.table.make_ready(conn);
        cx.arm(conn);
    }

    /// Ends an internal operation, which is out of its queue.
    pub(super) fn finish_internal(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        slot: OpSlot,
    ) {
        match self.ops[slot].kind {
            TxKind::Response { request, data, offset } => {
                self.end_response(cx, conn);
                if let ResponseData::Region(region, _, true) = data {
                    self.end_read(cx, conn, (request, offset), region);
                }
            }
            TxKind::Error { .. } => {
                cx.table[conn].errors_mut().record_ended();
                cx.table.give_share_back(conn, SharedPool::Errors, 1);
                self.responders_spare += 1;
            }
            TxKind::RendezvousRead { recv, .. } => {
                return matcher.finish_rendezvous_read(cx, self, conn, (slot, recv));
            }
            TxKind::Fin { .. } => return self.release_rendezvous(cx, conn, slot),
            _ => {}
        }
        self.ops.release(slot);
    }

    /// Records that a response has ended; slots that were lent, and are not needed any more, come
    /// back.
    fn end_response(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        let credits = cx.table[conn].credits_mut();
        credits.served();
        let lent = u32::from(credits.take_back());
        if lent > 0 {
            cx.table.give_share_back(conn, SharedPool::Credits, lent);
            self.responders_spare += lent;
        }
    }

    /// Records that the last response to a read has ended. The bytes of a long read may have an
    /// earlier response that is open: then the read ends with that. Bound: the responses of the
    /// connection, for a read of several requests.
    fn end_read(
        &mut self,
        cx: &Ctx<'_>,
        conn: ConnSlot,
        (read, offset): (OpId, u64),
        region: RegionId,
    ) {
        // Of the open ones, the response with the highest offset.
        let mut earlier = None;
        let responses = cx.table[conn].responses().list().head();
        // Nothing is before the beginning of the read.
        let mut slot = Some(responses).filter(|slot| offset > 0 && slot.is_some());
        while let Some(open) = slot {
            let op = &self.ops[open];
            if let TxKind::Response { request, data: ResponseData::Region(..), offset } = op.kind
                && request == read
            {
                earlier = earlier.max(Some((offset, open.number())));
            }
            slot = Some(op.links.next()).filter(|next| next.is_some());
        }
        let Some((_, open)) = earlier else {
            // Never full: see its bound.
            let _ = self.ended_reads.push(region);
            return;
        };
        let open = &mut self.ops[OpSlot::from_number(open)];
        if let TxKind::Response { data: ResponseData::Region(_, _, last), .. } = &mut open.kind {
            *last = true;
        }
    }

    /// A region was taken back. Reads of it that are not sent in full end in error, and do not
    /// count. Bound: the slots for responses.
    pub(crate) fn fail_reads_of(&mut self, region: RegionId) {
        let mut left = self.ops.used_in(RESPONSES);
        for slot in self.ops.slots_in(RESPONSES) {
            if left == 0 {
                break;
            }
            if !self.ops.is_used(slot) {
                continue;
            }
            left -= 1;
            let op = &mut self.ops[slot];
            if let TxKind::Response { data: ResponseData::Region(of, _, counts), .. } = &mut op.kind
                && *of == region
                && !op.all_sent
            {
                *counts = false;
            }
        }
    }

    /// The region of a read that has ended and was not counted.
    #[inline(always)]
    pub(crate) fn take_ended_read(&mut self) -> Option<RegionId> {
        self.ended_reads.pop()
    }

    /// Ends every internal operation of a connection that ends. Bound: those operations.
    pub(crate) fn abort_internal(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        error: OpError,
    ) {
        while let Some(op) = cx.table[conn].responses_mut().take_first(&mut self.ops) {
            match self.ops[op].kind {
                TxKind::RendezvousRead { recv, .. } => {
                    matcher.abort_rendezvous(cx, recv, true, error);
                    cx.table.give_share_back(conn, SharedPool::RendezvousReads, 1);
                }
                TxKind::Fin { .. } => {
                    cx.table.give_share_back(conn, SharedPool::RendezvousReads, 1);
                }
                TxKind::Error { .. } => {
                    cx.table.give_share_back(conn, SharedPool::Errors, 1);
                    self.responders_spare += 1;
                }
                _ => {}
            }
            self.ops.release(op);
        }
        cx.table[conn].end_internal();
    }

    /// Leaves the posted operations of a connection that ends to [`Self::end_next_op`].
    pub(crate) fn abort_posted(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, error: OpError) {
        cx.ending.add_ops(&mut self.ops, cx.table[conn].sends_mut(), error);
    }

    /// Ends the next operation of an ended connection, if one is left.
    pub(crate) fn end_next_op(&mut self, cx: &mut Ctx<'_>) -> bool {
        let next = cx.ending.next_op(&mut self.ops);
        next.inspect(|&op| self.finish(cx, op)).is_some()
    }

    /// Whether `requests` more of a peer, in one packet, can be served; grants it more credit if
    /// slots are free.
    pub(crate) fn grant(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, requests: u32) -> bool {
        // Errors must not be refused for the sake of speed: a quarter of the slots beyond one for
        // each connection is theirs.
        let reserve = (cx.config.responders - cx.config.connections) / 4;
        let free = self.responders_spare.saturating_sub(reserve);
        let credits = cx.table[conn].credits();
        let more = u32::from(CREDIT_MAX.saturating_sub(credits.granted())).min(free);
        if more > 0 && cx.table.has_share(conn, SharedPool::Credits, free) {
            cx.table[conn].credits_mut().grant(more as u8);
            cx.table.take_share(conn, SharedPool::Credits, more);
            self.responders_spare -= more;
            cx.owe_ack_now(conn);
        }
        let credits = cx.table[conn].credits();
        requests + u32::from(credits.serving()) <= u32::from(credits.reserved())
            || self.lend(cx, conn, requests)
    }

    /// Lends a packet the slots that it needs beyond the grant, also of those that are kept for
    /// errors. A grant that has lapsed may have been larger, and the packet cannot come with fewer
    /// requests. The slots come back as responses end, so such packets take turns.
    #[cold]
    fn lend(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, requests: u32) -> bool {
        let (credits, spare) = (cx.table[conn].credits(), self.responders_spare);
        let more = requests.saturating_sub(u32::from(credits.reserved()));
        let may_lend = credits.serving() == 0 && requests <= u32::from(CREDIT_MAX) && more <= spare;
        if !may_lend || !cx.table.has_share(conn, SharedPool::Credits, spare) {
            return false;
        }
        cx.table[conn].credits_mut().lend(more as u8);
        cx.table.take_share(conn, SharedPool::Credits, more);
        self.responders_spare -= more;
        true
    }

    /// Queues a response to the request `request` of a peer: `len` bytes of `data` from an offset
    /// of the request on. A slot is reserved for it.
    pub(crate) fn respond(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        request: OpId,
        data: (ResponseData, u64),
        len: u64,
    ) {
        if let Some(slot) = self.new_response(cx, conn, request, data, len) {
            self.queue_internal(cx, conn, slot);
        }
    }

    /// A response as [`Self::respond`] queues it, not queued.
    pub(crate) fn new_response(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        request: OpId,
        (data, offset): (ResponseData, u64),
        len: u64,
    ) -> Option<OpSlot> {
        let peer = cx.table.peer_of(conn);
        let kind = TxKind::Response { request, data, offset };
        let op = TxOp { peer, kind, total: len, ..TxOp::default() };
        let slot = self.ops.alloc_in(RESPONSES, op);
        debug_assert!(slot.is_some(), "slots are kept for every request that is granted");
        cx.table[conn].credits_mut().serve();
        slot
    }

    /// Reports to a peer that its operation `op` failed, once for all parts of it. Returns false if
    /// no slot is left for that: the connection must end, because so many errors at once mean a
    /// faulty program.
    pub(crate) fn report_error(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        header: &Header,
        (op, error): (OpId, OpError),
    ) -> bool {
        if cx.table[conn].is_of_failed(header, op) {
            return true;
        }
        let peer = cx.table.peer_of(conn);
        let kind = TxKind::Error { request: op, code: ErrorCode::from(error) };
        let record = TxOp { peer, kind, ..TxOp::default() };
        let room = self.responders_spare > 0
            && cx.table[conn].errors().may_issue()
            && cx.table.has_share(conn, SharedPool::Errors, self.responders_spare);
        let slot = room.then(|| self.ops.alloc_in(RESPONSES, record)).flatten();
        let Some(slot) = slot else { return false };
        self.responders_spare -= 1;
        cx.table.take_share(conn, SharedPool::Errors, 1);
        cx.table[conn].errors_mut().issue(op);
        cx.stats.errors_sent += 1;
        self.queue_internal(cx, conn, slot);
        true
    }

    /// How many more requests for bytes of long messages can be made.
    pub(crate) fn free_rendezvous_reads(&self) -> u32 {
        self.ops.free_in(RENDEZVOUS_READS)
    }

    /// Queues a request for bytes of a long message, or the notice that no more are wanted. Returns
    /// false if no slot is free.
    pub(crate) fn queue_rendezvous(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, op: TxOp) -> bool {
        let Some(slot) = self.ops.alloc_in(RENDEZVOUS_READS, op) else { return false };
        cx.table.take_share(conn, SharedPool::RendezvousReads, 1);
        cx.table[conn].credits_mut().take_rendezvous_slot();
        self.queue_internal(cx, conn, slot);
        true
    }

    /// The outcome of an operation.
    pub(crate) fn outcome(&self, slot: OpSlot) -> Result<(), OpError> {
        self.ops[slot].outcome
    }

    /// Gives back the slot of a rendezvous read, or of the end of a long message, which is out of
    /// its queue.
    pub(crate) fn release_rendezvous(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, slot: OpSlot) {
        cx.table.give_share_back(conn, SharedPool::RendezvousReads, 1);
        cx.table[conn].credits_mut().rendezvous_slot_given_back();
        self.ops.release(slot);
    }

    /// Makes the notice that message `handle` is complete of an operation that is out of its queue,
    /// and queues it.
    pub(crate) fn reuse_as_fin(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        slot: OpSlot,
        handle: u64,
    ) {
        let peer = self.ops[slot].peer;
        self.ops[slot] = TxOp { peer, kind: TxKind::Fin { handle }, ..TxOp::default() };
        self.queue_internal(cx, conn, slot);
    }

    /// The peer wants no more bytes of a message that was announced to it.
    pub(crate) fn process_fin(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        fin: &FinRecord,
    ) {
        let Some(slot) = self.announced(cx, conn, fin.handle) else {
            cx.stats.records_discarded += 1;
            return;
        };
        self.ops[slot].answered = true;
        self.try_finish(cx, matcher, conn, slot);
    }

    /// The bytes of an announced message that a peer requests, if they lie inside of it.
    pub(crate) fn announced_data(
        &self,
        cx: &Ctx<'_>,
        conn: ConnSlot,
        remote: Remote,
        len: u64,
    ) -> Option<ResponseData> {
        let slot = self.announced(cx, conn, remote.key)?;
        let end = remote.address.checked_add(len)?;
        (end <= self.ops[slot].total)
            .then(|| ResponseData::Message(self.op_id(slot), remote.address))
    }

    /// The message that was announced to a peer under the name `handle`.
    fn announced(&self, cx: &Ctx<'_>, conn: ConnSlot, handle: u64) -> Option<OpSlot> {
        let slot = self.find(OpId::from_bits(u32::try_from(handle).ok()?))?;
        let op = &self.ops[slot];
        let ours = op.peer == cx.table.peer_of(conn) && op.all_sent && !op.done && !op.answered;
        (ours && matches!(op.kind, TxKind::Rendezvous(_))).then_some(slot)
    }
}
