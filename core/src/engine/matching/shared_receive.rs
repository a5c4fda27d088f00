// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives from a queue that engines share ([`crate::shared_queue`]).
//!
//! A message that arrives asks for one by [`Memory::claim_shared_receive`]. A receive that is
//! posted while messages are stored is offered to the engines that store any, by `stored_len` and
//! `post_shared`. An engine that takes from such a queue has no receives of its own. Bounds: stored
//! messages.

use crate::api::matching::MultiRecv;
use crate::api::memory::UnmatchedMessage;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::operation::{RECVS, RecvKind, RecvOp};
use crate::peer::slots::RecvSlot;
use crate::wire::Envelope;
use crate::{Memory, OpError, PeerAddress, PeerId, PostError, RecvId, RecvRequest};

impl Matcher<'_> {
    /// Matches a message that no posted receive fits with a shared receive.
    #[cold]
    pub(super) fn match_shared<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        peer: PeerId,
        envelope: &Envelope,
        memory: &mut M,
    ) -> Option<RecvSlot> {
        let source = cx.table.peer_slot(peer).map(|slot| cx.table[slot].address());
        let arrival = UnmatchedMessage {
            // Datagrams come from anybody.
            source: source.unwrap_or(PeerAddress::NONE),
            tag: envelope.tag,
            len: envelope.total,
            overtakes: self.has_stored(),
            room: self.free_receives() > 0,
        };
        let (request, buffer) = memory.claim_shared_receive(&arrival)?;
        let op = RecvOp { request, kind: RecvKind::Shared, ..RecvOp::default() };
        let (slot, _) =
            cx.completions.link_slots_mut().take_recv(&mut self.recvs, RECVS, op).ok()?;
        memory.attach_recv(self.recv_id(slot), buffer);
        self.record_match(slot, peer, envelope);
        Some(slot)
    }

    /// See [`Engine::has_stored`](crate::Engine::has_stored).
    #[inline]
    pub(crate) fn has_stored(&self) -> bool {
        !self.stored.is_empty()
    }

    /// See [`Engine::free_receives`](crate::Engine::free_receives).
    pub(crate) fn free_receives(&self) -> u32 {
        self.recvs.free_in(RECVS)
    }

    /// See [`Engine::stored_len`](crate::Engine::stored_len).
    pub(crate) fn stored_len(&mut self, cx: &Ctx<'_>, request: &RecvRequest) -> Option<u64> {
        let slot = self.find_stored(cx, request)?;
        Some(self.unexpected.message(slot).envelope.total)
    }

    /// See [`Engine::post_shared`](crate::Engine::post_shared).
    pub(crate) fn post_shared<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let message = self.find_stored(cx, &request).ok_or(PostError::Again)?;
        let op = RecvOp { request, kind: RecvKind::Shared, ..RecvOp::default() };
        let (slot, _) = cx.completions.link_slots_mut().take_recv(&mut self.recvs, RECVS, op)?;
        let id = self.recv_id(slot);
        memory.attach_recv(id, buffer);
        self.unqueue_stored(message);
        self.bind_stored(cx, message, slot, memory);
        self.schedule_rendezvous(cx, sender);
        Ok(id)
    }

    /// See [`Engine::post_cancelled`](crate::Engine::post_cancelled).
    pub(crate) fn post_cancelled(
        &mut self,
        cx: &mut Ctx<'_>,
        request: RecvRequest,
        multi: bool,
    ) -> Result<(), PostError> {
        let multi = multi.then_some(MultiRecv::new_closed());
        let kind = multi.map_or(RecvKind::One, RecvKind::MultiRecv);
        let outcome = Err(OpError::Cancelled);
        let op = RecvOp { request, kind, outcome, ..RecvOp::default() };
        let (slot, _) = cx.completions.link_slots_mut().take_recv(&mut self.recvs, RECVS, op)?;
        cx.completions.finish_recv(&mut self.recvs, slot);
        Ok(())
    }
}
