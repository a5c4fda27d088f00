// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives of the application: posted, cancelled, deferred (`fi_msg(3)`, `fi_tagged(3)`,
//! `fi_trigger(3)`).
//!
//! In: requests with checked arguments. Out: an identifier, or [`PostError::Again`] when the pool
//! is empty. Bound: the search of a stored message; a cancel goes through the posted receives.

use crate::api::matching::MultiRecv;
use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::operation::{Deferred, RECVS, RecvKind, RecvOp};
use crate::peer::slots::RecvSlot;
use crate::{Memory, OpError, PeerId, PostError, RecvId, RecvRequest, TagMatch, UnstartedOp};

impl Matcher<'_> {
    /// See [`Engine::post_recv`](crate::Engine::post_recv).
    pub(crate) fn post_recv<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        self.file_recv(
            cx,
            sender,
            RecvOp { request, peer: PeerId::NONE, ..RecvOp::default() },
            buffer,
            memory,
        )
    }

    #[inline(always)]
    fn file_recv<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        mut op: RecvOp,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let tagged = op.request.tag.is_some();
        op.links = self.posted.links_behind(tagged);
        let links = cx.completions.link_slots_mut();
        let (slot, generation) = links.take_recv(&mut self.recvs, RECVS, op)?;
        let id = slot.id(generation);
        memory.attach_recv(id, buffer);
        if self.stored.first(tagged).is_none() && self.waiting.is_empty() {
            let used = self.recvs.used_in(RECVS);
            self.posted.push_linked(&mut self.recvs, (slot, tagged), used);
        } else {
            self.post_among_stored(cx, sender, slot, memory);
        }
        Ok(id)
    }

    /// Queues a receive, to wait for a message.
    #[inline(always)]
    pub(super) fn queue_posted(&mut self, slot: RecvSlot, tagged: bool) {
        let used = self.recvs.used_in(RECVS);
        self.posted.push(&mut self.recvs, (slot, tagged), used);
    }

    /// See [`Engine::cancel`](crate::Engine::cancel); `wanted` are the requests to consider.
    pub(crate) fn cancel(
        &mut self,
        cx: &mut Ctx<'_>,
        wanted: impl Fn(&RecvRequest) -> bool,
    ) -> bool {
        for tagged in [false, true] {
            let mut slot = self.posted.first(tagged);
            // bound: posted receives
            while slot.is_some() && !wanted(&self.recvs[slot].request) {
                slot = List::next(&mut self.recvs, slot);
            }
            if slot.is_some() {
                self.withdraw_posted(cx, slot, tagged);
                return true;
            }
        }
        let waiting = self.waiting_with(wanted);
        if let Some(slot) = waiting {
            self.stop_waiting(slot);
            self.cancel_posted(cx, slot);
        }
        waiting.is_some()
    }

    /// Cancels a posted receive.
    fn withdraw_posted(&mut self, cx: &mut Ctx<'_>, slot: RecvSlot, tagged: bool) {
        self.posted.remove(&mut self.recvs, slot, tagged);
        self.cancel_posted(cx, slot);
        if self.slices_exhausted {
            self.restart_search();
        }
    }

    /// Cancels the receives with a source that is `wanted`: posted ones, and those that wait.
    pub(crate) fn cancel_all(&mut self, cx: &mut Ctx<'_>, wanted: impl Fn(Option<PeerId>) -> bool) {
        for tagged in [false, true] {
            let mut slot = self.posted.first(tagged);
            // bound: posted receives
            while slot.is_some() {
                let next = List::next(&mut self.recvs, slot);
                if wanted(self.recvs[slot].request.from) {
                    self.withdraw_posted(cx, slot, tagged);
                }
                slot = next;
            }
        }
        let mut slot = self.waiting.head();
        // bound: receives that wait
        while slot.is_some() {
            let next = List::next(&mut self.recvs, slot);
            if wanted(self.recvs[slot].request.from) {
                self.stop_waiting(slot);
                self.cancel_posted(cx, slot);
            }
            slot = next;
        }
    }

    /// See [`Engine::post_deferred_recv`](crate::Engine::post_deferred_recv).
    pub(crate) fn post_deferred_recv<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        request: RecvRequest,
        notify: bool,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let deferred = if notify { Deferred::Notified } else { Deferred::Suppressed };
        let request = RecvRequest { signal: false, ..request };
        let op = RecvOp { request, deferred, peer: PeerId::NONE, ..RecvOp::default() };
        self.file_recv(cx, sender, op, buffer, memory)
    }

    pub(crate) fn fail_unstarted_recv(
        &mut self,
        cx: &mut Ctx<'_>,
        op: &UnstartedOp,
        tagged: bool,
        error: OpError,
    ) -> Result<(), PostError> {
        let tag = tagged.then_some(TagMatch { tag: 0, ignore: 0 });
        let from = (!op.peer.is_none()).then_some(op.peer);
        let request = RecvRequest { from, len: 0, context: op.context, tag, signal: true };
        let unused = RecvKind::MultiRecv(MultiRecv::new_closed());
        let kind = if op.multi { unused } else { RecvKind::One };
        let op = RecvOp { request, kind, outcome: Err(error), ..RecvOp::default() };
        let (slot, _) = cx.completions.link_slots_mut().take_recv(&mut self.recvs, RECVS, op)?;
        cx.completions.finish_recv(&mut self.recvs, slot);
        Ok(())
    }
}
