// SPDX-License-Identifier: MIT OR Apache-2.0
//! C and G: the operations of the application, and their completions.
//!
//! In: requests with checked arguments. Out: identifiers, and completions in the order in which
//! operations end. Each method passes its call to the component that has the state.

use crate::engine::Engine;
use crate::engine::connect::teardown::{end_all, end_connection, end_some, notify_close};
use crate::peer::Standing;
use crate::peer::slots::PeerSlot;
use crate::{
    AtomicRequest, Completion, CompletionGroup, Context, DeferredId, Instant, LinkState, Memory,
    OpError, OpId, Peek, PeerAddress, PeerId, PeersFull, PostError, ReadRequest, RecvId,
    RecvRequest, SendRequest, Unknown, UnstartedOp, WriteRequest,
};

// C. Operations of the initiator.
impl Engine<'_> {
    /// Posts a message. The next [burst](Self::burst) sends it at once if nothing is under way to
    /// the peer, or if enough records wait. Enough is a full packet, or behind many packets half as
    /// many. Otherwise it is coalesced with later messages until the next progress call.
    ///
    /// # Errors
    /// [`PostError`]; nothing has changed then, and `buffer` is dropped.
    #[inline]
    pub fn post_send<M: Memory>(
        &mut self,
        now: Instant,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.advance_clock(now);
        self.sender.post_send(&mut self.cx, request, buffer, memory)
    }

    /// Posts a message with a send that is complete when the peer's application has matched or
    /// dropped it (`FI_MATCH_COMPLETE`). A message of any length is announced, and read by the
    /// receiver when it is matched.
    ///
    /// # Errors
    /// [`PostError`], with the effects of [`Self::post_send`].
    #[inline]
    pub fn post_matched_send<M: Memory>(
        &mut self,
        now: Instant,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.advance_clock(now);
        self.sender.post_matched_send(&mut self.cx, request, buffer, memory)
    }

    /// Posts a datagram of at most the port's `payload_max` bytes, on an engine that
    /// [carries datagrams](Self::carries_datagrams). The next [burst](Self::burst) sends it.
    ///
    /// # Errors
    /// [`PostError`], with the effects of [`Self::post_send`]; a datagram has no tag and no remote
    /// CQ data.
    #[inline]
    pub fn post_datagram<M: Memory>(
        &mut self,
        request: SendRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.sender.post_datagram(&mut self.cx, request, buffer, memory)
    }

    /// Posts a write to a peer's memory. It is complete when all bytes are in place there.
    ///
    /// # Errors
    /// [`PostError`], with the effects of [`Self::post_send`].
    #[inline]
    pub fn post_write<M: Memory>(
        &mut self,
        now: Instant,
        request: WriteRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.advance_clock(now);
        self.sender.post_write(&mut self.cx, request, buffer, memory)
    }

    /// Posts a read of a peer's memory.
    ///
    /// # Errors
    /// [`PostError`], with the effects of [`Self::post_send`].
    #[inline]
    pub fn post_read<M: Memory>(
        &mut self,
        now: Instant,
        request: ReadRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.advance_clock(now);
        self.sender.post_read(&mut self.cx, request, buffer, memory)
    }

    /// Posts an atomic operation on a peer's memory.
    ///
    /// # Errors
    /// [`PostError`], with the effects of [`Self::post_send`]; [`PostError::Unsupported`] for a
    /// combination of form, datatype and op that means nothing.
    #[inline]
    pub fn post_atomic<M: Memory>(
        &mut self,
        now: Instant,
        request: AtomicRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<OpId, PostError> {
        self.advance_clock(now);
        self.sender.post_atomic(&mut self.cx, request, buffer, memory)
    }

    /// The time of the last call, if a post to `peer` may use it in place of the present time.
    /// While packets to the peer are under way, and may be sent at any time, a post changes no
    /// timer. The records that it makes ready are sent by
    /// [`Burst::transmit`](crate::Burst::transmit), which must know the time.
    #[must_use]
    #[inline]
    pub fn time_under_way(&self, peer: PeerId) -> Option<Instant> {
        self.cx.time_under_way(peer)
    }

    /// How many more operations can be posted.
    #[must_use]
    #[inline]
    pub fn free_operations(&self) -> u32 {
        self.sender.free_operations()
    }

    /// How many more operations can be posted with the peer of a connected endpoint
    /// ([`Config::links`](crate::Config::links)).
    #[must_use]
    pub fn operations_left(&self, peer: PeerId) -> u32 {
        self.sender.operations_left(&self.cx.completions, peer)
    }
}

// C. Receives.
impl Engine<'_> {
    /// Posts a receive. It takes the oldest stored message that fits, or waits for one.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then, and `buffer` is dropped.
    #[inline]
    pub fn post_recv<M: Memory>(
        &mut self,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        self.matcher.post_recv(&mut self.cx, &mut self.sender, request, buffer, memory)
    }

    /// Posts a multi-receive buffer, which takes messages until fewer than `least` bytes (at least
    /// one) are left. A message longer than the rest is truncated.
    ///
    /// Each message completes with the buffer's context. The last completion
    /// [ends the buffer](crate::Completion::ends_buffer); it is made even where success makes no
    /// completion. A cancelled buffer completes with an error.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then, and `buffer` is dropped.
    #[inline]
    pub fn post_multi_recv<M: Memory>(
        &mut self,
        request: RecvRequest,
        least: u64,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        self.matcher.post_multi_recv(&mut self.cx, &mut self.sender, request, least, buffer, memory)
    }

    /// Matches the messages that were stored for want of slices, if slices are free now. Accepts
    /// some of the messages out of order that are the next ones. Ends some of what is left of ended
    /// connections. Bound: the messages and receives.
    #[inline]
    pub fn resume_matching<M: Memory>(&mut self, memory: &mut M) {
        let Self { cx, sender, matcher, .. } = self;
        matcher.resume_matching(cx, sender, memory);
        if !cx.ending.is_empty() {
            end_some(cx, sender, matcher);
        }
    }

    /// Whether a receive waits for a search that goes on in the next progress calls.
    #[must_use]
    #[inline]
    pub fn has_searches(&self) -> bool {
        self.matcher.has_searches()
    }

    /// Finds the oldest stored message that fits, for a peek. Make progress first, so that packets
    /// that arrived are processed. Completes with the message's length, tag, data and source, or
    /// with [`OpError::NoMessage`].
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then.
    #[inline]
    pub fn peek<M: Memory>(
        &mut self,
        request: RecvRequest,
        probe: Peek,
        memory: &mut M,
    ) -> Result<(), PostError> {
        self.matcher.peek(&mut self.cx, &mut self.sender, (request, probe), memory)
    }

    /// Posts a receive for the message that was claimed with this context; source and tag of the
    /// request are no condition.
    ///
    /// # Errors
    /// [`PostError::NotClaimed`], [`PostError::Again`]; nothing has changed then, and `buffer` is
    /// dropped.
    #[inline]
    pub fn post_claimed<M: Memory>(
        &mut self,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        self.matcher.post_claimed(&mut self.cx, &mut self.sender, request, buffer, memory)
    }

    /// Drops the message that was claimed with the context of `request`. Completes as a receive.
    ///
    /// # Errors
    /// [`PostError`], with the effects of [`Self::post_claimed`].
    #[inline]
    pub fn discard_claimed(&mut self, request: RecvRequest) -> Result<(), PostError> {
        self.matcher.discard_claimed(&mut self.cx, &mut self.sender, request)
    }

    /// Posts a receive of a shared queue, which fits a stored message
    /// ([`stored_len`](Self::stored_len) says so). Its completion names it
    /// ([`Completion::slice`](crate::Completion::slice)).
    ///
    /// # Errors
    /// [`PostError::Again`], also if no stored message fits; nothing has changed then, and `buffer`
    /// is dropped.
    #[inline]
    pub fn post_shared<M: Memory>(
        &mut self,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        self.matcher.post_shared(&mut self.cx, &mut self.sender, request, buffer, memory)
    }

    /// The length of the stored message that a receive would match, if there is one.
    #[inline]
    pub fn stored_len(&mut self, request: &RecvRequest) -> Option<u64> {
        self.matcher.stored_len(&self.cx, request)
    }

    /// Completes a receive that was cancelled before an engine had it; `many`: it was a
    /// multi-receive buffer.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then.
    #[inline]
    pub fn post_cancelled(&mut self, request: RecvRequest, multi: bool) -> Result<(), PostError> {
        self.matcher.post_cancelled(&mut self.cx, request, multi)
    }

    /// Whether any message is stored that a receive could match.
    #[must_use]
    #[inline]
    pub fn has_stored(&self) -> bool {
        self.matcher.has_stored()
    }

    /// How many more receives can be posted.
    #[must_use]
    #[inline]
    pub fn free_receives(&self) -> u32 {
        self.matcher.free_receives()
    }

    /// How many more receives can be posted that name the peer of a connected endpoint
    /// ([`Config::links`](crate::Config::links)).
    #[must_use]
    pub fn receives_left(&self, peer: PeerId) -> u32 {
        self.matcher.receives_left(&self.cx.completions, peer)
    }

    /// Cancels the oldest receive with this context that has matched nothing yet; it completes with
    /// [`OpError::Cancelled`]. Returns whether there was one. A
    /// multi-receive buffer ends with the last message that it has matched. Sends are not
    /// cancelled: their first packet may be with the peer.
    #[inline]
    pub fn cancel(&mut self, context: Context) -> bool {
        self.matcher.cancel(&mut self.cx, |request| request.context == context)
    }

    /// An operation of the initiator with this context that has not ended, with `peer` if one is
    /// named. Bound: the operation slots.
    #[must_use]
    #[cold]
    pub fn operation_of(&self, context: Context, peer: Option<PeerId>) -> Option<OpId> {
        self.sender.operation_of(context, peer)
    }

    /// Whether an operation of the initiator has not ended, or was not polled.
    #[must_use]
    #[cold]
    pub fn has_operation(&self, id: OpId) -> bool {
        self.sender.has_operation(id)
    }

    /// Cancels every receive that has matched nothing yet, as [`Self::cancel`] does. Bound: the
    /// posted receives.
    pub fn cancel_all(&mut self) {
        self.matcher.cancel_all(&mut self.cx, |_| true);
    }
}

// Connected endpoints: each has a peer of its own.
impl Engine<'_> {
    /// Adds the peer of a connected endpoint, whose address is not known yet
    /// ([`Self::open_connection`]). One address may have many such peers.
    ///
    /// # Errors
    /// [`PeersFull`].
    pub fn insert_connected(&mut self) -> Result<PeerId, PeersFull> {
        let slot = self.cx.add_peer(PeerAddress::NONE)?;
        self.cx.table.set_standing(slot, Standing::Named);
        let peer = self.cx.table.peer_id(slot);
        self.cx.completions.link_slots_mut().add(peer);
        Ok(peer)
    }

    /// Ends the connection of a peer of [`Self::insert_connected`], and notifies the other side, as
    /// [`Self::remove_peer`] does. The identifier names no other peer before it is removed.
    ///
    /// # Errors
    /// [`Unknown`] when there is no such peer.
    pub fn end_connected(&mut self, peer: PeerId) -> Result<(), Unknown> {
        let slot = self.end_peer(peer)?;
        self.cx.table.unname_peer(slot);
        Ok(())
    }

    /// Ends the connection of a peer, and all that depends on it.
    pub(super) fn end_peer(&mut self, peer: PeerId) -> Result<PeerSlot, Unknown> {
        let Self { cx, sender, matcher, .. } = self;
        let slot = cx.table.peer_slot(peer).ok_or(Unknown)?;
        notify_close(cx, slot);
        end_connection(cx, sender, matcher, slot, OpError::Closed);
        end_all(cx, sender, matcher);
        Ok(slot)
    }

    /// Opens the connection to a peer before the first operation needs it (`fi_connect(3)`). An
    /// attempt without answer ends after the peer time-out, as a connection that fails.
    ///
    /// # Errors
    /// [`PostError::UnknownPeer`]; [`PostError::Again`] if the pool of connections is empty.
    pub fn connect(&mut self, now: Instant, peer: PeerId) -> Result<(), PostError> {
        self.advance_clock(now);
        self.sender.connect(&mut self.cx, peer)
    }

    /// Names the other side of a peer of [`Self::insert_connected`]: its address, and `remote`, its
    /// engine's identifier of this side. With `ours` opens the connection, as [`Self::connect`]
    /// does; without it waits for the other side to open it.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn open_connection(
        &mut self,
        now: Instant,
        peer: PeerId,
        (address, remote): (PeerAddress, PeerId),
        ours: bool,
    ) -> Result<(), PostError> {
        let slot = self.cx.table.peer_slot(peer).ok_or(PostError::UnknownPeer)?;
        self.cx.table.name_peer(slot, address, remote);
        if ours { self.connect(now, peer) } else { Ok(()) }
    }

    /// A connection that has opened or ended, once for each change, in order. [`PeerId::NONE`]:
    /// there were more changes than are kept, so that every connection may have changed; the caller
    /// asks for their [states](Self::link). Engines with
    /// [`Config::named_peers_only`](crate::Config::named_peers_only) note changes.
    pub fn poll_link(&mut self) -> Option<(PeerId, LinkState)> {
        self.cx.table.poll_link()
    }

    /// Frees all that is left of a removed peer: its stored messages, the finished operations with
    /// it, the finished receives that name it. `each` gets the slices of shared buffers among them.
    /// Ended deferred operations of it are still polled, and not signalled. Bound: the operations,
    /// the stored messages.
    pub fn discard_completions(&mut self, peer: PeerId, each: impl FnMut(RecvId)) {
        self.matcher.end_all_stored(&mut self.cx);
        self.sender.discard(&mut self.cx.completions, peer);
        self.matcher.discard_finished(&mut self.cx.completions, peer, each);
    }

    /// The state of the connection of a connected endpoint.
    #[must_use]
    pub fn link(&self, peer: PeerId) -> LinkState {
        let table = &self.cx.table;
        table.peer_slot(peer).map_or(LinkState::Ended, |slot| table.link(slot))
    }

    /// [Cancels](Self::cancel) the oldest receive with this context that names `source`.
    pub fn cancel_on(&mut self, source: PeerId, context: Context) -> bool {
        self.matcher.cancel(&mut self.cx, |request| {
            request.context == context && request.from == Some(source)
        })
    }

    /// Cancels the receives that name `source`, as [`Self::cancel_all`] does.
    pub fn cancel_from(&mut self, source: PeerId) {
        self.matcher.cancel_all(&mut self.cx, |from| from == Some(source));
    }
}

// G. Completions.
impl Engine<'_> {
    /// The next operation of an initiator that has ended, in the order in which they ended.
    #[inline]
    pub fn poll_send_completion(&mut self) -> Option<Completion> {
        self.sender.poll(&mut self.cx.completions)
    }

    /// The next finished receive or remote write, in the order in which they ended.
    #[inline]
    pub fn poll_recv_completion(&mut self) -> Option<Completion> {
        self.matcher.poll(&mut self.cx.completions)
    }

    /// Whether [`Self::poll_send_completion`] has a completion to give.
    #[must_use]
    #[inline]
    pub fn has_send_completion(&self) -> bool {
        self.cx.completions.has_send()
    }

    /// Whether [`Self::poll_recv_completion`] has a completion to give.
    #[must_use]
    #[inline]
    pub fn has_recv_completion(&self) -> bool {
        self.cx.completions.has_recv()
    }

    /// Moves the finished operations to the groups that `group_of` names for their peers. An
    /// operation without a peer has [`PeerId::NONE`]. From then on the completions of each group
    /// are polled apart, in the order in which they ended. Called before each such poll.
    ///
    /// Bound: operations that have finished since the last call.
    pub fn sort_completions(&mut self, mut group_of: impl FnMut(PeerId) -> CompletionGroup) {
        self.sender.sort_finished(&mut self.cx.completions, &mut group_of);
        self.matcher.sort_finished(&mut self.cx.completions, &mut group_of);
    }

    /// As [`Self::poll_send_completion`], of the sorted completions of a group.
    pub fn poll_send_completion_of(&mut self, group: CompletionGroup) -> Option<Completion> {
        self.sender.poll_of(&mut self.cx.completions, group)
    }

    /// As [`Self::poll_recv_completion`], of the sorted completions of a group.
    pub fn poll_recv_completion_of(&mut self, group: CompletionGroup) -> Option<Completion> {
        self.matcher.poll_of(&mut self.cx.completions, group)
    }

    /// Whether [`Self::poll_send_completion_of`] has a completion to give.
    #[must_use]
    pub fn has_send_completion_of(&self, group: CompletionGroup) -> bool {
        self.cx.completions.has_send_of(group)
    }

    /// Whether [`Self::poll_recv_completion_of`] has a completion to give.
    #[must_use]
    pub fn has_recv_completion_of(&self, group: CompletionGroup) -> bool {
        self.cx.completions.has_recv_of(group)
    }

    /// Reports the end of an operation, which was just posted without a signal, by
    /// [`Self::poll_deferred`]; if `notify`, it is also signalled and counted.
    #[inline]
    pub fn defer(&mut self, op: OpId, notify: bool) {
        self.sender.defer(op, notify);
    }

    /// Posts a deferred receive: [`Self::post_recv`] and [`Self::defer`] in one call, because a
    /// receive may end as it is posted.
    ///
    /// # Errors
    /// [`PostError`], with the effects of [`Self::post_recv`].
    #[inline]
    pub fn post_deferred_recv<M: Memory>(
        &mut self,
        request: RecvRequest,
        notify: bool,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        self.matcher.post_deferred_recv(
            &mut self.cx,
            &mut self.sender,
            request,
            notify,
            buffer,
            memory,
        )
    }

    /// Completes an operation that was never posted with `error`, and counts it like a posted one.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then.
    #[inline]
    pub fn fail_unstarted(&mut self, op: &UnstartedOp, error: OpError) -> Result<(), PostError> {
        self.sender.fail_unstarted(&mut self.cx, &mut self.matcher, op, error)
    }

    /// The next deferred operation that has ended, and whether well.
    #[inline]
    pub fn poll_deferred(&mut self) -> Option<(DeferredId, bool)> {
        let completions = &mut self.cx.completions;
        self.sender.poll_deferred(completions).or_else(|| self.matcher.poll_deferred(completions))
    }
}
