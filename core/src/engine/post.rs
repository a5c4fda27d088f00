// SPDX-License-Identifier: MIT OR Apache-2.0
//! C. What the application asks for: messages, writes, reads, atomics, receives.
//!
//! In: requests with checked arguments. Out: an identifier, or [`PostError::Again`] when a pool is
//! empty. No payload is touched here, but for a receive that matches a stored message.

use super::Engine;
use crate::operation::{POSTED, RECVS, RecvOp, TxKind, TxOp};
use crate::peer::{Active, Peer, Schedule, State};
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
        self.post_message(now, request, Some(self.config.eager_max), buffer, memory)
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
        self.post_message(now, request, None, buffer, memory)
    }

    /// Pushed are messages of at most `eager_max` bytes, half of that for each eighth of the peer's
    /// storage that is full (`docs/PROTOCOL.md` §6.5).
    #[inline(always)]
    fn post_message<M: Memory>(
        &mut self,
        now: Instant,
        request: SendRequest,
        eager_max: Option<u32>,
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
        let pushed = eager_max.is_some_and(|most| len <= u64::from(most >> state.pressure));
        let kind = if pushed { TxKind::Message(envelope) } else { TxKind::Rendezvous(envelope) };
        let op = TxOp { rnr_epoch: state.tx_rnr_epoch, ..TxOp::posted(&common, kind, len) };
        self.file(active, op, common.more, buffer, memory)
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
        let number = self.peer_number(common.peer).ok_or(PostError::UnknownPeer)?;
        if !self.ops.has_free(POSTED) {
            return Err(PostError::Again);
        }
        let Peer { active, state, .. } = self.peers[number];
        if active != NIL && state == State::Established {
            return Ok(active);
        }
        self.begin_connection(number, now)
    }

    /// The first operation for a peer, after a while or ever, or one before there is a connection.
    #[cold]
    fn begin_connection(&mut self, peer: u32, now: Instant) -> Result<u32, PostError> {
        let active = self.activate(peer, now, true).ok_or(PostError::Again)?;
        match self.peers[peer].state {
            State::Closed => self.open(peer, active),
            State::Accepted => self.ask_accepted(peer, active),
            State::HelloSent | State::Established | State::Removed => {}
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
        let message = op.envelope().is_some();
        let (number, generation) = self.ops.alloc_entry(POSTED, op).ok_or(PostError::Again)?;
        let id = OpId::new(number, generation);
        let state = &mut self.actives[active];
        if message {
            state.next_msn = state.next_msn.plus(1);
        }
        if !state.awaits_peer() {
            state.silent_since = self.tick;
        }
        state.sends.push(&mut self.ops, number);
        state.pending += cost;
        let untimed = state.congestion.is_pace() || self.wheel.deadline(active).is_none();
        if state.schedule != Schedule::Ready {
            // Send at once when nothing is in flight or enough waits; otherwise gather. Whether it
            // may send is seen when it is its turn.
            let room = packet_room(self.peers[state.peer].payload_max(self.limits.payload_max));
            let at_once = (state.in_flight() == 0 && !more) || has_company(state, room);
            let schedule = if at_once { Schedule::Ready } else { Schedule::Gathering };
            if schedule != state.schedule {
                self.enqueue(active, schedule);
            }
        }
        if untimed {
            // Else a post brings no deadline that is nearer than those there are: transmission
            // will.
            self.arm(active, self.now);
        }
        memory.attach_op(id, buffer);
        Ok(id)
    }

    /// Whether what waits fills a packet.
    #[inline]
    pub(super) fn has_full_packet(&self, state: &Active) -> bool {
        state.pending as usize >= packet_room(self.payload_max(state.peer))
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
        let (number, generation) = self.recvs.alloc_entry(RECVS, op).ok_or(PostError::Again)?;
        let id = RecvId::new(number, generation);
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

/// Whether what waits fills a packet, which has so much `room`, and half as many as are under way,
/// up to [`COMPANY_PACKETS`]: each time that packets leave costs a wake-up of the medium, which a
/// stream of packets shares so; and nothing waits for more than half of what it waits behind.
#[inline]
fn has_company(state: &Active, room: usize) -> bool {
    let packets = (state.in_flight() / 2).clamp(1, COMPANY_PACKETS) as usize;
    state.pending as usize >= packets * room
}

/// Bytes of records in a full packet of `payload_max` bytes.
#[inline]
pub(super) const fn packet_room(payload_max: usize) -> usize {
    payload_max.saturating_sub(HEADER_LEN + TAG_RESERVE)
}

/// What an operation adds to the bytes that wait: those that it puts into packets of its own.
#[inline]
pub(super) fn pending_cost(op: &TxOp) -> u32 {
    match op.kind {
        TxKind::Read { .. } | TxKind::Rendezvous(_) => pending_bytes(0),
        _ => pending_bytes(op.total),
    }
}

/// The same, of one that puts `len` bytes into packets.
#[inline]
pub(super) fn pending_bytes(len: u64) -> u32 {
    len.min(PENDING_MAX) as u32 + 16
}
