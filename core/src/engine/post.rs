// SPDX-License-Identifier: MIT OR Apache-2.0
//! C. What the application asks for: post a send, post a receive, cancel a receive.
//!
//! In: requests with checked arguments. Out: an identifier, or [`PostError::Again`] when a pool is
//! empty. No payload is touched here, but for a receive that matches a stored message.

use super::Engine;
use crate::message::{RecvOp, SendOp};
use crate::peer::{Schedule, State};
use crate::slab::NIL;
use crate::wire::{Envelope, MESSAGES_AHEAD_MAX, TAG_RESERVE};
use crate::{
    Context, Instant, Memory, OpError, OpId, PeerId, PostError, RecvId, RecvRequest, SendRequest,
};

/// A posted send counts as at most this many waiting bytes.
const PENDING_PER_SEND_MAX: u32 = 1 << 16;

impl Engine<'_> {
    /// Posts a message. It goes out with the next [`transmit`](Self::transmit): at once where
    /// nothing is under way to the peer or a full packet is waiting, else with the next progress
    /// call, in company.
    ///
    /// # Errors
    /// [`PostError`]; nothing has changed then, and `buffer` is dropped.
    pub fn post_send<M: Memory>(
        &mut self,
        now: Instant,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let now = self.time(now);
        let total = u32::try_from(request.len).map_err(|_| PostError::TooLong)?;
        let peer = self.peer_number(request.peer).ok_or(PostError::UnknownPeer)?;
        if self.sends.used() == self.sends.capacity() {
            return Err(PostError::Again);
        }
        let active = self.activate(peer, now, true).ok_or(PostError::Again)?;
        if self.peers[peer].state == State::Closed {
            self.open(peer, active, now);
        }
        let state = &mut self.actives[active];
        if state.next_msn.since(state.accepted_msn) >= MESSAGES_AHEAD_MAX - 1 {
            return Err(PostError::Again);
        }
        let op = SendOp {
            context: request.context,
            peer: request.peer,
            envelope: Envelope { msn: state.next_msn, tag: request.tag, data: request.data, total },
            signal: request.signal,
            rnr_epoch: state.tx_rnr_epoch,
            ..SendOp::default()
        };
        let number = self.sends.alloc(op).ok_or(PostError::Again)?;
        if !state.awaits_peer() {
            state.silent_since = now;
        }
        state.next_msn = state.next_msn.plus(1);
        state.sends.push_back(&mut self.sends, number);
        state.pending += pending_cost(total);
        if state.cursor == NIL {
            state.cursor = number;
        }
        let id = self.op_id(number);
        memory.attach_send(id, buffer);
        self.schedule_posted(active, request.more);
        if self.wheel.deadline(active).is_none() {
            // A post brings no deadline that is nearer than those there are: transmission will.
            self.arm(active, now);
        }
        Ok(id)
    }

    /// Send at once when nothing is in flight or a full packet waits; otherwise gather.
    fn schedule_posted(&mut self, active: u32, more: bool) {
        if !self.may_send_new(active) {
            return;
        }
        let state = &self.actives[active];
        let at_once = (state.in_flight() == 0 && !more) || self.has_full_packet(active);
        self.enqueue(active, if at_once { Schedule::Ready } else { Schedule::Gathering });
    }

    /// Whether a record that was never sent may be sent now.
    pub(super) fn may_send_new(&self, active: u32) -> bool {
        let state = &self.actives[active];
        let peer = &self.peers[state.peer];
        state.cursor != NIL
            && peer.is_established()
            && state.hold_until.is_none()
            && state.next_psn.since(state.first_psn) <= u32::from(peer.window_less_one)
            && self.in_flight.has_room(&state.directory, state.first_psn, state.next_psn)
    }

    /// Whether what waits fills a packet.
    pub(super) fn has_full_packet(&self, active: u32) -> bool {
        let state = &self.actives[active];
        state.pending as usize >= self.peers[state.peer].payload_max() - TAG_RESERVE
    }

    pub(super) fn op_id(&self, number: u32) -> OpId {
        OpId::new(number, self.sends.generation(number))
    }

    pub(super) fn recv_id(&self, number: u32) -> RecvId {
        RecvId::new(number, self.recvs.generation(number))
    }

    /// Posts a receive. It takes the oldest stored message that fits, or waits for one.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then, and `buffer` is dropped.
    pub fn post_recv<M: Memory>(
        &mut self,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let op = RecvOp { request, peer: PeerId::NONE, ..RecvOp::default() };
        let number = self.recvs.alloc(op).ok_or(PostError::Again)?;
        let id = self.recv_id(number);
        memory.attach_recv(id, buffer);
        match self.match_stored(&request) {
            Some(message) => self.bind_stored(message, number, memory),
            None => self.posted.of(request.tag.is_some()).push_back(&mut self.recvs, number),
        }
        Ok(id)
    }

    /// Cancels the oldest receive with this context that has matched nothing yet; it completes with
    /// [`OpError::Cancelled`]. Returns whether there was one. Sends are not cancelled: their first
    /// packet may be with the peer.
    pub fn cancel(&mut self, context: Context) -> bool {
        for tagged in [false, true] {
            let found = self.find_posted(tagged, |request| request.context == context);
            if let Some(number) = found {
                self.posted.of(tagged).remove(&mut self.recvs, number);
                self.recvs[number].outcome = Err(OpError::Cancelled);
                self.finish_recv(number);
                return true;
            }
        }
        false
    }
}

/// What a send of `total` bytes adds to the bytes that wait.
pub(super) fn pending_cost(total: u32) -> u32 {
    total.min(PENDING_PER_SEND_MAX) + 16
}
