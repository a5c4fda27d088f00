// SPDX-License-Identifier: MIT OR Apache-2.0
//! Multi-receive buffers (`fi_msg(3)`: `FI_MULTI_RECV`).
//!
//! Such a receive stays at its place in the queue while there is room. Each message that it matches
//! gets the next bytes of its buffer, and a slot of its own, the *slice*. A slice is like a receive
//! of that length. When fewer than the least bytes are left, the buffer leaves the queue. The last
//! of its slices to end releases it to the application.
//!
//! Slices are *exhausted* where no slot is free, because completions are not polled, or where a
//! connected endpoint has its share. Messages are then stored, of the peer of that endpoint alone.
//! None is matched on arrival, because it would overtake the stored ones.
//! [`Matcher::resume_matching`] continues when slots are free again. Bounds: stored messages,
//! posted receives.

use crate::api::matching::MultiRecv;
use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::operation::{RECVS, RecvKind, RecvOp, SLICES};
use crate::peer::slots::RecvSlot;
use crate::wire::Envelope;
use crate::{Memory, OpError, PeerId, PostError, RecvId, RecvRequest};

impl Matcher<'_> {
    /// See [`Engine::post_multi_recv`](crate::Engine::post_multi_recv).
    pub(crate) fn post_multi_recv<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        request: RecvRequest,
        least: u64,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        self.end_searches(cx, sender, memory);
        let multi = MultiRecv::new(least);
        let op = RecvOp { request, kind: RecvKind::MultiRecv(multi), ..RecvOp::default() };
        let (slot, _) = cx.completions.link_slots_mut().take_recv(&mut self.recvs, RECVS, op)?;
        let id = self.recv_id(slot);
        memory.attach_recv(id, buffer);
        self.queue_posted(slot, request.tag.is_some());
        if !self.waits_for_slice(cx, request.from.unwrap_or(PeerId::NONE)) {
            // The stored messages fit no receive that was posted earlier.
            self.fill(cx, slot, memory);
            self.schedule_rendezvous(cx, sender);
        }
        Ok(id)
    }

    /// See [`Engine::resume_matching`](crate::Engine::resume_matching).
    #[inline]
    pub(crate) fn resume_matching<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        memory: &mut M,
    ) {
        if self.slices_exhausted || self.has_unfinished() {
            self.resume(cx, sender, memory);
        }
    }

    /// Whether [`Self::resume_matching`] has slices for messages that wait for one.
    #[inline]
    pub(crate) const fn has_freed_slices(&self, cx: &Ctx<'_>) -> bool {
        self.slices_exhausted && cx.completions.link_slots().round_begins()
    }

    #[cold]
    fn resume<M: Memory>(&mut self, cx: &mut Ctx<'_>, sender: &mut Sender<'_>, memory: &mut M) {
        self.posted.begin_searches();
        if self.slices_exhausted {
            self.resume_multi_recv(cx, sender, memory);
        }
        for _ in 0..=core::mem::take(&mut self.packets_with_next) {
            self.posted.begin_searches();
            self.accept_next_stored(cx, memory);
        }
        if self.has_discarded() {
            self.release_discarded();
        }
        self.end_some(cx);
        if self.has_searches() {
            self.resume_searches(cx, sender, memory);
        }
    }

    /// Whether messages of a peer wait for a slice.
    #[inline]
    pub(super) fn waits_for_slice(&self, cx: &Ctx<'_>, peer: PeerId) -> bool {
        self.slices_exhausted && cx.completions.link_slots().is_exhausted(peer)
    }

    #[cold]
    fn resume_multi_recv<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        memory: &mut M,
    ) {
        if !cx.completions.link_slots_mut().begin_round() {
            return;
        }
        self.slices_exhausted = false;
        self.restart_search();
        for tagged in [false, true] {
            let mut slot = self.posted.first(tagged);
            // bound: posted receives
            while slot.is_some() {
                let next = List::next(&mut self.recvs, slot);
                let from = self.recvs[slot].request.from.unwrap_or(PeerId::NONE);
                if cx.completions.link_slots().resumes(from) && !self.waits_for_slice(cx, from) {
                    self.fill(cx, slot, memory);
                }
                slot = next;
            }
        }
        self.schedule_rendezvous(cx, sender);
    }

    /// Gives a posted receive the stored messages that fit, as many as it takes. The receives
    /// before it have theirs.
    fn fill<M: Memory>(&mut self, cx: &mut Ctx<'_>, slot: RecvSlot, memory: &mut M) {
        let request = self.recvs[slot].request;
        // bound: stored messages
        while let Some(message) = self.find_stored(cx, &request) {
            let stored = *self.unexpected.message(message);
            let Some(taker) = self.take_posted(cx, slot, (stored.peer, &stored.envelope), memory)
            else {
                return;
            };
            self.unqueue_stored(message);
            self.bind_stored(cx, message, taker, memory);
            if taker == slot || !self.is_taking(slot) {
                return;
            }
        }
    }

    /// Matches a message with posted receive `slot`, a multi-receive buffer, or any receive while
    /// slices are exhausted. `None`: the message has to be stored.
    #[cold]
    pub(super) fn match_multi_recv<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        slot: RecvSlot,
        (peer, envelope): (PeerId, &Envelope),
        memory: &mut M,
    ) -> Option<RecvSlot> {
        if self.waits_for_slice(cx, peer) {
            return None;
        }
        let taker = self.take_posted(cx, slot, (peer, envelope), memory)?;
        self.record_match(taker, peer, envelope);
        Some(taker)
    }

    /// The slot that takes a message which posted receive `slot` matches: its own, out of its
    /// queue, or a new slice of its buffer. `None`: no slice is free, and slices are exhausted from
    /// now on.
    fn take_posted<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        slot: RecvSlot,
        (peer, envelope): (PeerId, &Envelope),
        memory: &mut M,
    ) -> Option<RecvSlot> {
        let RecvOp { request, kind: RecvKind::MultiRecv(mut multi), .. } = self.recvs[slot] else {
            self.posted.remove(&mut self.recvs, slot, envelope.tag.is_some());
            return Some(slot);
        };
        let (offset, len) = multi.next_slice(request.len, envelope.total);
        let kind = RecvKind::Slice { of: slot, last: false };
        let part =
            RecvOp { request: RecvRequest { len, ..request }, kind, peer, ..RecvOp::default() };
        let links = cx.completions.link_slots_mut();
        let Ok((part, _)) = links.take_recv(&mut self.recvs, SLICES, part) else {
            links.exhaust(request.from.unwrap_or(PeerId::NONE));
            self.slices_exhausted = true;
            return None;
        };
        memory.attach_slice(self.recv_id(part), self.recv_id(slot), offset);
        multi.open_slice(request.len, len);
        if multi.is_closed() {
            self.posted.remove(&mut self.recvs, slot, request.tag.is_some());
        }
        self.recvs[slot].kind = RecvKind::MultiRecv(multi);
        Some(part)
    }

    /// Whether posted receive `slot` is a buffer that takes more messages.
    fn is_taking(&self, slot: RecvSlot) -> bool {
        matches!(&self.recvs[slot].kind, RecvKind::MultiRecv(multi) if !multi.is_closed())
    }

    /// Cancels posted receive `slot`, which is out of its queue. A multi-receive buffer ends with
    /// its last slice.
    pub(super) fn cancel_posted(&mut self, cx: &mut Ctx<'_>, slot: RecvSlot) {
        let op = &mut self.recvs[slot];
        op.outcome = Err(OpError::Cancelled);
        if let RecvKind::MultiRecv(multi) = &mut op.kind
            && !multi.close()
        {
            return;
        }
        cx.completions.finish_recv(&mut self.recvs, slot);
    }
}
