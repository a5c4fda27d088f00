// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue of a shared receive context behind its lock, with the buffers of its receives and the
//! endpoints that it notifies.
//!
//! In: receives as they are posted, cancels, ends of slices. Out: each receive, or a slice of it,
//! to the source that claims it. Called by `endpoint::shared_rx` and `receive_source`. Bound: the
//! size of the context, allocated at once.
//!
//! The order of receives, the match rule and multi-receive buffers are those of
//! [`SharedQueue`](ofi_xdp_core::SharedQueue).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::shared_queue::{ClaimedRecv, Cursor, Release};
use ofi_xdp_core::{
    Context, Engine, Memory, PeerAddress, RecvRequest, SharedQueueBox, SharedRecvId,
    UnmatchedMessage,
};

use super::memory::buffer::Buffer;
use super::request::{CompletionPolicy, Recv};
use crate::sys::errno::Error;
use crate::sys::memory;
use crate::wait::waker::Waker;

/// The queue behind its lock.
#[derive(Debug)]
struct State {
    queue: SharedQueueBox,
    /// By slot of [`SharedRecvId`].
    buffers: Box<[Buffer]>,
    /// The endpoints that can report releases, with the wakers of their readers.
    notifiers: Vec<Option<Arc<Waker>>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    state: Mutex<State>,
    /// The serial number of the next receive. Changed under the lock.
    serial: AtomicU64,
    /// Whether there are unreported releases. Changed under the lock.
    has_unreported: AtomicBool,
}

/// The end of a slice of a multi-receive buffer, for its endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SliceCompletion {
    /// Whether it releases the buffer.
    pub(crate) released: bool,
    /// Whether its success writes a completion.
    pub(crate) signal: bool,
}

impl RecvQueue {
    /// A queue for `size` receives. The random `secret` keeps peers from choosing tags that
    /// collide.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(size: usize, secret: [u64; 2]) -> Result<Self, Error> {
        let size = u32::try_from(size).unwrap_or(u32::MAX).min(SharedRecvId::SLOTS_MAX);
        let queue = SharedQueueBox::new(size, secret).map_err(|_| Error::NoMemory)?;
        let serial = AtomicU64::new(queue.with(|queue| queue.serial()));
        let buffers = memory::filled(Buffer::EMPTY, size as usize)?.into_boxed_slice();
        let state = Mutex::new(State { queue, buffers, notifiers: Vec::new() });
        Ok(Self { state, serial, has_unreported: AtomicBool::new(false) })
    }

    /// Sets the endpoints that report unreported releases.
    pub(crate) fn set_notifiers(&self, notifiers: Vec<Option<Arc<Waker>>>) {
        let mut state = self.lock();
        state.notifiers = notifiers;
        if self.has_unreported() {
            state.wake_notifiers();
        }
    }

    /// Adds a receive; with `min_free`, a multi-receive buffer that ends when fewer bytes are free.
    /// `requested` (`FI_COMPLETION`): it writes a completion under the selective policy.
    ///
    /// # Errors
    /// [`Error::Again`] when all slots are in use.
    pub(crate) fn push(
        &self,
        recv: &Recv,
        source: Option<PeerAddress>,
        min_free: Option<u64>,
        requested: bool,
    ) -> Result<(), Error> {
        let Recv { buffer, tag, context, .. } = *recv;
        let len = buffer.len() as u64;
        let request = RecvRequest { from: None, len, context, tag, signal: requested };
        let mut state = self.lock();
        let (id, serial) = state.queue.with_mut(|queue| {
            queue.post(request, source, min_free).map(|id| (id, queue.serial()))
        })?;
        if let Some(entry) = state.buffers.get_mut(id.slot() as usize) {
            *entry = buffer;
        }
        // Sequentially consistent, like `has_unmatched`: see `endpoint::shared_rx`.
        self.serial.store(serial, Ordering::SeqCst);
        Ok(())
    }

    /// Removes the oldest receive with this context after `complete` has completed it. `complete`
    /// takes its request, and whether it is a multi-receive buffer. The caller holds the lock of
    /// the runtime that it uses.
    ///
    /// # Errors
    /// Those of `complete`; the receive keeps its position then.
    pub(crate) fn cancel(
        &self,
        context: Context,
        complete: impl FnOnce(RecvRequest, bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        // One lock throughout: a message that came meanwhile would miss a receive that stays.
        self.lock().queue.with_mut(|queue| {
            let Some(cancelled) = queue.cancel(context) else { return Ok(()) };
            let completed = complete(cancelled.request(), cancelled.is_multi());
            match completed {
                Ok(()) => queue.release(cancelled),
                Err(_) => queue.restore(cancelled),
            }
            completed
        })
    }

    /// The free slots.
    pub(crate) fn room(&self) -> usize {
        self.lock().queue.with(|queue| queue.room()) as usize
    }

    /// Whether receives stand behind `cursor`.
    #[inline]
    pub(super) fn is_behind(&self, cursor: Cursor) -> bool {
        cursor.is_behind(self.serial.load(Ordering::SeqCst))
    }

    /// Whether there are unreported releases.
    #[inline]
    pub(super) fn has_unreported(&self) -> bool {
        self.has_unreported.load(Ordering::SeqCst)
    }

    /// Claims the first receive that matches a message, for an endpoint with this policy.
    pub(super) fn claim(
        &self,
        cursor: &mut Cursor,
        arrival: &UnmatchedMessage,
        policy: CompletionPolicy,
    ) -> Option<(RecvRequest, Buffer)> {
        let State { queue, buffers, .. } = &mut *self.lock();
        let claim = queue.with_mut(|queue| queue.claim(cursor, arrival))?;
        Some(hand_over(buffers, claim, policy))
    }

    /// Offers the receives behind `cursor` to the stored messages of `engine`, for an endpoint with
    /// this policy; whether any matched.
    pub(super) fn offer<M: Memory<Buffer = Buffer>>(
        &self,
        cursor: &mut Cursor,
        engine: &mut Engine<'_>,
        memory: &mut M,
        policy: CompletionPolicy,
    ) -> bool {
        let State { queue, buffers, .. } = &mut *self.lock();
        queue.with_mut(|queue| {
            queue.offer(cursor, engine, memory, |claim| hand_over(buffers, claim, policy))
        })
    }

    /// Ends a slice of buffer `id`, at an endpoint with this policy; `read`: its completion is read
    /// there. The last end releases the buffer if the endpoint has a queue, or if no endpoint has
    /// one. Otherwise the release is unreported.
    pub(super) fn end_slice(
        &self,
        id: SharedRecvId,
        policy: CompletionPolicy,
        read: bool,
    ) -> SliceCompletion {
        let mut state = self.lock();
        let reports = read && (policy != CompletionPolicy::None || state.notifiers.is_empty());
        let Some(end) = state.queue.with_mut(|queue| queue.end_slice(id, reports)) else {
            return SliceCompletion { released: false, signal: policy.admits(true) };
        };
        if end.release == Release::Unreported {
            self.has_unreported.store(true, Ordering::SeqCst);
            state.wake_notifiers();
        }
        let released = end.release == Release::Reported;
        SliceCompletion { released, signal: policy.admits(end.signal) }
    }

    /// Reports unreported releases by completions of `engine`, until it has no slot for one.
    pub(super) fn report(&self, engine: &mut Engine<'_>) {
        let mut state = self.lock();
        let has_unreported = state.queue.with_mut(|queue| {
            queue.report(engine);
            queue.has_unreported()
        });
        self.has_unreported.store(has_unreported, Ordering::SeqCst);
    }

    // No code under the lock panics between two changes.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Wakes the readers of the notifiers, asleep or not: no common lock orders this call and one
    /// that is about to sleep.
    fn wake_notifiers(&self) {
        self.notifiers.iter().flatten().for_each(|waker| waker.force());
    }
}

/// The request and the buffer of a claim, for an endpoint with this policy.
fn hand_over(
    buffers: &[Buffer],
    claim: ClaimedRecv,
    policy: CompletionPolicy,
) -> (RecvRequest, Buffer) {
    let ClaimedRecv { mut request, id, slice } = claim;
    let buffer = buffers.get(id.slot() as usize).copied().unwrap_or(Buffer::EMPTY);
    let Some(offset) = slice else {
        request.signal = policy.admits(request.signal);
        return (request, buffer);
    };
    // Each slice ends in a completion for the runtime: it may be written until then.
    request.signal = true;
    (request, buffer.slice(offset, id))
}
