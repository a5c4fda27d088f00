// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends that make no completion, among them those of operations that were deferred
//! (`fi_trigger(3)`, "Deferred work queues"); and completions of what was put off and never began.
//!
//! In: operations that have ended and are in no list, or were never posted. Out: slots that are
//! free again, errors in the lists that every error goes to, and the ends of deferred operations in
//! lists of their own, for whoever counts them. Nothing of a deferred operation is in the
//! [`Tally`](crate::Tally), unless it is told as any other. Bounds: an operation is in one list.

use super::Engine;
use crate::operation::{Deferred, Many, POSTED, RECVS, RecvKind, RecvOp, TxKind, TxOp};
use crate::wire::Envelope;
use crate::{
    AtomicForm, AtomicOp, Context, Datatype, DeferredId, Memory, OpError, OpId, OpKind, PeerId,
    PostError, RecvId, RecvRequest, Remote, TagMatch, Unbegun,
};

impl Engine<'_> {
    /// The end of an operation that was just posted, without a signal, is to be had from
    /// [`Self::poll_deferred`]; if `told`, it is signalled and counted, too.
    pub fn defer(&mut self, op: OpId, told: bool) {
        let number = op.slot();
        if self.ops.is_used(number) && self.op_id(number) == op {
            self.ops[number].deferred = if told { Deferred::Told } else { Deferred::Silent };
        }
    }

    /// As [`Self::post_recv`] and [`Self::defer`] in one, as a receive may end as it is posted.
    ///
    /// # Errors
    /// As [`Self::post_recv`].
    pub fn post_deferred_recv<M: Memory>(
        &mut self,
        request: RecvRequest,
        told: bool,
        buffer: M::Buffer,
        memory: &mut M,
    ) -> Result<RecvId, PostError> {
        let deferred = if told { Deferred::Told } else { Deferred::Silent };
        let request = RecvRequest { signal: false, ..request };
        let op = RecvOp { request, deferred, peer: PeerId::NONE, ..RecvOp::default() };
        self.file_recv(op, buffer, memory)
    }

    /// The next deferred operation that has ended, and whether well.
    pub fn poll_deferred(&mut self) -> Option<(DeferredId, bool)> {
        if let Some(number) = self.deferred_sends.pop_front(&mut self.ops) {
            let (id, op) = (self.op_id(number), &self.ops[number]);
            let success = op.outcome.is_ok();
            if op.deferred == Deferred::Told || !success {
                self.sends_done.push_back(&mut self.ops, number);
            } else {
                self.ops.release(number);
            }
            return Some((DeferredId::Op(id), success));
        }
        let number = self.deferred_recvs.pop_front(&mut self.recvs)?;
        let (id, op) = (self.recv_id(number), &self.recvs[number]);
        let success = op.outcome.is_ok();
        if op.deferred == Deferred::Told || !success {
            self.recvs_done.push_back(&mut self.recvs, number);
        } else {
            self.recvs.release(number);
        }
        Some((DeferredId::Recv(id), success))
    }

    /// Ends with `error` what was never posted: told and counted as the end of a posted operation.
    ///
    /// # Errors
    /// [`PostError::Again`]; nothing has changed then.
    pub fn end_unbegun(&mut self, op: &Unbegun, error: OpError) -> Result<(), PostError> {
        let Unbegun { context, kind, fetches, many } = *op;
        let remote = Remote::default();
        let kind = match kind {
            OpKind::Recv { tagged } => return self.end_unbegun_recv(context, tagged, many, error),
            OpKind::Send { tagged } => {
                TxKind::Message(Envelope { tag: tagged.then_some(0), ..Envelope::default() })
            }
            OpKind::Read => TxKind::Read { remote },
            OpKind::Atomic => TxKind::Atomic {
                remote,
                form: if fetches { AtomicForm::Fetch } else { AtomicForm::Base },
                datatype: Datatype::Uint64,
                op: AtomicOp::Sum,
                count: 0,
            },
            OpKind::Write | OpKind::RemoteWrite => TxKind::Write { remote, data: None },
        };
        let op = TxOp { context, kind, signal: true, outcome: Err(error), ..TxOp::default() };
        let number = self.ops.alloc_in(POSTED, op).ok_or(PostError::Again)?;
        self.finish_send(number);
        Ok(())
    }

    fn end_unbegun_recv(
        &mut self,
        context: Context,
        tagged: bool,
        many: bool,
        error: OpError,
    ) -> Result<(), PostError> {
        let tag = tagged.then_some(TagMatch { tag: 0, ignore: 0 });
        let request = RecvRequest { from: None, len: 0, context, tag, signal: true };
        let unused = RecvKind::Many(Many { used: 0, least: 1, open: 0, closed: true });
        let kind = if many { unused } else { RecvKind::One };
        let op = RecvOp { request, kind, outcome: Err(error), ..RecvOp::default() };
        let number = self.recvs.alloc_in(RECVS, op).ok_or(PostError::Again)?;
        self.finish_recv(number);
        Ok(())
    }

    /// A posted operation without a signal has ended, and was counted.
    #[inline]
    pub(super) fn finish_silent_send(&mut self, number: u32) {
        let op = &self.ops[number];
        match (op.deferred, op.outcome) {
            (Deferred::No, Ok(())) => self.ops.release(number),
            (Deferred::No, Err(_)) => self.sends_done.push_back(&mut self.ops, number),
            (deferred, outcome) => self.finish_deferred_send(number, deferred, outcome),
        }
    }

    #[cold]
    fn finish_deferred_send(
        &mut self,
        number: u32,
        deferred: Deferred,
        outcome: Result<(), OpError>,
    ) {
        if deferred == Deferred::Silent {
            let op = &self.ops[number];
            self.tally.discount(op.op_kind(), op.is_request(), outcome.is_ok());
        }
        self.deferred_sends.push_back(&mut self.ops, number);
    }

    /// A receive without a signal has ended, and was counted.
    #[inline]
    pub(super) fn finish_silent_recv(&mut self, number: u32) {
        let op = &self.recvs[number];
        match (op.deferred, op.outcome) {
            (Deferred::No, Ok(())) => self.recvs.release(number),
            (Deferred::No, Err(_)) => self.recvs_done.push_back(&mut self.recvs, number),
            (deferred, outcome) => self.finish_deferred_recv(number, deferred, outcome),
        }
    }

    #[cold]
    fn finish_deferred_recv(
        &mut self,
        number: u32,
        deferred: Deferred,
        outcome: Result<(), OpError>,
    ) {
        if deferred == Deferred::Silent {
            let tagged = self.recvs[number].request.tag.is_some();
            self.tally.discount(OpKind::Recv { tagged }, false, outcome.is_ok());
        }
        self.deferred_recvs.push_back(&mut self.recvs, number);
    }
}
