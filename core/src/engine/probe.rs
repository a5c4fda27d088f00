// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looking at stored messages, claiming and dropping them (`fi_tagged(3)`: `FI_PEEK`, `FI_CLAIM`,
//! `FI_DISCARD`).
//!
//! In: what the application asks. Out: a completion for each call. A message is found by its
//! envelope, so it need not have arrived in full. A claimed message is in no queue that receives
//! search; it is known by the application's context. Bounds: stored messages, claimed messages.

use super::Engine;
use crate::operation::{Holder, RECVS, RecvKind, RecvOp, Unexpected};
use crate::slab::{List, NIL};
use crate::{Context, Memory, OpError, PostError, Probe, RecvId, RecvRequest};

impl Engine<'_> {
    /// Looks for the oldest stored message that fits; make progress first, so that what has arrived
    /// is seen. Completes with its length, tag, data and source, or with [`OpError::NoMessage`].
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then.
    pub fn peek(&mut self, request: RecvRequest, probe: Probe) -> Result<(), PostError> {
        let number = self.begin_probe(request)?;
        let Some(message) = self.find_stored(&request) else {
            self.recvs[number].outcome = Err(OpError::NoMessage);
            self.finish_recv(number);
            return Ok(());
        };
        match probe {
            Probe::Look => self.note_probe(number, message),
            Probe::Claim => {
                self.note_probe(number, message);
                self.unqueue_stored(message);
                self.unexpected.message(message).holder = Holder::Claim(request.context);
                self.claimed.push_back(&mut self.unexpected, message);
            }
            Probe::Discard => {
                self.unqueue_stored(message);
                self.discard(number, message);
                return Ok(());
            }
        }
        self.finish_recv(number);
        Ok(())
    }

    /// Posts a receive for the message that was claimed with this context; source and tag of the
    /// request are no condition.
    ///
    /// # Errors
    /// [`PostError::NotClaimed`], [`PostError::Again`]; nothing has changed then, and `buffer` is
    /// dropped.
    pub fn post_claimed<M: Memory>(
        &mut self,
        request: RecvRequest,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let message = self.find_claimed(request.context).ok_or(PostError::NotClaimed)?;
        let op = RecvOp { request, ..RecvOp::default() };
        let number = self.recvs.alloc_in(RECVS, op).ok_or(PostError::Again)?;
        let id = self.recv_id(number);
        memory.attach_recv(id, buffer);
        self.claimed.remove(&mut self.unexpected, message);
        match self.unexpected.message(message).failed {
            Some(error) => self.fail_claimed(number, message, error),
            None => {
                self.bind_stored(message, number, memory);
                self.schedule_pulls();
            }
        }
        Ok(id)
    }

    /// Drops the message that was claimed with the context of `request`. Completes as a receive.
    ///
    /// # Errors
    /// As [`Self::post_claimed`].
    pub fn discard_claimed(&mut self, request: RecvRequest) -> Result<(), PostError> {
        let message = self.find_claimed(request.context).ok_or(PostError::NotClaimed)?;
        let number = self.begin_probe(request)?;
        self.claimed.remove(&mut self.unexpected, message);
        self.discard(number, message);
        Ok(())
    }

    fn begin_probe(&mut self, request: RecvRequest) -> Result<u32, PostError> {
        let request = RecvRequest { len: 0, ..request };
        let op = RecvOp { request, kind: RecvKind::Probe, ..RecvOp::default() };
        self.recvs.alloc_in(RECVS, op).ok_or(PostError::Again)
    }

    fn note_probe(&mut self, number: u32, message: u32) {
        let Unexpected { peer, envelope, .. } = *self.unexpected.message(message);
        let op = &mut self.recvs[number];
        (op.peer, op.envelope) = (peer, envelope);
    }

    /// Drops a message that is out of its queue; the probe `number` tells of it. The sender of an
    /// announced one is told that nothing of it is wanted.
    fn discard(&mut self, number: u32, message: u32) {
        self.note_probe(number, message);
        let stored = self.unexpected.message(message);
        let Unexpected { handle, complete, failed, .. } = *stored;
        if handle.is_none() && !complete && failed.is_none() {
            stored.holder = Holder::Discard;
        } else {
            self.unexpected.release(message);
        }
        match handle {
            Some(handle) => {
                self.begin_pull(number, handle);
                self.schedule_pulls();
            }
            None => self.finish_recv(number),
        }
    }

    fn fail_claimed(&mut self, number: u32, message: u32, error: OpError) {
        self.note_probe(number, message);
        self.unexpected.release(message);
        self.recvs[number].outcome = Err(error);
        self.finish_recv(number);
    }

    fn find_claimed(&mut self, context: Context) -> Option<u32> {
        let mut number = self.claimed.head();
        // bound: claimed messages
        while number != NIL && self.unexpected.message(number).holder != Holder::Claim(context) {
            number = List::next(&mut self.unexpected, number);
        }
        (number != NIL).then_some(number)
    }
}
