// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posting on a runtime: operations with a peer, receives of every mode, and their cancel.
//!
//! In: requests with resolved flags. Out: operations in the engine, and packets that need not wait
//! for others. Each call takes the lock once and reads the clock at most once; a peek makes
//! progress first. Bound: the engine's pools.

use ofi_xdp_core::{
    AtomicRequest, Budget, Common, Context, DeferredId, Engine, OpError, PeerAddress, PeerId,
    ReadRequest, RecvRequest, SendRequest, UnstartedOp, WriteRequest,
};

use super::peers::PeerMap;
use super::request::{
    Atomic, ClaimAction, OpOptions, Recv, RecvMode, RecvOptions, Request, RequestKind, SendForm,
};
use super::{Runtime, State, Wakers};
use crate::sys::abi::{ADDR_NONE, fi_addr_t};
use crate::sys::clock::now;
use crate::sys::errno::Error;

/// Whether the datagram that was posted last waits for others, so that the kernel takes a batch in
/// one call. The next post or poll sends it: after `FI_MORE` another post follows at once, and an
/// application that has not read the completion of an earlier datagram polls for it. Not so while a
/// thread sleeps, which may be the one that polls. One that sleeps later polls before.
#[inline]
fn datagram_waits(engine: &Engine<'_>, wakers: &Wakers, more: bool) -> bool {
    let polls = || !wakers.application_sleeps() && !wakers.application_announced();
    (more || (engine.has_send_completion() && polls()))
        && engine.datagrams_waiting() < u32::from(Budget::POST.tx_packets)
}

impl Runtime {
    /// Posts an operation with a peer, and sends it if it need not wait for others. The name of a
    /// deferred operation.
    ///
    /// # Errors
    /// [`Error::Again`] when all operation slots are in use; [`Error::Invalid`] for an unknown
    /// peer; [`Error::TooLong`] for an atomic operation on too many elements.
    #[inline]
    pub(crate) fn post(
        &self,
        request: &Request,
        options: &OpOptions,
    ) -> Result<Option<DeferredId>, Error> {
        let OpOptions { inject, signal, more, fence, deferred, form, connected } = *options;
        let buffer = if inject { request.buffer.injected()? } else { request.buffer };
        let len = buffer.len() as u64;
        let mut state = self.lock();
        let State { engine, memory, peers, wakers, .. } = &mut *state;
        let (deferred, time) = engine.with_mut(|engine| {
            let peer = match connected {
                Some(peer) => connected_peer(engine, peer)?,
                None => {
                    peers.sync(engine, &self.av);
                    peers.peer(engine, &self.av, request.peer)?
                }
            };
            // In a series of posts most follow packets that are in flight. To read the clock for
            // each would cost as much as the post.
            let (time, fresh) = match engine.time_under_way(peer) {
                Some(time) => (time, false),
                None => (now(), true),
            };
            let signal_now = signal && !deferred;
            let common = Common { peer, context: request.context, signal: signal_now, more, fence };
            let id = match request.kind {
                RequestKind::Send { tag, data } => {
                    let send = SendRequest { common, len, tag, data };
                    match form {
                        SendForm::Message => engine.post_send(time, send, buffer, memory),
                        SendForm::Matched => engine.post_matched_send(time, send, buffer, memory),
                        SendForm::Datagram => engine.post_datagram(send, buffer, memory),
                    }
                }
                RequestKind::Write { remote, data } => {
                    let write = WriteRequest { common, len, remote, data };
                    engine.post_write(time, write, buffer, memory)
                }
                RequestKind::Read { remote } => {
                    let read = ReadRequest { common, len, remote };
                    engine.post_read(time, read, buffer, memory)
                }
                RequestKind::Atomic(ref atomic) => {
                    let count = atomic.count()?;
                    let staged = memory.stage([&atomic.operands, &atomic.compare], buffer)?;
                    let Atomic { form, datatype, op, remote, .. } = *atomic;
                    let atomic = AtomicRequest { common, remote, form, datatype, op, count };
                    engine.post_atomic(time, atomic, staged, memory)
                }
            }?;
            if deferred {
                engine.defer(id, signal);
            }
            let waits = form == SendForm::Datagram && datagram_waits(engine, wakers, more);
            let sends = !waits && engine.wants_transmit();
            let time = sends.then(|| if fresh { time } else { now() });
            Ok::<_, Error>((deferred.then_some(DeferredId::Op(id)), time))
        })?;
        if let Some(now) = time {
            self.drive(&mut state, now, Budget::POST);
            if state.thread_until.is_some() {
                self.expect_polls(&mut state, now);
            }
        }
        self.wake(&mut state, None);
        Ok(deferred)
    }

    /// Posts a receive, or looks for a stored message, as its mode says; then sends the answers
    /// that this makes. A peek looks among all messages that have arrived so far. The name of a
    /// deferred receive.
    ///
    /// # Errors
    /// [`Error::Again`] when all receive slots are in use; [`Error::Invalid`] for an unknown
    /// source, and if no message was claimed with the context.
    #[inline]
    pub(crate) fn receive(
        &self,
        recv: &Recv,
        options: RecvOptions,
    ) -> Result<Option<DeferredId>, Error> {
        let RecvOptions { mode, signal, directed, connected } = options;
        let mut state = self.lock();
        if let RecvMode::Peek(_) = mode {
            self.drive(&mut state, now(), Budget::PROGRESS);
            self.wake(&mut state, None);
        }
        let State { engine, memory, peers, .. } = &mut *state;
        let (deferred, pending) = engine.with_mut(|engine| {
            let directed = directed && !matches!(mode, RecvMode::Claimed(_));
            let from = match connected {
                Some(_) => connected,
                None => self.source(engine, peers, recv.from, directed)?,
            };
            let buffer = recv.buffer;
            let mut request = RecvRequest {
                from,
                len: buffer.len() as u64,
                context: recv.context,
                tag: recv.tag,
                signal,
            };
            let mut deferred = None;
            match mode {
                RecvMode::Single => engine.post_recv(request, buffer, memory).map(drop),
                RecvMode::Multi { min_free } => {
                    engine.post_multi_recv(request, min_free, buffer, memory).map(drop)
                }
                RecvMode::Peek(peek) => engine.peek(request, peek, memory),
                RecvMode::Claimed(ClaimAction::Receive) => {
                    engine.post_claimed(request, buffer, memory).map(drop)
                }
                RecvMode::Claimed(ClaimAction::Discard) => engine.discard_claimed(request),
                RecvMode::Deferred => {
                    request.signal = false;
                    let id = engine.post_deferred_recv(request, signal, buffer, memory);
                    id.map(|id| deferred = Some(DeferredId::Recv(id)))
                }
            }?;
            // The receive may have matched a stored message, or still search one. Its sender may be
            // waiting for room.
            let pending =
                engine.wants_transmit() || engine.has_recv_completion() || engine.has_searches();
            Ok::<_, Error>((deferred, pending))
        })?;
        if pending {
            self.drive(&mut state, now(), Budget::POST);
            self.wake(&mut state, None);
        }
        Ok(deferred)
    }

    /// The peer that a directed receive names; `None` for any.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is not in the vector.
    #[inline]
    pub(super) fn source(
        &self,
        engine: &mut Engine<'_>,
        peers: &mut PeerMap,
        from: fi_addr_t,
        directed: bool,
    ) -> Result<Option<PeerId>, Error> {
        peers.sync(engine, &self.av);
        if directed && from != ADDR_NONE {
            peers.peer(engine, &self.av, from).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The deferred operations that have ended since the last call, each with its success.
    pub(crate) fn take_ended(&self) -> Vec<(DeferredId, bool)> {
        let mut state = self.lock();
        let ended: Vec<_> =
            state.engine.with_mut(|engine| std::iter::from_fn(|| engine.poll_deferred()).collect());
        if !ended.is_empty() {
            self.wake(&mut state, None);
        }
        ended
    }

    /// Completes in error an operation that was never posted.
    ///
    /// # Errors
    /// [`Error::Again`] when there is no room for its completion.
    pub(crate) fn fail_unstarted(&self, op: &UnstartedOp, error: OpError) -> Result<(), Error> {
        let mut state = self.lock();
        state.engine.with_mut(|engine| engine.fail_unstarted(op, error))?;
        self.wake(&mut state, None);
        Ok(())
    }

    /// Cancels the oldest receive with this context that has matched nothing; it completes in
    /// error. A send runs to its end: see [`CancelledSends`](super::cancelled::CancelledSends).
    /// A connected endpoint brings its peer.
    pub(crate) fn cancel(&self, context: Context, connected: Option<PeerId>) {
        let mut state = self.lock();
        let cancelled = state.engine.with_mut(|engine| match connected {
            Some(peer) => engine.cancel_on(peer, context),
            None => engine.cancel(context),
        });
        if cancelled {
            return self.wake(&mut state, None);
        }
        let State { engine, cancelled, .. } = &mut *state;
        let send = engine.with(|engine| engine.operation_of(context, connected));
        send.into_iter().for_each(|send| cancelled.insert(send));
    }
}

/// The peer of a connected endpoint, if the other side is known and has not ended the connection.
fn connected_peer(engine: &Engine<'_>, peer: PeerId) -> Result<PeerId, Error> {
    let is_named = engine.peer_address(peer).is_some_and(|address| address != PeerAddress::NONE);
    if is_named { Ok(peer) } else { Err(Error::NotConnected) }
}
