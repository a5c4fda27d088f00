// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint whose receives come from a shared receive context.
//!
//! What comes in: word from the context (`srx`) that there are new receives, and questions of what
//! is stored here. What goes out: completions of receives that the endpoint took. Bounds: those of
//! the context.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ofi_xdp_core::{Budget, RecvRequest};

use super::{ActiveEndpoint, State, now};
use crate::abi::ADDR_NONE;
use crate::errno::Error;
use crate::ops::Recv;
use crate::srx::SharedSource;
use crate::waker::Waker;

impl ActiveEndpoint {
    /// Tells what nobody told of the shared context, and gives the messages that are stored here
    /// the receives that are new to them; whether any fitted.
    #[cold]
    pub(super) fn take_shared(&self, state: &mut State) -> bool {
        let State { engine, memory, .. } = state;
        engine.with_dependent_mut(|_, engine| {
            memory.tell_shared(engine);
            let hungry = engine.has_stored();
            // Said before the look, or a receive that is posted meanwhile might miss both.
            if hungry || self.hungry.load(Ordering::Relaxed) {
                self.hungry.store(hungry, Ordering::SeqCst);
            }
            hungry && memory.offer_shared(engine)
        })
    }

    /// There is a new receive in the shared context.
    pub(crate) fn feed(&self) {
        if self.hungry.load(Ordering::SeqCst) {
            let mut state = self.lock();
            self.drive(&mut state, now(), Budget::POST);
            self.wake(&state, None);
        }
    }

    /// Takes no more receives from the shared context. It may still write into buffers for many
    /// messages, which its other endpoints must not give back before [`Self::end_shared`].
    pub(crate) fn leave_shared(&self) -> Option<SharedSource> {
        self.lock().memory.leave_shared()
    }

    /// After [`Self::close`]: what the endpoint had of buffers for many messages has ended.
    pub(crate) fn end_shared(&self, source: &SharedSource) {
        self.lock().memory.end_shared(source);
    }

    /// Wakes who reads its receives, if they may wait.
    pub(crate) const fn receive_waker(&self) -> Option<&Arc<Waker>> {
        self.wakers.receive.as_ref()
    }

    /// Makes progress; whether a message is stored here that a receive would match.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown source.
    pub(crate) fn stores(&self, recv: &Recv) -> Result<bool, Error> {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        self.wake(&state, None);
        let State { engine, peers, .. } = &mut *state;
        engine.with_dependent_mut(|_, engine| {
            peers.sync(&self.av);
            let from = match recv.from {
                from if self.directed && from != ADDR_NONE => {
                    Some(peers.peer(engine, &self.av, from)?)
                }
                _ => None,
            };
            Ok(engine.stored_len(&RecvRequest { from, ..request(recv) }).is_some())
        })
    }

    /// Completes a receive that was cancelled in the shared context; `many`: it was a buffer for
    /// many messages.
    ///
    /// # Errors
    /// [`Error::Again`] when the endpoint has as many receives as it can.
    pub(crate) fn tell_cancelled(&self, recv: &Recv, many: bool) -> Result<(), Error> {
        let mut state = self.lock();
        state.engine.with_dependent_mut(|_, engine| engine.post_cancelled(request(recv), many))?;
        self.wake(&state, None);
        Ok(())
    }
}

/// A receive from anybody.
const fn request(recv: &Recv) -> RecvRequest {
    RecvRequest { from: None, len: 0, context: recv.context, tag: recv.tag, signal: true }
}
