// SPDX-License-Identifier: MIT OR Apache-2.0
//! A runtime's source of receives: the queue of its shared receive context.
//!
//! In: messages of the engine, new receives of the queue. Out: each receive to the engine that has
//! a message for it. Called under the runtime's lock. Bound: the receives, and the stored messages.
//!
//! A source remembers the serial number below which all receives were offered to its engine's
//! stored messages, so a new receive costs one search. While a source is behind, its engine stores
//! new messages: they would overtake stored ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ofi_xdp_core::{Engine, Memory, RecvRequest, UnmatchedMessage};

use super::memory::buffer::Buffer;
use super::receive_queue::{Claimed, Entry, RecvQueue, SliceEnd};
use super::request::{CompletionPolicy, Recv};

/// A runtime's source of receives of its shared context. Used under the runtime's lock.
#[derive(Debug)]
pub(crate) struct SharedSource {
    queue: Arc<RecvQueue>,
    policy: CompletionPolicy,
    /// Receives below this serial number match no stored message.
    seen: u64,
}

impl SharedSource {
    pub(crate) const fn new(queue: Arc<RecvQueue>, policy: CompletionPolicy) -> Self {
        Self { queue, policy, seen: 0 }
    }

    /// Claims the first receive that matches a message; without one, the engine stores the message.
    pub(crate) fn claim_shared_receive(
        &mut self,
        arrival: &UnmatchedMessage,
    ) -> Option<(RecvRequest, Buffer)> {
        let mut state = self.queue.lock();
        if !arrival.room {
            // There is no search: any receive may match it later.
            self.seen = 0;
            return None;
        }
        let serial = self.queue.serial();
        if arrival.overtakes && self.seen != serial {
            return None;
        }
        let class = usize::from(arrival.tag.is_some());
        let count = state.order[class].len();
        let matching = |&at: &usize| state.entry(class, at).is_some_and(|it| it.takes(arrival));
        let Some(at) = (0..count).find(matching) else {
            self.seen = serial;
            return None;
        };
        let Claimed { request, buffer } = state.claim(class, at, arrival.len, self.policy)?;
        Some((request, buffer))
    }

    /// Offers new receives to the engine's stored messages; whether any matched.
    pub(crate) fn offer<M: Memory<Buffer = Buffer>>(
        &mut self,
        engine: &mut Engine<'_>,
        memory: &mut M,
    ) -> bool {
        if self.seen == self.queue.serial() {
            return false;
        }
        let mut state = self.queue.lock();
        let serial = self.queue.serial();
        let mut matched = false;
        for class in 0..2 {
            let mut at = state.first_since(class, self.seen);
            // bound: the receives and the stored messages
            while let Some(entry) = state.entry(class, at) {
                let Some((request, len)) = find_stored(engine, entry) else {
                    at += 1;
                    continue;
                };
                if engine.free_receives() == 0 {
                    // The next offer, after completions were read, starts again.
                    self.seen = 0;
                    return matched;
                }
                let Some(claimed) = state.claim(class, at, len, self.policy) else { break };
                let request = RecvRequest { from: request.from, ..claimed.request };
                // Both a matching message and a free slot were checked above.
                let posted = engine.post_shared(request, claimed.buffer, memory);
                debug_assert!(posted.is_ok(), "{posted:?}");
                matched = true;
            }
        }
        self.seen = serial;
        matched
    }

    /// Ends a slice of the buffer in `slot` at a read of its completion.
    pub(crate) fn finish(&self, slot: u32) -> SliceEnd {
        self.queue.finish(slot, self.policy, true)
    }

    /// Ends a slice of the buffer in `slot` without a read of its completion.
    pub(crate) fn abandon(&self, slot: u32) {
        self.queue.finish(slot, self.policy, false);
    }

    /// Reports unreported releases, if the endpoint has a queue.
    #[inline]
    pub(crate) fn report(&self, engine: &mut Engine<'_>) {
        if self.policy != CompletionPolicy::None && self.queue.has_unreported.load(Ordering::SeqCst)
        {
            self.report_unreported(engine);
        }
    }

    #[cold]
    fn report_unreported(&self, engine: &mut Engine<'_>) {
        let mut state = self.queue.lock();
        // bound: the size
        while let Some(&slot) = state.unreported.front() {
            if let Some(Some(entry)) = state.slots.get(slot as usize) {
                let Recv { tag, context, .. } = entry.recv;
                let request = RecvRequest { from: None, len: 0, context, tag, signal: true };
                if engine.post_cancelled(request, true).is_err() {
                    // The next call, after completions were read, continues.
                    return;
                }
            }
            state.unreported.pop_front();
            state.release(slot);
        }
        self.queue.has_unreported.store(false, Ordering::SeqCst);
    }
}

/// The stored message that a receive matches: the request that finds it, and its length.
fn find_stored(engine: &mut Engine<'_>, entry: &Entry) -> Option<(RecvRequest, u64)> {
    let from = match entry.source {
        None => None,
        // A peer without a record in the engine has sent no message.
        Some(source) => Some(engine.find(&source)?),
    };
    let Recv { tag, context, .. } = entry.recv;
    let request = RecvRequest { from, len: 0, context, tag, signal: false };
    Some((request, engine.stored_len(&request)?))
}

#[cfg(test)]
mod tests;
