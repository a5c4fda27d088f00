// SPDX-License-Identifier: MIT OR Apache-2.0
//! C. What the application asks for: messages, writes, reads, atomics, receives.
//!
//! In: requests with checked arguments. Out: an identifier, or [`PostError::Again`] when a pool is
//! empty. No payload is touched here, but for a receive that matches a stored message.

use super::Engine;
use crate::operation::{POSTED, RECVS, RecvOp, TxKind, TxOp};
use crate::peer::{Active, Schedule, State};
use crate::slab::NIL;
use crate::wire::{
    ATOMIC_LEN_MAX, Envelope, HEADER_LEN, MESSAGE_LEN_MAX, MESSAGES_AHEAD_MAX, TAG_RESERVE,
};
use crate::{
    AtomicRequest, Common, Context, Instant, Memory, OpId, PeerId, PostError, ReadRequest, RecvId,
    RecvRequest, SendRequest, WriteRequest,
};

/// A posted operation counts as at most this many waiting bytes.
const PENDING_MAX: u64 = 1 << 16;
/// Most full packets that a post waits for.
const COMPANY_PACKETS: u32 = 16;

impl Engine<'_> {
    /// Posts a message. It goes out with the next [`transmit`](Self::transmit): at once where
    /// nothing is under way to the peer or enough is waiting (a full packet; behind many packets,
    /// half as many), else with the next progress call, in company.
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
        let pushed = request.len <= u64::from(self.config.eager_max);
        self.post_message(now, request, pushed, buffer, memory)
    }

    /// Posts a message whose send is complete when the peer's application has matched or dropped it
    /// (`FI_MATCH_COMPLETE`): of any length, it is announced and pulled, which a receiver does when
    /// it knows where to.
    ///
    /// # Errors
    /// As [`Self::post_send`].
    pub fn post_matched_send<M: Memory>(
        &mut self,
        now: Instant,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.post_message(now, request, false, buffer, memory)
    }

    #[inline(always)]
    fn post_message<M: Memory>(
        &mut self,
        now: Instant,
        request: SendRequest,
        pushed: bool,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let SendRequest { common, len, tag, data } = request;
        let active = self.prepare(now, &common, len)?;
        let state = &mut self.actives[active];
        if state.next_msn.since(state.accepted_msn) >= MESSAGES_AHEAD_MAX - 1 {
            return Err(PostError::Again);
        }
        let envelope = Envelope { msn: state.next_msn, tag, data, total: len };
        let kind = if pushed { TxKind::Message(envelope) } else { TxKind::Rendezvous(envelope) };
        let op = TxOp { rnr_epoch: state.tx_rnr_epoch, ..TxOp::posted(&common, kind, len) };
        let id = self.file(active, op, common.more, buffer, memory)?;
        let state = &mut self.actives[active];
        state.next_msn = state.next_msn.plus(1);
        Ok(id)
    }

    /// Posts a write to a peer's memory. It is complete when all bytes are in place there.
    ///
    /// # Errors
    /// As [`Self::post_send`].
    pub fn post_write<M: Memory>(
        &mut self,
        now: Instant,
        request: WriteRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let WriteRequest { common, len, remote, data } = request;
        remote.address.checked_add(len).ok_or(PostError::TooLong)?;
        let active = self.prepare(now, &common, len)?;
        let op = TxOp::posted(&common, TxKind::Write { remote, data }, len);
        self.file(active, op, common.more, buffer, memory)
    }

    /// Posts a read of a peer's memory.
    ///
    /// # Errors
    /// As [`Self::post_send`].
    pub fn post_read<M: Memory>(
        &mut self,
        now: Instant,
        request: ReadRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let ReadRequest { common, len, remote } = request;
        remote.address.checked_add(len).ok_or(PostError::TooLong)?;
        let active = self.prepare(now, &common, len)?;
        let op = TxOp::posted(&common, TxKind::Read { remote }, len);
        self.file(active, op, common.more, buffer, memory)
    }

    /// Posts an atomic operation on a peer's memory.
    ///
    /// # Errors
    /// As [`Self::post_send`]; [`PostError::Unsupported`] for a combination of form, datatype and
    /// op that means nothing.
    pub fn post_atomic<M: Memory>(
        &mut self,
        now: Instant,
        request: AtomicRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let AtomicRequest { common, remote, form, datatype, op, count } = request;
        if !op.is_valid(form, datatype) || count == 0 {
            return Err(PostError::Unsupported);
        }
        let len = u64::from(count) * datatype.size() as u64;
        if len > ATOMIC_LEN_MAX as u64 {
            return Err(PostError::TooLong);
        }
        let active = self.prepare(now, &common, len)?;
        let kind = TxKind::Atomic { remote, form, datatype, op, count };
        self.file(active, TxOp::posted(&common, kind, len), common.more, buffer, memory)
    }

    /// What every operation needs: a peer, a slot, active state, a connection or the beginning of
    /// one. Nothing has changed that matters if it fails.
    #[inline(always)]
    fn prepare(&mut self, now: Instant, common: &Common, len: u64) -> Result<u32, PostError> {
        let now = self.time(now);
        if len > MESSAGE_LEN_MAX {
            return Err(PostError::TooLong);
        }
        let peer = self.peer_number(common.peer).ok_or(PostError::UnknownPeer)?;
        if self.ops.free_in(POSTED) == 0 {
            return Err(PostError::Again);
        }
        let active = self.activate(peer, now, true).ok_or(PostError::Again)?;
        if self.peers[peer].state == State::Closed {
            self.open(peer, active);
        }
        Ok(active)
    }

    /// Files an operation with its peer.
    #[inline(always)]
    fn file<M: Memory>(
        &mut self,
        active: u32,
        mut op: TxOp,
        more: bool,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        op.gated = op.fence || op.is_request() || !self.config.order.is_empty();
        let cost = pending_cost(&op);
        let number = self.ops.alloc_in(POSTED, op).ok_or(PostError::Again)?;
        self.queue_op(active, number);
        let state = &mut self.actives[active];
        state.pending += cost;
        let paced = state.congestion.is_pace();
        let id = self.op_id(number);
        memory.attach_op(id, buffer);
        self.schedule_posted(active, more);
        if paced || self.wheel.deadline(active).is_none() {
            // Else a post brings no deadline that is nearer than those there are: transmission
            // will.
            self.arm(active, self.now);
        }
        Ok(id)
    }

    /// Send at once when nothing is in flight or enough waits; otherwise gather.
    #[inline(always)]
    fn schedule_posted(&mut self, active: u32, more: bool) {
        let state = &self.actives[active];
        let at_once = (state.in_flight() == 0 && !more) || self.has_company(state);
        let schedule = if at_once { Schedule::Ready } else { Schedule::Gathering };
        // Whether it may send is seen when it is its turn.
        self.enqueue(active, schedule);
    }

    /// Whether what waits fills a packet.
    #[inline]
    pub(super) fn has_full_packet(&self, state: &Active) -> bool {
        state.pending as usize >= self.packet_room(state)
    }

    /// Whether what waits fills a packet, and half as many as are under way, up to
    /// [`COMPANY_PACKETS`]: each time that packets leave costs a wake-up of the medium, which a
    /// stream of packets shares so; and nothing waits for more than half of what it waits behind.
    #[inline]
    fn has_company(&self, state: &Active) -> bool {
        let packets = (state.in_flight() / 2).clamp(1, COMPANY_PACKETS) as usize;
        state.pending as usize >= packets * self.packet_room(state)
    }

    /// Bytes of records in a full packet.
    #[inline]
    fn packet_room(&self, state: &Active) -> usize {
        self.payload_max(state.peer).saturating_sub(HEADER_LEN + TAG_RESERVE)
    }

    /// The time of the last call, where a post to `peer` may bring that instead of the present one:
    /// while packets to it are under way, and may be sent at any time, a post changes nothing that
    /// has to do with time. What it makes ready to be sent is sent by [`Self::transmit`], which
    /// must know the time.
    #[must_use]
    #[inline]
    pub fn time_under_way(&self, peer: PeerId) -> Option<Instant> {
        let peer = &self.peers[self.peer_number(peer)?];
        if peer.active == NIL || !peer.is_established() {
            return None;
        }
        let state = &self.actives[peer.active];
        let timeless = !state.all_acknowledged()
            && !state.congestion.is_pace()
            && self.wheel.deadline(peer.active).is_some();
        timeless.then_some(self.now)
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
        self.file_recv(RecvOp { request, peer: PeerId::NONE, ..RecvOp::default() }, buffer, memory)
    }

    #[inline(always)]
    pub(super) fn file_recv<M: Memory>(
        &mut self,
        op: RecvOp,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let request = op.request;
        let number = self.recvs.alloc_in(RECVS, op).ok_or(PostError::Again)?;
        let id = self.recv_id(number);
        memory.attach_recv(id, buffer);
        match self.find_stored(&request) {
            Some(message) => {
                self.unqueue_stored(message);
                self.bind_stored(message, number, memory);
                self.schedule_pulls();
            }
            None => self.posted.of(request.tag.is_some()).push_back(&mut self.recvs, number),
        }
        Ok(id)
    }

    /// Cancels the oldest receive with this context that has matched nothing yet; it completes with
    /// [`OpError::Cancelled`](crate::OpError::Cancelled). Returns whether there was one. A buffer
    /// for many messages ends with the last message that it has matched. Sends are not cancelled:
    /// their first packet may be with the peer.
    pub fn cancel(&mut self, context: Context) -> bool {
        for tagged in [false, true] {
            let found = self.find_posted(tagged, |request| request.context == context);
            if let Some(number) = found {
                self.posted.of(tagged).remove(&mut self.recvs, number);
                self.cancel_posted(number);
                return true;
            }
        }
        false
    }
}

/// What an operation adds to the bytes that wait: those that it puts into packets of its own.
#[inline]
pub(super) fn pending_cost(op: &TxOp) -> u32 {
    let bytes = match op.kind {
        TxKind::Read { .. } | TxKind::Rendezvous(_) => 0,
        _ => op.total.min(PENDING_MAX),
    };
    bytes as u32 + 16
}
