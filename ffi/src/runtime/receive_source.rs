// SPDX-License-Identifier: MIT OR Apache-2.0
//! A runtime's source of receives: the queue of its shared receive context.
//!
//! In: messages of the engine, new receives of the queue. Out: each receive to the engine that has
//! a message for it. Called under the runtime's lock. Bound: the receives, and the stored messages.
//!
//! A source remembers the receives that were offered to its engine's stored messages, so a new
//! receive costs one search ([`Cursor`]).

use std::sync::Arc;

use ofi_xdp_core::shared_queue::Cursor;
use ofi_xdp_core::{Engine, Memory, RecvRequest, SharedRecvId, UnmatchedMessage};

use super::memory::buffer::Buffer;
use super::receive_queue::{RecvQueue, SliceCompletion};
use super::request::CompletionPolicy;

/// A runtime's source of receives of its shared context. Used under the runtime's lock.
#[derive(Debug)]
pub(crate) struct SharedSource {
    queue: Arc<RecvQueue>,
    policy: CompletionPolicy,
    /// Receives before it match no stored message.
    cursor: Cursor,
}

impl SharedSource {
    pub(crate) const fn new(queue: Arc<RecvQueue>, policy: CompletionPolicy) -> Self {
        Self { queue, policy, cursor: Cursor::START }
    }

    /// Claims the first receive that matches a message; without one, the engine stores the message.
    pub(crate) fn claim_shared_receive(
        &mut self,
        arrival: &UnmatchedMessage,
    ) -> Option<(RecvRequest, Buffer)> {
        self.queue.claim(&mut self.cursor, arrival, self.policy)
    }

    /// Offers new receives to the engine's stored messages; whether any matched.
    pub(crate) fn offer<M: Memory<Buffer = Buffer>>(
        &mut self,
        engine: &mut Engine<'_>,
        memory: &mut M,
    ) -> bool {
        self.queue.is_behind(self.cursor)
            && self.queue.offer(&mut self.cursor, engine, memory, self.policy)
    }

    /// Whether a slot is free for what may have found none: new receives that stored messages
    /// match, unreported releases. A read of completions frees slots, and moves nothing.
    pub(crate) fn is_due(&self, engine: &Engine<'_>) -> bool {
        let offers = || engine.has_stored() && self.queue.is_behind(self.cursor);
        (self.has_unreported() || offers()) && engine.free_receives() > 0
    }

    /// Whether there are releases that the endpoint reports: it has a queue.
    #[inline]
    fn has_unreported(&self) -> bool {
        self.policy != CompletionPolicy::None && self.queue.has_unreported()
    }

    /// Ends a slice of buffer `id` at a read of its completion.
    pub(crate) fn finish(&self, id: SharedRecvId) -> SliceCompletion {
        self.queue.end_slice(id, self.policy, true)
    }

    /// Ends a slice of buffer `id` without a read of its completion.
    pub(crate) fn abandon(&self, id: SharedRecvId) {
        self.queue.end_slice(id, self.policy, false);
    }

    /// Reports unreported releases, if the endpoint has a queue.
    #[inline]
    pub(crate) fn report(&self, engine: &mut Engine<'_>) {
        if self.has_unreported() {
            self.queue.report(engine);
        }
    }
}

#[cfg(test)]
mod tests;
