// SPDX-License-Identifier: MIT OR Apache-2.0
//! Posts on an enabled endpoint: operations with a peer, receives of every kind, and their cancel.
//!
//! What comes in: requests of the endpoint's data calls, with their flags settled. What goes out:
//! operations in the engine, and packets that need not wait for company. Every call takes the lock
//! once and reads the clock once at most. Bound: the engine's pools.

use std::sync::MutexGuard;

use ofi_xdp_core::{
    Budget, Common, Context, DeferredId, Engine, Instant, OpError, OpId, PostError, Probe,
    RecvRequest, Unbegun,
};

use super::{ActiveEndpoint, State, now};
use crate::abi::{ADDR_NONE, fi_addr_t};
use crate::errno::Error;
use crate::memory::{AppMemory, Buffer};
use crate::ops::Recv;

/// What an operation is handed to the engine with.
pub(crate) struct Post<'a, 's> {
    pub(crate) engine: &'a mut Engine<'s>,
    pub(crate) memory: &'a mut AppMemory,
    pub(crate) common: Common,
    pub(crate) now: Instant,
}

/// What the endpoint has made of an operation's flags.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posting {
    /// What is sent, marked for copying if it is injected.
    pub(crate) buffer: Buffer,
    /// Whether success makes a completion.
    pub(crate) signal: bool,
    /// Whether more follows at once.
    pub(crate) more: bool,
    /// Whether it waits for everything before it.
    pub(crate) fence: bool,
    /// Whether its end is the work queue's to know.
    pub(crate) deferred: bool,
    /// Whether a send is complete only when it was matched (`FI_MATCH_COMPLETE`).
    pub(crate) matched: bool,
}

/// What becomes of a claimed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taking {
    /// It is received.
    Receive,
    /// It is dropped.
    Discard,
}

impl ActiveEndpoint {
    /// Posts an operation with a peer, which `request` hands to the engine, and sends it if it need
    /// not wait for company.
    ///
    /// # Errors
    /// [`Error::Again`] when the endpoint has as many operations as it can; [`Error::Invalid`] for
    /// an unknown peer; what `request` says.
    #[inline]
    pub(crate) fn post(
        &self,
        peer: fi_addr_t,
        context: Context,
        how: &Posting,
        request: impl FnOnce(Post<'_, '_>) -> Result<OpId, Error>,
    ) -> Result<Option<DeferredId>, Error> {
        let mut state = self.lock();
        let State { engine, memory, peers, .. } = &mut *state;
        let (deferred, time) = engine.with_dependent_mut(|_, engine| {
            peers.sync(&self.av);
            let peer = peers.peer(engine, &self.av, peer)?;
            // Most posts of many are behind packets that are under way; to read the clock for each
            // would cost as much as the post.
            let (time, fresh) = match engine.time_under_way(peer) {
                Some(time) => (time, false),
                None => (now(), true),
            };
            let Posting { signal, more, fence, deferred, .. } = *how;
            let common = Common { peer, context, signal: signal && !deferred, more, fence };
            let id = request(Post { engine: &mut *engine, memory, common, now: time })?;
            if deferred {
                engine.defer(id, signal);
            }
            let time = engine.wants_transmit().then(|| if fresh { time } else { now() });
            Ok::<_, Error>((deferred.then_some(DeferredId::Op(id)), time))
        })?;
        if let Some(now) = time {
            self.drive(&mut state, now, Budget::POST);
        }
        self.wake(&state, None);
        Ok(deferred)
    }

    /// Posts a receive whose end is the work queue's to know; if `told`, it is told as any other,
    /// too.
    ///
    /// # Errors
    /// As [`Self::post_recv`].
    pub(crate) fn post_deferred_recv(&self, recv: &Recv, told: bool) -> Result<DeferredId, Error> {
        let mut id = None;
        self.receive(self.lock(), recv, false, |engine, request, memory| {
            id = Some(engine.post_deferred_recv(request, told, recv.buffer, memory)?);
            Ok(())
        })?;
        id.map(DeferredId::Recv).ok_or(Error::Internal)
    }

    /// The deferred operations that have ended since the last call, and whether well.
    pub(crate) fn take_ended(&self) -> Vec<(DeferredId, bool)> {
        let mut state = self.lock();
        let ended: Vec<_> = state.engine.with_dependent_mut(|_, engine| {
            std::iter::from_fn(|| engine.poll_deferred()).collect()
        });
        if !ended.is_empty() {
            self.wake(&state, None);
        }
        ended
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// [`Error::Again`] when the endpoint has as many receives as it can; [`Error::Invalid`] for an
    /// unknown source.
    pub(crate) fn post_recv(&self, recv: &Recv, signal: bool) -> Result<(), Error> {
        self.receive(self.lock(), recv, signal, |engine, request, memory| {
            engine.post_recv(request, recv.buffer, memory).map(drop)
        })
    }

    /// Posts a buffer for many messages, until fewer than `least` bytes of it are left.
    ///
    /// # Errors
    /// As [`Self::post_recv`].
    pub(crate) fn post_multi_recv(
        &self,
        recv: &Recv,
        least: u64,
        signal: bool,
    ) -> Result<(), Error> {
        self.receive(self.lock(), recv, signal, |engine, request, memory| {
            engine.post_multi_recv(request, least, recv.buffer, memory).map(drop)
        })
    }

    /// Looks for a message, among all that have arrived so far: the one posting call that makes
    /// progress first.
    ///
    /// # Errors
    /// As [`Self::post_recv`].
    pub(crate) fn peek(&self, recv: &Recv, probe: Probe, signal: bool) -> Result<(), Error> {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        self.wake(&state, None);
        self.receive(state, recv, signal, |engine, request, _| engine.peek(request, probe))
    }

    /// Receives or drops the message that was claimed with the same context.
    ///
    /// # Errors
    /// [`Error::Invalid`] if none was; [`Error::Again`] as [`Self::post_recv`].
    pub(crate) fn take_claimed(
        &self,
        recv: &Recv,
        taking: Taking,
        signal: bool,
    ) -> Result<(), Error> {
        // Which message it is, is settled.
        let recv = &Recv { from: ADDR_NONE, ..*recv };
        self.receive(self.lock(), recv, signal, |engine, request, memory| match taking {
            Taking::Receive => engine.post_claimed(request, recv.buffer, memory).map(drop),
            Taking::Discard => engine.discard_claimed(request),
        })
    }

    /// Posts what is to receive, and sends what that makes.
    #[inline]
    fn receive(
        &self,
        mut state: MutexGuard<'_, State>,
        recv: &Recv,
        signal: bool,
        post: impl FnOnce(&mut Engine<'_>, RecvRequest, &mut AppMemory) -> Result<(), PostError>,
    ) -> Result<(), Error> {
        let State { engine, memory, peers, .. } = &mut *state;
        let pending = engine.with_dependent_mut(|_, engine| {
            peers.sync(&self.av);
            let from = match recv.from {
                from if self.directed && from != ADDR_NONE => {
                    Some(peers.peer(engine, &self.av, from)?)
                }
                _ => None,
            };
            let request = RecvRequest {
                from,
                len: recv.buffer.len() as u64,
                context: recv.context,
                tag: recv.tag,
                signal,
            };
            post(engine, request, memory)?;
            // A stored message may have matched at once, or its sender be told that there is room
            // again.
            Ok::<bool, Error>(engine.wants_transmit() || engine.has_recv_completion())
        })?;
        if pending {
            self.drive(&mut state, now(), Budget::POST);
            self.wake(&state, None);
        }
        Ok(())
    }

    /// Ends an operation in error that was put off and has not begun.
    ///
    /// # Errors
    /// [`Error::Again`] when there is no room for its completion.
    pub(crate) fn end_unbegun(&self, op: &Unbegun, error: OpError) -> Result<(), Error> {
        let mut state = self.lock();
        state.engine.with_dependent_mut(|_, engine| {
            engine.end_unbegun(op, error)?;
            self.wakers.wake(engine, None, None);
            Ok(())
        })
    }

    /// Ends the oldest receive with this context that has matched nothing; it completes in error.
    pub(crate) fn cancel(&self, context: Context) {
        let mut state = self.lock();
        if state.engine.with_dependent_mut(|_, engine| engine.cancel(context)) {
            self.wake(&state, None);
        }
    }
}
