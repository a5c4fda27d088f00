// SPDX-License-Identifier: MIT OR Apache-2.0
//! The posted receives of a shared receive context, in posting order (`fi_endpoint(3)`,
//! `fi_srx_context`).
//!
//! In: receives as they are posted, messages of the engines, cancels, ends of slices. Out: each
//! receive, or a slice of a multi-receive buffer, to the engine that claims it. Caller: the owner
//! of the context, which has the lock and the buffers. Bound: the slots, which the caller lends;
//! the search for a receive has the bounds of [`PostedQueue`].
//!
//! A receive and a message meet on two occasions. A message that arrives asks for a receive by
//! [`Memory::claim_shared_receive`], which ends in [`SharedQueue::claim`]. A new receive is offered
//! to the stored messages of each engine by [`SharedQueue::offer`]. A receive has a serial number,
//! and each engine a [`Cursor`], so a new receive costs one search. While a cursor is behind, its
//! engine stores new messages: they would overtake stored ones.
//!
//! The end of the last slice releases a multi-receive buffer, and its completion reports that. If
//! no completion queue reads that completion, the release is *unreported*: the buffer keeps its
//! slot until [`SharedQueue::report`].

mod storage;

use crate::api::matching::MultiRecv;
use crate::api::posted::PostedQueue;
use crate::collections::list::{Links, List};
use crate::collections::slab::{Slab, SlotIndex};
use crate::shared_queue::storage::{PostedRecv, QueueSlot};
use crate::{
    Context, Engine, Memory, PeerAddress, PostError, RecvRequest, SharedRecvId, UnmatchedMessage,
};

pub use crate::api::shared_receive::{ClaimedRecv, Release, SliceEnd};
pub use storage::SharedStorage;
#[cfg(feature = "alloc")]
pub use storage::SharedStorageBox;

/// The position of an engine in the queue: receives before it match none of its stored messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cursor {
    serial: u64,
}

impl Cursor {
    /// A position before all receives.
    pub const START: Self = Self { serial: 0 };

    /// Whether there are receives behind the position; `serial`: [`SharedQueue::serial`].
    #[must_use]
    #[inline]
    pub const fn is_behind(self, serial: u64) -> bool {
        self.serial != serial
    }
}

/// A receive that is neither in the queue nor released: the owner completes it.
#[derive(Debug)]
#[must_use = "the receive keeps its slot until it is released or restored"]
pub struct Cancelled {
    slot: QueueSlot,
    request: RecvRequest,
    multi: bool,
}

impl Cancelled {
    /// The request for [`Engine::post_cancelled`].
    #[must_use]
    pub const fn request(&self) -> RecvRequest {
        self.request
    }

    /// Whether its buffer is a multi-receive buffer.
    #[must_use]
    pub const fn is_multi(&self) -> bool {
        self.multi
    }
}

/// See the module.
#[derive(Debug)]
pub struct SharedQueue<'s> {
    slots: Slab<'s, PostedRecv, QueueSlot>,
    posted: PostedQueue<'s, QueueSlot>,
    /// Multi-receive buffers with an unreported release.
    unreported: List<QueueSlot>,
    /// The serial number of the next receive.
    serial: u64,
}

impl<'s> SharedQueue<'s> {
    /// An empty queue for as many receives as there are slots. The random `secret` keeps peers from
    /// choosing tags that collide.
    #[must_use]
    pub fn new(storage: SharedStorage<'s>, secret: [u64; 2]) -> Self {
        let posted = PostedQueue::new((storage.bins, storage.entries), secret);
        let slots = Slab::new(storage.slots);
        Self { slots, posted, unreported: List::default(), serial: 1 }
    }
}

impl SharedQueue<'_> {
    /// Adds a receive for messages from `source` (`None`: any); `request.from` has no meaning. With
    /// `least`, the buffer is a multi-receive buffer that closes when fewer bytes are free.
    ///
    /// # Errors
    /// [`PostError::Again`] when all slots are in use.
    pub fn post(
        &mut self,
        request: RecvRequest,
        source: Option<PeerAddress>,
        least: Option<u64>,
    ) -> Result<SharedRecvId, PostError> {
        let request = RecvRequest { from: None, ..request };
        let (multi, serial) = (least.map(MultiRecv::new), self.serial);
        let posted = PostedRecv { request, source, multi, serial, links: Links::default() };
        let (slot, generation) = self.slots.alloc_entry(0, posted).ok_or(PostError::Again)?;
        let used = self.slots.used();
        self.posted.push(&mut self.slots, (slot, request.tag.is_some()), used);
        self.serial += 1;
        Ok(slot.id(generation))
    }

    /// The serial number of the next receive: it changes with each post.
    #[must_use]
    pub const fn serial(&self) -> u64 {
        self.serial
    }

    /// The number of free slots.
    #[must_use]
    pub fn room(&self) -> u32 {
        self.slots.free_in(0)
    }

    /// Claims the first receive that matches a message. Without one, the engine stores the message.
    /// Bound: that of a search.
    pub fn claim(
        &mut self,
        cursor: &mut Cursor,
        arrival: &UnmatchedMessage,
    ) -> Option<ClaimedRecv> {
        if !arrival.room {
            // There is no search: any receive may match it later.
            *cursor = Cursor::START;
            return None;
        }
        if arrival.overtakes && cursor.is_behind(self.serial) {
            return None;
        }
        let slot = self.posted.find(&mut self.slots, arrival.source, arrival.tag);
        if slot.is_none() {
            cursor.serial = self.serial;
            return None;
        }
        Some(self.take(slot, arrival.len))
    }

    /// Offers the receives behind `cursor` to the stored messages of `engine`; whether any matched.
    /// `buffer` gives the buffer of a claim, and resolves [`RecvRequest::signal`]. Bound: the
    /// receives, and the stored messages.
    pub fn offer<M: Memory>(
        &mut self,
        cursor: &mut Cursor,
        engine: &mut Engine<'_>,
        memory: &mut M,
        mut buffer: impl FnMut(ClaimedRecv) -> (RecvRequest, M::Buffer),
    ) -> bool {
        let mut matched = false;
        for tagged in [false, true] {
            let mut slot = self.first_since(tagged, cursor.serial);
            // bound: the receives and the stored messages
            while slot.is_some() {
                let next = List::next(&mut self.slots, slot);
                let Some((wanted, len)) = find_stored(engine, &self.slots[slot]) else {
                    slot = next;
                    continue;
                };
                if engine.free_receives() == 0 {
                    // The next offer, after completions were read, starts again.
                    *cursor = Cursor::START;
                    return matched;
                }
                let claim = self.take(slot, len);
                let (request, buffer) = buffer(claim);
                let request = RecvRequest { from: wanted.from, ..request };
                // Both a matching message and a free slot were checked above.
                let posted = engine.post_shared(request, buffer, memory);
                debug_assert!(posted.is_ok(), "{posted:?}");
                matched = true;
                let stays = self.resolve(claim.id).is_some_and(|slot| self.is_posted(slot));
                slot = if stays { slot } else { next };
            }
        }
        cursor.serial = self.serial;
        matched
    }

    /// Takes the oldest receive with this context out of the queue, for the owner to complete. A
    /// multi-receive buffer with open slices is closed instead: its last slice releases it. Bound:
    /// the receives.
    pub fn cancel(&mut self, context: Context) -> Option<Cancelled> {
        let slot = self.oldest_with(context)?;
        let posted = &mut self.slots[slot];
        let (request, multi) = (posted.without_message(), posted.multi.is_some());
        let open = match &mut posted.multi {
            Some(multi) if multi.open() > 0 => !multi.close(),
            _ => false,
        };
        self.posted.remove(&mut self.slots, slot, request.tag.is_some());
        (!open).then_some(Cancelled { slot, request, multi })
    }

    /// Frees the slot of a cancelled receive: its completion is written.
    pub fn release(&mut self, cancelled: Cancelled) {
        self.slots.release(cancelled.slot);
    }

    /// Puts a cancelled receive back in its position: it could not be completed. Bound: the
    /// receives that were posted later.
    pub fn restore(&mut self, cancelled: Cancelled) {
        let Cancelled { slot, request, .. } = cancelled;
        let tagged = request.tag.is_some();
        let before = self.first_since(tagged, self.slots[slot].serial);
        self.posted.restore(&mut self.slots, (slot, tagged), before);
    }

    /// Ends a slice of a multi-receive buffer; `None` if `id` names no buffer with an open slice.
    /// With `reports`, a completion of this end can report the release of the buffer.
    pub fn end_slice(&mut self, id: SharedRecvId, reports: bool) -> Option<SliceEnd> {
        let slot = self.resolve(id)?;
        let posted = &mut self.slots[slot];
        let signal = posted.request.signal;
        let multi = posted.multi.as_mut().filter(|multi| multi.open() > 0)?;
        let release = match (multi.end_slice(), reports) {
            (false, _) => Release::None,
            (true, true) => Release::Reported,
            (true, false) => Release::Unreported,
        };
        match release {
            Release::None => {}
            Release::Reported => self.slots.release(slot),
            Release::Unreported => self.unreported.push_back(&mut self.slots, slot),
        }
        Some(SliceEnd { release, signal })
    }

    /// Whether there are unreported releases.
    #[must_use]
    pub fn has_unreported(&self) -> bool {
        !self.unreported.is_empty()
    }

    /// Reports unreported releases by completions of `engine`, until it has no slot for one. Bound:
    /// the slots.
    pub fn report(&mut self, engine: &mut Engine<'_>) {
        // bound: the slots
        while self.has_unreported() {
            let slot = self.unreported.head();
            let request = self.slots[slot].without_message();
            if engine.post_cancelled(request, true).is_err() {
                // The next call, after completions were read, continues.
                return;
            }
            self.unreported.remove(&mut self.slots, slot);
            self.slots.release(slot);
        }
    }

    /// Takes the receive in `slot`, or a slice of it for a message of `len` bytes.
    fn take(&mut self, slot: QueueSlot, len: u64) -> ClaimedRecv {
        let (posted, generation) = self.slots.entry(slot);
        let (id, request) = (slot.id(generation), posted.request);
        let tagged = request.tag.is_some();
        let Some(multi) = &mut posted.multi else {
            self.posted.remove(&mut self.slots, slot, tagged);
            self.slots.release(slot);
            return ClaimedRecv { request, id, slice: None };
        };
        let (offset, len) = multi.next_slice(request.len, len);
        multi.open_slice(request.len, len);
        if multi.is_closed() {
            self.posted.remove(&mut self.slots, slot, tagged);
        }
        ClaimedRecv { request: RecvRequest { len, ..request }, id, slice: Some(offset) }
    }

    /// The slot that `id` names, unless it was freed since.
    fn resolve(&self, id: SharedRecvId) -> Option<QueueSlot> {
        let slot = QueueSlot::from_number(id.slot());
        let named = self.slots.is_used(slot) && slot.id(self.slots.generation(slot)) == id;
        named.then_some(slot)
    }

    /// Whether the receive in a used slot takes messages, given that it was in the queue before.
    fn is_posted(&self, slot: QueueSlot) -> bool {
        self.slots[slot].multi.is_none_or(|multi| !multi.is_closed())
    }

    /// The first receive of a queue with a serial number from `serial` on. Bound: these receives.
    fn first_since(&mut self, tagged: bool, serial: u64) -> QueueSlot {
        let mut slot = self.posted.list(tagged).tail();
        let mut first = QueueSlot::NONE;
        // bound: the receives
        while slot.is_some() && self.slots[slot].serial >= serial {
            first = slot;
            slot = List::prev(&mut self.slots, slot);
        }
        first
    }

    /// The receive with this context that was posted first.
    fn oldest_with(&mut self, context: Context) -> Option<QueueSlot> {
        let mut found = [QueueSlot::NONE; 2];
        for (found, tagged) in found.iter_mut().zip([false, true]) {
            let mut slot = self.posted.first(tagged);
            // bound: the receives
            while slot.is_some() && self.slots[slot].request.context != context {
                slot = List::next(&mut self.slots, slot);
            }
            *found = slot;
        }
        let found = found.into_iter().filter(|slot| slot.is_some());
        found.min_by_key(|&slot| self.slots[slot].serial)
    }
}

/// The stored message that a receive matches: the request that finds it, and its length.
fn find_stored(engine: &mut Engine<'_>, posted: &PostedRecv) -> Option<(RecvRequest, u64)> {
    let from = match posted.source {
        None => None,
        // A peer without a record in the engine has sent no message.
        Some(source) => Some(engine.find(&source)?),
    };
    let request = RecvRequest { from, ..posted.request };
    Some((request, engine.stored_len(&request)?))
}
