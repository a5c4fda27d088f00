// SPDX-License-Identifier: MIT OR Apache-2.0
//! Buffers for many messages (`fi_msg(3)`: `FI_MULTI_RECV`).
//!
//! Such a receive stays at its place in the queue while there is room. Each message that it matches
//! gets the next bytes of its buffer, and a slot of its own, as if a receive of that length had
//! been posted there: so it may come in any way and take its time. When fewer than the least bytes
//! are left, the buffer leaves the queue; the last of its messages to end says that it is the
//! application's again.
//!
//! Where there is no slot for a message's part, because completions are not polled, the engine is
//! *starved*: messages are stored, and nothing is matched on arrival, which would overtake them.
//! [`Engine::feed`] goes on when there are slots again. Bounds: stored messages, posted receives.

use super::Engine;
use crate::operation::{Many, PARTS, RECVS, RecvKind, RecvOp};
use crate::slab::{List, NIL};
use crate::wire::Envelope;
use crate::{Memory, OpError, PeerId, PostError, RecvId, RecvRequest};

impl Engine<'_> {
    /// Posts a buffer for many messages, which takes them until fewer than `least` bytes (at least
    /// one) are left. A message longer than what is left is truncated.
    ///
    /// Each message completes with the buffer's context; the last completion says that the buffer
    /// is [`released`](crate::Completion::released), even where success is not to be told. If it
    /// is cancelled, that is said by an error.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then, and `buffer` is dropped.
    pub fn post_multi_recv<M: Memory>(
        &mut self,
        request: RecvRequest,
        least: u64,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let many = Many { used: 0, least: least.max(1), open: 0, closed: false };
        let op = RecvOp { request, kind: RecvKind::Many(many), ..RecvOp::default() };
        let number = self.recvs.alloc_in(RECVS, op).ok_or(PostError::Again)?;
        let id = self.recv_id(number);
        memory.attach_recv(id, buffer);
        self.posted.of(request.tag.is_some()).push_back(&mut self.recvs, number);
        if !self.starved {
            // What is stored fits no receive that was posted earlier.
            self.fill(number, memory);
            self.schedule_pulls();
        }
        Ok(id)
    }

    /// Matches what was stored for want of slots for parts, if there are slots now.
    #[inline]
    pub fn feed<M: Memory>(&mut self, memory: &mut M) {
        if self.starved {
            self.feed_starved(memory);
        }
    }

    #[cold]
    fn feed_starved<M: Memory>(&mut self, memory: &mut M) {
        if self.recvs.free_in(PARTS) == 0 {
            return;
        }
        self.starved = false;
        for tagged in [false, true] {
            let mut number = self.posted.of(tagged).head();
            // bound: posted receives
            while number != NIL && !self.starved {
                let next = List::next(&mut self.recvs, number);
                self.fill(number, memory);
                number = next;
            }
        }
        self.schedule_pulls();
    }

    /// Gives a posted receive the stored messages that fit, as many as it takes. The receives
    /// before it have theirs.
    fn fill<M: Memory>(&mut self, number: u32, memory: &mut M) {
        let request = self.recvs[number].request;
        // bound: stored messages
        while let Some(message) = self.find_stored(&request) {
            let stored = *self.unexpected.message(message);
            let Some(taker) = self.take_posted(number, stored.peer, &stored.envelope, memory)
            else {
                return;
            };
            self.unqueue_stored(message);
            self.bind_stored(message, taker, memory);
            if taker == number || !self.is_taking(number) {
                return;
            }
        }
    }

    /// The match of a message with posted receive `number` where it is a buffer for many, or the
    /// engine starved. `None`: it has to be stored.
    #[cold]
    pub(super) fn match_rarely<M: Memory>(
        &mut self,
        number: u32,
        peer: PeerId,
        envelope: &Envelope,
        memory: &mut M,
    ) -> Option<u32> {
        if self.starved {
            return None;
        }
        let taker = self.take_posted(number, peer, envelope, memory)?;
        self.note_match(taker, peer, envelope);
        Some(taker)
    }

    /// The slot that takes a message which posted receive `number` matches: its own, out of its
    /// queue; or one for the next part of its buffer. `None`: there is none, and the engine is
    /// starved.
    fn take_posted<M: Memory>(
        &mut self,
        number: u32,
        peer: PeerId,
        envelope: &Envelope,
        memory: &mut M,
    ) -> Option<u32> {
        let RecvOp { request, kind: RecvKind::Many(many), .. } = self.recvs[number] else {
            self.posted.of(envelope.tag.is_some()).remove(&mut self.recvs, number);
            return Some(number);
        };
        let left = request.len - many.used;
        let len = envelope.total.min(left);
        let kind = RecvKind::Part { of: number, last: false };
        let part =
            RecvOp { request: RecvRequest { len, ..request }, kind, peer, ..RecvOp::default() };
        let Some(part) = self.recvs.alloc_in(PARTS, part) else {
            self.starved = true;
            return None;
        };
        memory.attach_part(self.recv_id(part), self.recv_id(number), many.used);
        let closed = left - len < many.least;
        if closed {
            self.posted.of(request.tag.is_some()).remove(&mut self.recvs, number);
        }
        let many = Many { used: many.used + len, open: many.open + 1, closed, ..many };
        self.recvs[number].kind = RecvKind::Many(many);
        Some(part)
    }

    /// Whether posted receive `number` is a buffer that takes more messages.
    fn is_taking(&self, number: u32) -> bool {
        matches!(self.recvs[number].kind, RecvKind::Many(Many { closed: false, .. }))
    }

    /// A message in a buffer for many has ended as its `outcome` says, and is out of every list.
    #[cold]
    pub(super) fn finish_part(&mut self, number: u32, of: u32) {
        let RecvKind::Many(mut many) = self.recvs[of].kind else { return };
        many.open -= 1;
        let last = many.closed && many.open == 0;
        let cancelled = self.recvs[of].outcome.is_err();
        self.recvs[of].kind = RecvKind::Many(many);
        self.recvs[number].kind = RecvKind::Part { of: NIL, last: last && !cancelled };
        let part = &self.recvs[number];
        if part.request.signal || part.outcome.is_err() || (last && !cancelled) {
            self.recvs_done.push_back(&mut self.recvs, number);
        } else {
            self.recvs.release(number);
        }
        match (last, cancelled) {
            (true, true) => self.finish_recv(of),
            (true, false) => self.recvs.release(of),
            _ => {}
        }
    }

    /// Cancels posted receive `number`, which is out of its queue. A buffer for many ends with the
    /// last message in it.
    pub(super) fn cancel_posted(&mut self, number: u32) {
        let op = &mut self.recvs[number];
        op.outcome = Err(OpError::Cancelled);
        if let RecvKind::Many(many) = &mut op.kind {
            many.closed = true;
            if many.open > 0 {
                return;
            }
        }
        self.finish_recv(number);
    }
}
