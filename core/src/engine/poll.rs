// SPDX-License-Identifier: MIT OR Apache-2.0
//! G. What has ended. A finished operation keeps its slot until its completion is polled:
//! completions cannot overflow, and who does not poll runs out of slots to post with.

use super::Engine;
use crate::operation::{POSTED, RECVS, RecvKind};
use crate::{Completion, OpError, OpKind};

impl Engine<'_> {
    /// The next operation of an initiator that has ended, in the order in which they ended.
    #[inline]
    pub fn poll_send_completion(&mut self) -> Option<Completion> {
        if self.sends_done.is_empty() { None } else { self.take_send_completion() }
    }

    #[inline(always)]
    fn take_send_completion(&mut self) -> Option<Completion> {
        let number = self.sends_done.pop_front(&mut self.ops)?;
        let op = &self.ops[number];
        let envelope = op.envelope();
        let completion = Completion {
            context: op.context,
            kind: op.op_kind(),
            peer: op.peer,
            len: op.total,
            overflow: 0,
            tag: envelope.and_then(|envelope| envelope.tag).unwrap_or(0),
            data: envelope.and_then(|envelope| envelope.data),
            part: None,
            released: false,
            outcome: op.outcome,
        };
        self.ops.release_in(POSTED, number);
        Some(completion)
    }

    /// The next finished receive or remote write, in the order in which they ended.
    #[inline]
    pub fn poll_recv_completion(&mut self) -> Option<Completion> {
        if self.recvs_done.is_empty() { None } else { self.take_recv_completion() }
    }

    #[inline(always)]
    fn take_recv_completion(&mut self) -> Option<Completion> {
        let number = self.recvs_done.pop_front(&mut self.recvs)?;
        let op = &self.recvs[number];
        if op.kind != RecvKind::One || op.outcome.is_err() {
            let completion = self.recv_completion(number);
            self.recvs.release(number);
            return Some(completion);
        }
        // A message that came whole into a buffer of its own: nearly always.
        let completion = Completion {
            context: op.request.context,
            kind: OpKind::Recv { tagged: op.request.tag.is_some() },
            peer: op.peer,
            len: op.envelope.total.min(op.request.len),
            overflow: 0,
            tag: op.envelope.tag.unwrap_or(0),
            data: op.envelope.data,
            part: None,
            released: false,
            outcome: Ok(()),
        };
        debug_assert_eq!(completion, self.recv_completion(number));
        self.recvs.release_in(RECVS, number);
        Some(completion)
    }

    /// What is told of a receive, or of a remote write, of any kind.
    fn recv_completion(&self, number: u32) -> Completion {
        let op = &self.recvs[number];
        let total = op.envelope.total;
        let event = op.kind == RecvKind::Event;
        let placed = match op.outcome {
            Ok(()) if event || op.kind == RecvKind::Probe => total,
            Ok(()) | Err(OpError::Truncated) => total.min(op.request.len),
            Err(_) => 0,
        };
        let tagged = op.request.tag.is_some();
        Completion {
            context: op.request.context,
            kind: if event { OpKind::RemoteWrite } else { OpKind::Recv { tagged } },
            peer: op.peer,
            len: placed,
            overflow: if op.outcome == Err(OpError::Truncated) { total - placed } else { 0 },
            tag: op.envelope.tag.unwrap_or(0),
            data: op.envelope.data,
            part: matches!(op.kind, RecvKind::Part { .. } | RecvKind::Shared)
                .then(|| self.recv_id(number)),
            released: matches!(op.kind, RecvKind::Part { last: true, .. } | RecvKind::Many(_)),
            outcome: op.outcome,
        }
    }

    /// A posted operation has ended as its `outcome` says, and is out of every list.
    #[inline(always)]
    pub(super) fn finish_send(&mut self, number: u32) {
        let op = &mut self.ops[number];
        op.done = true;
        let message = op.envelope().is_some();
        self.stats.messages_sent += u64::from(message && op.outcome.is_ok());
        self.tally.count(op.op_kind(), op.is_request(), op.outcome.is_ok());
        if op.signal {
            self.sends_done.push_back(&mut self.ops, number);
        } else {
            self.finish_silent_send(number);
        }
    }

    /// A receive of one message has ended, as [`Self::finish_recv`] ends all kinds.
    #[inline(always)]
    pub(super) fn finish_one(&mut self, number: u32) {
        let op = &self.recvs[number];
        let tagged = op.request.tag.is_some();
        self.tally.count(OpKind::Recv { tagged }, false, op.outcome.is_ok());
        if op.request.signal {
            self.recvs_done.push_back(&mut self.recvs, number);
        } else {
            self.finish_silent_recv(number);
        }
    }

    /// A receive has ended as its `outcome` says, and is out of every list.
    #[inline]
    pub(super) fn finish_recv(&mut self, number: u32) {
        let op = &self.recvs[number];
        // Counted are messages that are received (fi_endpoint(3), FI_RECV). An event is not: it is
        // the peer's operation, counted where it is served. Nor is a probe: each message would
        // count twice, and a look at nothing would be a failure to who waits for the counter. That
        // goes for a probe that drops its message, too, claimed or not: nobody gets it. libfabric's
        // common receive queue (util_srx, of shm and others) has it so; tcp and psm3 count what is
        // dropped after a claim, and only that.
        if !matches!(op.kind, RecvKind::Event | RecvKind::Probe) {
            let tagged = op.request.tag.is_some();
            self.tally.count(OpKind::Recv { tagged }, false, op.outcome.is_ok());
        }
        if let RecvKind::Part { of, .. } = op.kind {
            self.finish_part(number, of);
        } else if op.request.signal {
            self.recvs_done.push_back(&mut self.recvs, number);
        } else {
            self.finish_silent_recv(number);
        }
    }
}
