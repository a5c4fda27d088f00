// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives of a runtime from a shared receive context.
//!
//! In: new receives of the context, searches for stored messages, cancels. Out: completions of the
//! receives that match here. Called by `endpoint::shared_rx`. Bound: the size of the context.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ofi_xdp_core::{Budget, Context, RecvRequest};

use super::receive_queue::RecvQueue;
use super::receive_source::SharedSource;
use super::{Recv, Runtime, State};
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::wait::waker::Waker;

impl Runtime {
    /// Reports the unreported ends of the shared context, and offers its new receives to the stored
    /// messages; whether any matched.
    #[cold]
    pub(super) fn take_shared(&self, state: &mut State) -> bool {
        let State { engine, memory, .. } = state;
        engine.with_mut(|engine| {
            memory.report_shared(engine);
            let has_unmatched = engine.has_stored();
            // Set before the search: a receive that is posted meanwhile sees the flag, or is found.
            if has_unmatched || self.has_unmatched.load(Ordering::Relaxed) {
                self.has_unmatched.store(has_unmatched, Ordering::SeqCst);
            }
            has_unmatched && memory.offer_shared(engine)
        })
    }

    /// Offers a new receive of the shared context to the stored messages.
    pub(crate) fn resume_matching(&self) {
        if self.has_unmatched.load(Ordering::SeqCst) {
            let mut state = self.lock();
            self.drive(&mut state, now(), Budget::POST);
            self.wake(&mut state, None);
        }
    }

    /// Takes no more receives from the shared context. Messages in flight may still be written into
    /// multi-receive buffers: those are not released before [`Self::end_shared`].
    pub(crate) fn leave_shared(&self) -> Option<SharedSource> {
        self.lock().memory.leave_shared()
    }

    /// Ends the runtime's slices of multi-receive buffers. Called after [`Self::close`].
    pub(crate) fn end_shared(&self, source: &SharedSource) {
        self.lock().memory.end_shared(source);
    }

    /// The waker of the receive queue's readers, if they may wait.
    pub(crate) fn receive_waker(&self) -> Option<Arc<Waker>> {
        self.lock().wakers.groups().iter().find_map(|queues| queues.receive.clone())
    }

    /// Makes progress; whether a stored message matches the receive.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown source.
    pub(crate) fn stores(&self, recv: &Recv, directed: bool) -> Result<bool, Error> {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        self.wake(&mut state, None);
        let State { engine, peers, .. } = &mut *state;
        engine.with_mut(|engine| {
            let from = self.source(engine, peers, recv.from, directed)?;
            Ok(engine.stored_len(&RecvRequest { from, ..request(recv) }).is_some())
        })
    }

    /// Cancels the oldest receive of the shared context with this `context` that has met no
    /// endpoint yet, and completes it here.
    ///
    /// # Errors
    /// [`Error::Again`] when all receive slots are in use; the receive stays.
    pub(crate) fn cancel_shared(&self, queue: &RecvQueue, context: Context) -> Result<(), Error> {
        let mut state = self.lock();
        state.engine.with_mut(|engine| {
            queue.cancel(context, |request, multi| Ok(engine.post_cancelled(request, multi)?))
        })?;
        self.wake(&mut state, None);
        Ok(())
    }
}

/// The request of a receive from any source.
const fn request(recv: &Recv) -> RecvRequest {
    RecvRequest { from: None, len: 0, context: recv.context, tag: recv.tag, signal: true }
}
