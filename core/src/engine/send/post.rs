// SPDX-License-Identifier: MIT OR Apache-2.0
//! C. Operations of the initiator: messages, writes, reads, atomics.
//!
//! In: requests with checked arguments. Out: an identifier, or [`PostError::Again`] when a pool is
//! empty. No payload is touched here.

use crate::collections::coverage::Covered;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::operation::{Deferred, POSTED, TxKind, TxOp};
use crate::peer::slots::{ConnSlot, OpSlot, PeerSlot};
use crate::peer::{Connection, Schedule, State};
use crate::wire::{
    ATOMIC_LEN_MAX, Envelope, HEADER_LEN, MESSAGE_LEN_MAX, MESSAGES_AHEAD_MAX, TAG_RESERVE,
};
use crate::{
    AtomicForm, AtomicOp, AtomicRequest, Common, Datatype, Instant, Memory, OpError, OpId, OpKind,
    PeerId, PostError, ReadRequest, Remote, SendRequest, UnstartedOp, WriteRequest,
};

/// Waiting bytes that a posted operation counts as, at most.
const PENDING_MAX: u64 = 1 << 16;
/// Full packets that a post waits for, at most.
const COALESCE_PACKETS_MAX: u32 = 16;

/// Whether the waiting records are enough to send at once (Nagle, RFC 896). They must fill packets
/// of `room` bytes: half as many as are under way, up to [`COALESCE_PACKETS_MAX`]. Each burst of
/// packets costs a wake-up of the medium, which coalescing shares. A record waits for at most half
/// of the packets before it.
#[inline]
fn should_flush(state: &Connection, room: usize) -> bool {
    let packets = (state.tx().in_flight() / 2).clamp(1, COALESCE_PACKETS_MAX) as usize;
    state.pending() as usize >= packets * room
}

/// Bytes of records in a full packet of `payload_max` bytes.
#[inline]
pub(crate) const fn packet_room(payload_max: usize) -> usize {
    payload_max.saturating_sub(HEADER_LEN + TAG_RESERVE)
}

/// The waiting bytes that an operation adds: those of its own packets.
#[inline]
pub(crate) fn pending_cost(op: &TxOp) -> u32 {
    match op.kind {
        TxKind::Read { .. } | TxKind::Rendezvous(_) => pending_bytes(0),
        _ => pending_bytes(op.total),
    }
}

/// The waiting bytes of an operation with `len` bytes in packets.
#[inline]
pub(crate) fn pending_bytes(len: u64) -> u32 {
    len.min(PENDING_MAX) as u32 + 16
}

impl Sender<'_> {
    /// See [`Engine::post_send`](crate::Engine::post_send).
    pub(crate) fn post_send<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.post_message(cx, request, Some(cx.config.eager_max), buffer, memory)
    }

    /// See [`Engine::post_matched_send`](crate::Engine::post_matched_send).
    pub(crate) fn post_matched_send<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.post_message(cx, request, None, buffer, memory)
    }

    /// Posts a message, pushed if it has at most `eager_max` bytes, half of that for each eighth of
    /// the peer's storage that is full (`docs/PROTOCOL.md` §6.5).
    #[inline(always)]
    fn post_message<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        request: SendRequest,
        eager_max: Option<u32>,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let SendRequest { common, len, tag, data } = request;
        let conn = self.prepare(cx, &common, len)?;
        let state = &mut cx.table[conn];
        if state.tx().next_msn().since(state.tx().accepted_msn()) >= MESSAGES_AHEAD_MAX - 1 {
            return Err(PostError::Again);
        }
        let envelope = Envelope { msn: state.tx().next_msn(), tag, data, total: len };
        let pushed =
            eager_max.is_some_and(|most| len <= u64::from(most >> state.path().occupancy()));
        let kind = if pushed { TxKind::Message(envelope) } else { TxKind::Rendezvous(envelope) };
        let op = TxOp { rnr_epoch: state.tx().rnr_epoch(), ..TxOp::posted(&common, kind, len) };
        self.file(cx, conn, op, common.more, buffer, memory)
    }

    /// See [`Engine::post_write`](crate::Engine::post_write).
    pub(crate) fn post_write<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        request: WriteRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let WriteRequest { common, len, remote, data } = request;
        remote.address.checked_add(len).ok_or(PostError::TooLong)?;
        let conn = self.prepare(cx, &common, len)?;
        let op = TxOp::posted(&common, TxKind::Write { remote, data }, len);
        self.file(cx, conn, op, common.more, buffer, memory)
    }

    /// See [`Engine::post_read`](crate::Engine::post_read).
    pub(crate) fn post_read<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        request: ReadRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        let ReadRequest { common, len, remote } = request;
        remote.address.checked_add(len).ok_or(PostError::TooLong)?;
        let conn = self.prepare(cx, &common, len)?;
        let op = TxOp::posted(&common, TxKind::Read { remote, covered: Covered::default() }, len);
        self.file(cx, conn, op, common.more, buffer, memory)
    }

    /// See [`Engine::post_atomic`](crate::Engine::post_atomic).
    pub(crate) fn post_atomic<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
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
        let conn = self.prepare(cx, &common, len)?;
        let covered = Covered::default();
        let kind = TxKind::Atomic { remote, form, datatype, op, count, covered };
        self.file(cx, conn, TxOp::posted(&common, kind, len), common.more, buffer, memory)
    }

    /// Checks the needs of every operation: a peer, a free slot, and a connection, which is opened
    /// if there is none.
    #[inline(always)]
    fn prepare(
        &mut self,
        cx: &mut Ctx<'_>,
        common: &Common,
        len: u64,
    ) -> Result<ConnSlot, PostError> {
        if len > MESSAGE_LEN_MAX {
            return Err(PostError::TooLong);
        }
        let (slot, peer) = cx.table.find(common.peer).ok_or(PostError::UnknownPeer)?;
        if !cx.completions.link_slots().may_post(&self.ops, common.peer) {
            return Err(PostError::Again);
        }
        let (conn, state) = (peer.connection(), peer.state());
        if conn.is_some() && state == State::Established {
            return Ok(conn);
        }
        self.connect_to_post(cx, slot)
    }

    /// See [`Engine::connect`](crate::Engine::connect).
    pub(crate) fn connect(&mut self, cx: &mut Ctx<'_>, peer: PeerId) -> Result<(), PostError> {
        let slot = cx.table.peer_slot(peer).ok_or(PostError::UnknownPeer)?;
        let conn = self.connect_to_post(cx, slot)?;
        cx.arm(conn);
        Ok(())
    }

    /// Opens a connection for the first operation to a peer, or takes the one that is being opened.
    #[cold]
    fn connect_to_post(&mut self, cx: &mut Ctx<'_>, peer: PeerSlot) -> Result<ConnSlot, PostError> {
        // bound: operations of ended connections
        while self.end_next_op(cx) {}
        let conn =
            cx.table.allocate_connection(peer, cx.timers.tick(), true).ok_or(PostError::Again)?;
        match cx.table[peer].state() {
            State::Closed => cx.start_handshake(peer, conn),
            State::Accepted => cx.ask_accepted(peer, conn),
            State::HelloSent | State::Established | State::Removed => {}
        }
        Ok(conn)
    }

    /// Puts an operation in the queue of its connection.
    #[inline(always)]
    fn file<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        mut op: TxOp,
        more: bool,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        op.has_ordering_deps = op.fence || op.is_request() || !cx.config.order.is_empty();
        let cost = pending_cost(&op);
        let (message, peer) = (op.envelope().is_some(), op.peer);
        let state = &mut cx.table[conn];
        op.serial = state.sends_mut().next_serial();
        op.links = state.sends().list().links_behind();
        let (slot, generation) = self.ops.alloc_entry(POSTED, op).ok_or(PostError::Again)?;
        let id = slot.id(generation);
        cx.completions.link_slots_mut().send_taken(peer);
        if message {
            state.tx_mut().message_posted();
        }
        if !state.awaits_peer() {
            state.rx_mut().count_silence_from(cx.timers.tick());
        }
        state.sends_mut().append(&mut self.ops, slot);
        state.records_wait(cost);
        if state.path().is_paced() || cx.timers.deadline(conn).is_none() {
            // Otherwise a post makes no deadline earlier.
            cx.arm(conn);
        }
        let state = &cx.table[conn];
        if state.schedule() < Schedule::Ready {
            // Sent at once if nothing is in flight or enough waits; otherwise corked. Whether it
            // may be sent is decided at its turn.
            let at_once = (state.tx().in_flight() == 0 && !more)
                || should_flush(state, packet_room(cx.payload_max(state.peer())));
            if at_once {
                cx.table.enqueue(conn, Schedule::Ready);
            } else if state.schedule() == Schedule::Idle {
                cx.table.enqueue(conn, Schedule::Corked);
            }
        }
        memory.attach_op(id, buffer);
        Ok(id)
    }
}

impl Ctx<'_> {
    /// See [`Engine::time_under_way`](crate::Engine::time_under_way).
    #[inline]
    pub(crate) fn time_under_way(&self, peer: PeerId) -> Option<Instant> {
        let peer = &self.table[self.table.peer_slot(peer)?];
        if peer.connection().is_none() || !peer.is_established() {
            return None;
        }
        let state = &self.table[peer.connection()];
        let timeless = !state.tx().all_acknowledged()
            && !state.path().is_paced()
            && self.timers.deadline(peer.connection()).is_some();
        timeless.then_some(self.timers.now())
    }
}

impl Sender<'_> {
    /// See [`Engine::defer`](crate::Engine::defer).
    pub(crate) fn defer(&mut self, op: OpId, notify: bool) {
        let slot = OpSlot::of(op);
        if self.ops.is_used(slot) && self.op_id(slot) == op {
            self.ops[slot].deferred =
                if notify { Deferred::Notified } else { Deferred::Suppressed };
        }
    }

    /// See [`Engine::fail_unstarted`](crate::Engine::fail_unstarted).
    pub(crate) fn fail_unstarted(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        op: &UnstartedOp,
        error: OpError,
    ) -> Result<(), PostError> {
        let remote = Remote::default();
        let kind = match op.kind {
            OpKind::Recv { tagged } => return matcher.fail_unstarted_recv(cx, op, tagged, error),
            OpKind::Send { tagged } => {
                TxKind::Message(Envelope { tag: tagged.then_some(0), ..Envelope::default() })
            }
            OpKind::Read => TxKind::Read { remote, covered: Covered::default() },
            OpKind::Atomic => TxKind::Atomic {
                remote,
                form: if op.fetches { AtomicForm::Fetch } else { AtomicForm::Base },
                datatype: Datatype::Uint64,
                op: AtomicOp::Sum,
                count: 0,
                covered: Covered::default(),
            },
            OpKind::Write | OpKind::RemoteWrite => TxKind::Write { remote, data: None },
        };
        let (context, peer, outcome) = (op.context, op.peer, Err(error));
        let op = TxOp { context, kind, peer, signal: true, outcome, ..TxOp::default() };
        if !cx.completions.link_slots().may_post(&self.ops, peer) {
            return Err(PostError::Again);
        }
        let slot = self.ops.alloc_in(POSTED, op).ok_or(PostError::Again)?;
        cx.completions.link_slots_mut().send_taken(peer);
        self.finish(cx, slot);
        Ok(())
    }
}
