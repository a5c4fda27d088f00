// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives meet messages: in posting order on one side, in order of acceptance on the other
//! (`docs/PROTOCOL.md` §6.1, `fi_msg(3)`, `fi_tagged(3)`).
//!
//! Bounds: a search is linear in the queue it goes through.

use super::Engine;
use crate::operation::Unexpected;
use crate::slab::{List, NIL};
use crate::wire::Envelope;
use crate::{Memory, OpError, PeerId, Placement, RecvRequest, Target};

impl Engine<'_> {
    /// The first posted receive that `accepts`.
    pub(super) fn find_posted(
        &mut self,
        tagged: bool,
        accepts: impl Fn(&RecvRequest) -> bool,
    ) -> Option<u32> {
        let mut number = self.posted.of(tagged).head();
        // bound: posted receives
        while number != NIL && !accepts(&self.recvs[number].request) {
            number = List::next(&mut self.recvs, number);
        }
        (number != NIL).then_some(number)
    }

    /// Takes the first posted receive that fits a message out of its queue, and notes what it
    /// matched.
    pub(super) fn match_posted(&mut self, peer: PeerId, envelope: &Envelope) -> Option<u32> {
        let tagged = envelope.tag.is_some();
        let number = self.find_posted(tagged, |request| request.takes(peer, envelope))?;
        self.posted.of(tagged).remove(&mut self.recvs, number);
        self.note_match(number, peer, envelope);
        Some(number)
    }

    fn note_match(&mut self, recv: u32, peer: PeerId, envelope: &Envelope) {
        let op = &mut self.recvs[recv];
        op.peer = peer;
        op.envelope = *envelope;
        if envelope.total > op.request.len {
            op.outcome = Err(OpError::Truncated);
        }
    }

    /// Takes the first stored message that fits a request out of its queue.
    pub(super) fn match_stored(&mut self, request: &RecvRequest) -> Option<u32> {
        let tagged = request.tag.is_some();
        let mut number = self.stored.of(tagged).head();
        // bound: stored messages
        while number != NIL {
            let message = *self.unexpected.message(number);
            if request.takes(message.peer, &message.envelope) {
                self.stored.of(tagged).remove(&mut self.unexpected, number);
                return Some(number);
            }
            number = List::next(&mut self.unexpected, number);
        }
        None
    }

    /// A receive and a stored message, both out of their queues, belong together: delivers it now,
    /// or when the rest has arrived.
    pub(super) fn bind_stored<M: Memory>(&mut self, number: u32, recv: u32, memory: &mut M) {
        let message = self.unexpected.message(number);
        message.recv = recv;
        let Unexpected { peer, envelope, complete, handle, .. } = *message;
        self.note_match(recv, peer, &envelope);
        if let Some(handle) = handle {
            self.unexpected.release(number);
            self.begin_pull(recv, handle);
        } else if complete {
            self.deliver_stored(number, memory);
        }
    }

    /// Copies a complete stored message to the receive it is bound to, and completes that.
    pub(super) fn deliver_stored<M: Memory>(&mut self, number: u32, memory: &mut M) {
        let message = *self.unexpected.message(number);
        let len = message.envelope.total.min(self.recvs[message.recv].request.len);
        memory.deliver(self.unexpected.id(number), self.recv_id(message.recv), len);
        self.unexpected.release(number);
        self.finish_recv(message.recv);
    }

    /// Places bytes of a message in the buffer of the receive it matched, as far as that reaches.
    pub(super) fn place_in_recv<M: Memory>(
        &mut self,
        recv: u32,
        offset: u64,
        bytes: &[u8],
        memory: &mut M,
    ) {
        let room = self.recvs[recv].request.len.saturating_sub(offset);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let bytes = bytes.get(..fits).unwrap_or(bytes);
        if !bytes.is_empty() {
            self.stats.bytes_placed += bytes.len() as u64;
            let target = Target::Recv(self.recv_id(recv));
            memory.place(Placement { target, offset }, bytes);
        }
    }

    /// Places bytes of a stored message.
    pub(super) fn place_in_store<M: Memory>(
        &mut self,
        number: u32,
        offset: u64,
        bytes: &[u8],
        memory: &mut M,
    ) {
        if !bytes.is_empty() {
            self.stats.bytes_placed += bytes.len() as u64;
            let target = Target::Unexpected(self.unexpected.id(number));
            memory.place(Placement { target, offset }, bytes);
        }
    }
}
