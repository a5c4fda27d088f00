// SPDX-License-Identifier: MIT OR Apache-2.0
//! G. What has ended. A finished operation keeps its slot until its completion is polled:
//! completions cannot overflow, and who does not poll runs out of slots to post with.

use super::Engine;
use crate::{Completion, OpError, OpKind};

impl Engine<'_> {
    /// The next finished send, in the order in which they finished.
    pub fn poll_send_completion(&mut self) -> Option<Completion> {
        let number = self.sends_done.pop_front(&mut self.sends)?;
        let op = &self.sends[number];
        let completion = Completion {
            context: op.context,
            kind: OpKind::Send { tagged: op.envelope.tag.is_some() },
            peer: op.peer,
            len: u64::from(op.envelope.total),
            overflow: 0,
            tag: op.envelope.tag.unwrap_or(0),
            data: op.envelope.data,
            outcome: op.outcome,
        };
        self.sends.release(number);
        Some(completion)
    }

    /// The next finished receive, in the order in which they finished.
    pub fn poll_recv_completion(&mut self) -> Option<Completion> {
        let number = self.recvs_done.pop_front(&mut self.recvs)?;
        let op = &self.recvs[number];
        let total = u64::from(op.envelope.total);
        let placed = match op.outcome {
            Ok(()) | Err(OpError::Truncated) => total.min(op.request.len),
            Err(_) => 0,
        };
        let completion = Completion {
            context: op.request.context,
            kind: OpKind::Recv { tagged: op.request.tag.is_some() },
            peer: op.peer,
            len: placed,
            overflow: if op.outcome == Err(OpError::Truncated) { total - placed } else { 0 },
            tag: op.envelope.tag.unwrap_or(0),
            data: op.envelope.data,
            outcome: op.outcome,
        };
        self.recvs.release(number);
        Some(completion)
    }

    /// A send has ended as its `outcome` says, and is out of every list.
    pub(super) fn finish_send(&mut self, number: u32) {
        let op = &self.sends[number];
        self.stats.messages_sent += u64::from(op.outcome.is_ok());
        if op.signal || op.outcome.is_err() {
            self.sends_done.push_back(&mut self.sends, number);
        } else {
            self.sends.release(number);
        }
    }

    /// A receive has ended as its `outcome` says, and is out of every list.
    pub(super) fn finish_recv(&mut self, number: u32) {
        let op = &self.recvs[number];
        if op.request.signal || op.outcome.is_err() {
            self.recvs_done.push_back(&mut self.recvs, number);
        } else {
            self.recvs.release(number);
        }
    }
}
