// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peek, claim and discard of stored messages (`fi_tagged(3)`: `FI_PEEK`, `FI_CLAIM`,
//! `FI_DISCARD`).
//!
//! In: a request of the application. Out: a completion for each call. A message is found by its
//! envelope, so it need not have arrived in full. A claimed message is in no queue that receives
//! search: the application's context is its key. Bounds: stored messages, claimed messages.

use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::operation::{RECVS, RecvKind, RecvOp, StoredState, Unexpected};
use crate::peer::slots::{RecvSlot, StoredSlot};
use crate::{Memory, OpError, Peek, PostError, RecvId, RecvRequest};

impl Matcher<'_> {
    /// See [`Engine::peek`](crate::Engine::peek).
    pub(crate) fn peek<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        (request, peek): (RecvRequest, Peek),
        memory: &mut M,
    ) -> Result<(), PostError> {
        self.end_searches(cx, sender, memory);
        let slot = self.begin_peek(cx, request)?;
        let Some(message) = self.find_stored(cx, &request) else {
            self.recvs[slot].outcome = Err(OpError::NoMessage);
            cx.completions.finish_recv(&mut self.recvs, slot);
            return Ok(());
        };
        match peek {
            Peek::Envelope => self.copy_envelope(slot, message),
            Peek::Claim => {
                self.copy_envelope(slot, message);
                self.unqueue_stored(message);
                self.unexpected.message(message).state = StoredState::Claimed(request.context);
                self.claimed.push_back(&mut self.unexpected, message);
            }
            Peek::Discard => {
                self.unqueue_stored(message);
                self.discard(cx, sender, slot, message);
                return Ok(());
            }
        }
        cx.completions.finish_recv(&mut self.recvs, slot);
        Ok(())
    }

    /// See [`Engine::post_claimed`](crate::Engine::post_claimed).
    pub(crate) fn post_claimed<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let message = self.find_claimed(cx, &request).ok_or(PostError::NotClaimed)?;
        let op = RecvOp { request, ..RecvOp::default() };
        let (slot, _) = cx.completions.link_slots_mut().take_recv(&mut self.recvs, RECVS, op)?;
        let id = self.recv_id(slot);
        memory.attach_recv(id, buffer);
        self.claimed.remove(&mut self.unexpected, message);
        match self.unexpected.message(message).failed {
            Some(error) => self.fail_claimed(cx, slot, message, error),
            None => {
                self.bind_stored(cx, message, slot, memory);
                self.schedule_rendezvous(cx, sender);
            }
        }
        Ok(id)
    }

    /// See [`Engine::discard_claimed`](crate::Engine::discard_claimed).
    pub(crate) fn discard_claimed(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        request: RecvRequest,
    ) -> Result<(), PostError> {
        let message = self.find_claimed(cx, &request).ok_or(PostError::NotClaimed)?;
        let slot = self.begin_peek(cx, request)?;
        self.claimed.remove(&mut self.unexpected, message);
        self.discard(cx, sender, slot, message);
        Ok(())
    }

    fn begin_peek(
        &mut self,
        cx: &mut Ctx<'_>,
        request: RecvRequest,
    ) -> Result<RecvSlot, PostError> {
        let request = RecvRequest { len: 0, ..request };
        let op = RecvOp { request, kind: RecvKind::Peek, ..RecvOp::default() };
        let (slot, _) = cx.completions.link_slots_mut().take_recv(&mut self.recvs, RECVS, op)?;
        Ok(slot)
    }

    fn copy_envelope(&mut self, slot: RecvSlot, message: StoredSlot) {
        let Unexpected { peer, envelope, .. } = *self.unexpected.message(message);
        let op = &mut self.recvs[slot];
        (op.peer, op.envelope) = (peer, envelope);
    }

    /// Drops a message that is out of its queue, and completes the peek in `slot` with its
    /// envelope. The sender of an announced message is notified that no byte is wanted.
    fn discard(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        slot: RecvSlot,
        message: StoredSlot,
    ) {
        self.copy_envelope(slot, message);
        let stored = self.unexpected.message(message);
        let Unexpected { epoch, handle, complete, failed, .. } = *stored;
        if handle.is_none() && !complete && failed.is_none() {
            stored.state = StoredState::Discarded;
        } else {
            self.unexpected.release(message);
        }
        match handle {
            Some(handle) => {
                self.start_rendezvous(cx, slot, (handle, epoch));
                self.schedule_rendezvous(cx, sender);
            }
            None => cx.completions.finish_recv(&mut self.recvs, slot),
        }
    }

    fn fail_claimed(
        &mut self,
        cx: &mut Ctx<'_>,
        slot: RecvSlot,
        message: StoredSlot,
        error: OpError,
    ) {
        self.copy_envelope(slot, message);
        self.unexpected.release(message);
        self.recvs[slot].outcome = Err(error);
        cx.completions.finish_recv(&mut self.recvs, slot);
    }

    /// The message that was claimed with the context of `request`. Connected endpoints share an
    /// engine: each finds those of its peer alone.
    fn find_claimed(&mut self, cx: &Ctx<'_>, request: &RecvRequest) -> Option<StoredSlot> {
        let peer = request.from.filter(|_| cx.config.named_peers_only);
        let claimed = StoredState::Claimed(request.context);
        let mut slot = self.claimed.head();
        // bound: claimed messages
        while slot.is_some() {
            let message = self.unexpected.message(slot);
            if message.state == claimed && peer.is_none_or(|peer| message.peer == peer) {
                return Some(slot);
            }
            slot = List::next(&mut self.unexpected, slot);
        }
        None
    }
}
