// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives meet messages: in posting order on one side, in order of acceptance on the other
//! (`docs/PROTOCOL.md` §6.1, `fi_msg(3)`, `fi_tagged(3)`).
//!
//! Bounds: a search is linear in the queue it goes through.

use super::Engine;
use crate::operation::{Holder, RecvKind, Unexpected};
use crate::slab::{List, NIL};
use crate::wire::{Envelope, MessageRecord, Records};
use crate::{Memory, OpError, PeerId, Placement, RecvId, RecvRequest, Target};

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

    /// Takes whole messages, `tagged` ones or the others, from the front of `records`, as long as
    /// each of them is the one whose turn it is and the receive that is first in line takes it, and
    /// nothing is out of the ordinary: what [`Self::accept_record`] does with one after the other.
    /// The receives are neighbours, and stay so as they end. Bound: the records.
    // Apart, so that the loop has the registers to itself.
    #[inline(never)]
    pub(super) fn receive_run<M: Memory>(
        &mut self,
        active: u32,
        rnr_epoch: u8,
        tagged: bool,
        records: &mut Records<'_>,
        memory: &mut M,
    ) {
        let state = &mut self.actives[active];
        let ordinary = rnr_epoch == state.rx_rnr_epoch
            && !state.not_ready
            && state.early.is_empty()
            && !self.starved;
        let mut next = self.posted.first(tagged);
        if !ordinary || next == NIL {
            return;
        }
        let peer = PeerId::new(state.peer, self.peers.generation(state.peer));
        let (first, mut last) = (next, NIL);
        let (mut expected, mut bytes) = (state.expected_msn, 0);
        records.take_messages(|&MessageRecord { envelope, payload }| {
            if next == NIL {
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
                let target = Target::Recv(RecvId::new(last, generation));
                memory.place(Placement { target, offset: 0, more: false }, payload);
            }
            true
        });
        let count = u64::from(expected.since(state.expected_msn));
        if count > 0 {
            state.expected_msn = expected;
            let queue = self.posted.of(tagged);
            queue.move_run(&mut self.recvs, (first, last), &mut self.recvs_done);
            self.stats.messages_accepted += count;
            self.stats.bytes_placed += bytes;
            self.tally.receives.done += count;
        }
    }

    /// The first receive in line takes a whole message from `peer`, and ends.
    #[inline(always)]
    pub(super) fn receive_message<M: Memory>(
        &mut self,
        recv: u32,
        peer: PeerId,
        message: &MessageRecord<'_>,
        memory: &mut M,
    ) {
        self.posted.of(message.envelope.tag.is_some()).remove(&mut self.recvs, recv);
        self.note_match(recv, peer, &message.envelope);
        self.place_in_recv(recv, 0, message.payload, false, memory);
        self.finish_one(recv);
        self.stats.messages_accepted += 1;
    }

    /// Takes the first posted receive that fits a message out of its queue, and notes what it
    /// matched.
    #[inline]
    pub(super) fn match_posted<M: Memory>(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        memory: &mut M,
    ) -> Option<u32> {
        let tagged = envelope.tag.is_some();
        let posted = self.find_posted(tagged, |request| request.takes(peer, envelope));
        let Some(number) = posted else { return self.match_shared(peer, envelope, memory) };
        if self.starved || self.recvs[number].kind != RecvKind::One {
            return self.match_rarely(number, peer, envelope, memory);
        }
        self.posted.of(tagged).remove(&mut self.recvs, number);
        self.note_match(number, peer, envelope);
        Some(number)
    }

    #[inline]
    pub(super) fn note_match(&mut self, recv: u32, peer: PeerId, envelope: &Envelope) {
        let op = &mut self.recvs[recv];
        op.peer = peer;
        op.envelope = *envelope;
        if envelope.total > op.request.len {
            op.outcome = Err(OpError::Truncated);
        }
    }

    /// The first stored message that fits a request.
    #[inline(always)]
    pub(super) fn find_stored(&mut self, request: &RecvRequest) -> Option<u32> {
        let first = self.stored.first(request.tag.is_some());
        if first == NIL { None } else { self.find_stored_from(first, request) }
    }

    fn find_stored_from(&mut self, first: u32, request: &RecvRequest) -> Option<u32> {
        let mut number = first;
        // bound: stored messages
        while number != NIL {
            let message = *self.unexpected.message(number);
            let fits = request.takes(message.peer, &message.envelope);
            if fits && !(self.starved && self.is_spoken_for(&message)) {
                return Some(number);
            }
            number = List::next(&mut self.unexpected, number);
        }
        None
    }

    /// Whether a stored message fits a posted receive: it is stored for want of a slot then.
    #[cold]
    fn is_spoken_for(&mut self, message: &Unexpected) -> bool {
        let Unexpected { peer, envelope, .. } = message;
        self.find_posted(envelope.tag.is_some(), |request| request.takes(*peer, envelope)).is_some()
    }

    /// Takes a stored message out of its queue.
    pub(super) fn unqueue_stored(&mut self, number: u32) {
        let tagged = self.unexpected.message(number).envelope.tag.is_some();
        self.stored.of(tagged).remove(&mut self.unexpected, number);
    }

    /// A receive and a stored message, both out of their queues, belong together: delivers it now,
    /// or when the rest has arrived.
    pub(super) fn bind_stored<M: Memory>(&mut self, number: u32, recv: u32, memory: &mut M) {
        let message = self.unexpected.message(number);
        message.holder = Holder::Recv(recv);
        let Unexpected { peer, envelope, complete, handle, .. } = *message;
        self.note_match(recv, peer, &envelope);
        if let Some(handle) = handle {
            self.unexpected.release(number);
            self.begin_pull(recv, handle);
        } else if complete {
            self.deliver_stored(number, recv, memory);
        }
    }

    /// Copies a complete stored message to the receive it is bound to, and completes that.
    pub(super) fn deliver_stored<M: Memory>(&mut self, number: u32, recv: u32, memory: &mut M) {
        let total = self.unexpected.message(number).envelope.total;
        let len = total.min(self.recvs[recv].request.len);
        memory.deliver(self.unexpected.id(number), self.recv_id(recv), len);
        self.unexpected.release(number);
        self.finish_recv(recv);
    }

    /// Places bytes of a message in the buffer of the receive it matched, as far as that reaches.
    pub(super) fn place_in_recv<M: Memory>(
        &mut self,
        recv: u32,
        offset: u64,
        bytes: &[u8],
        more: bool,
        memory: &mut M,
    ) {
        let room = self.recvs[recv].request.len.saturating_sub(offset);
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let bytes = bytes.get(..fits).unwrap_or(bytes);
        if !bytes.is_empty() {
            self.stats.bytes_placed += bytes.len() as u64;
            let target = Target::Recv(self.recv_id(recv));
            memory.place(Placement { target, offset, more }, bytes);
        }
    }

    /// Places bytes of a stored message.
    pub(super) fn place_in_store<M: Memory>(
        &mut self,
        number: u32,
        offset: u64,
        bytes: &[u8],
        more: bool,
        memory: &mut M,
    ) {
        if !bytes.is_empty() {
            self.stats.bytes_placed += bytes.len() as u64;
            let target = Target::Unexpected(self.unexpected.id(number));
            memory.place(Placement { target, offset, more }, bytes);
        }
    }
}
