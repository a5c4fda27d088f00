// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives from a queue that engines share (`fi_endpoint(3)`: `fi_srx_context`).
//!
//! The queue is not here: its owner keeps receives in posting order and gives one away twice over.
//! A message that arrives asks for one by [`Memory::supply`]; a receive that is posted while
//! messages are stored is offered to the engines that store any, by [`Engine::stored_len`] and
//! [`Engine::post_shared`]. An engine that takes from such a queue has no receives of its own.
//! Bounds: stored messages.

use super::Engine;
use crate::memory::Arrival;
use crate::operation::{Many, RECVS, RecvKind, RecvOp};
use crate::wire::Envelope;
use crate::{Memory, OpError, PeerId, PostError, RecvId, RecvRequest};

impl Engine<'_> {
    /// The match of a message that no posted receive fits.
    #[cold]
    pub(super) fn match_shared<M: Memory>(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        memory: &mut M,
    ) -> Option<u32> {
        let arrival = Arrival {
            source: self.peers[peer.slot()].address,
            tag: envelope.tag,
            len: envelope.total,
            overtakes: self.has_stored(),
            room: self.free_receives() > 0,
        };
        let (request, buffer) = memory.supply(&arrival)?;
        let op = RecvOp { request, kind: RecvKind::Shared, ..RecvOp::default() };
        let number = self.recvs.alloc_in(RECVS, op)?;
        memory.attach_recv(self.recv_id(number), buffer);
        self.note_match(number, peer, envelope);
        Some(number)
    }

    /// Whether any message is stored that a receive could match.
    #[must_use]
    #[inline]
    pub fn has_stored(&self) -> bool {
        !(self.stored.untagged.is_empty() && self.stored.tagged.is_empty())
    }

    /// How many more receives can be posted.
    #[must_use]
    pub fn free_receives(&self) -> u32 {
        self.recvs.free_in(RECVS)
    }

    /// The length of the stored message that a receive would match, if there is one.
    pub fn stored_len(&mut self, request: &RecvRequest) -> Option<u64> {
        let number = self.find_stored(request)?;
        Some(self.unexpected.message(number).envelope.total)
    }

    /// Posts a receive of a shared queue, which fits a stored message
    /// ([`stored_len`](Self::stored_len) says so). Its completion names it
    /// ([`Completion::part`](crate::Completion::part)).
    ///
    /// # Errors
    /// [`PostError::Again`], also if no stored message fits; nothing has changed then, and `buffer`
    /// is dropped.
    pub fn post_shared<M: Memory>(
        &mut self,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let message = self.find_stored(&request).ok_or(PostError::Again)?;
        let op = RecvOp { request, kind: RecvKind::Shared, ..RecvOp::default() };
        let number = self.recvs.alloc_in(RECVS, op).ok_or(PostError::Again)?;
        let id = self.recv_id(number);
        memory.attach_recv(id, buffer);
        self.unqueue_stored(message);
        self.bind_stored(message, number, memory);
        self.schedule_pulls();
        Ok(id)
    }

    /// Tells of a receive that was cancelled before any engine had it; `many`: it was a buffer for
    /// many messages.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then.
    pub fn post_cancelled(&mut self, request: RecvRequest, many: bool) -> Result<(), PostError> {
        let many = many.then_some(Many { used: 0, least: 1, open: 0, closed: true });
        let kind = many.map_or(RecvKind::One, RecvKind::Many);
        let outcome = Err(OpError::Cancelled);
        let op = RecvOp { request, kind, outcome, ..RecvOp::default() };
        let number = self.recvs.alloc_in(RECVS, op).ok_or(PostError::Again)?;
        self.finish_recv(number);
        Ok(())
    }
}
