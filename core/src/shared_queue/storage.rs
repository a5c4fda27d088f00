// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receives of a shared queue, and the memory that they live in.
//!
//! In: the number of receives. Out: memory for as many, which a queue borrows. Caller: the owner of
//! the queue. Bound: the receives; nothing allocates after [`SharedStorageBox::new`].

use crate::api::matching::MultiRecv;
use crate::api::posted::{BinEntry, Posted};
#[cfg(feature = "alloc")]
use crate::collections::filled::filled;
use crate::collections::list::{Link, Links, List};
use crate::collections::slab::{Slot, SlotIndex};
use crate::collections::slots::Slots;
use crate::{Context, PeerAddress, RecvRequest, SharedRecvId, TagMatch};
#[cfg(feature = "alloc")]
use alloc::boxed::Box;

/// A slot of a queue. The slot number is valid inside the queue only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct QueueSlot(u32);

impl SlotIndex for QueueSlot {
    const NONE: Self = Self(u32::MAX);

    #[inline(always)]
    fn from_number(number: u32) -> Self {
        Self(number)
    }

    #[inline(always)]
    fn number(self) -> u32 {
        self.0
    }
}

impl QueueSlot {
    /// The identifier of this slot in `generation`.
    pub(super) const fn id(self, generation: u32) -> SharedRecvId {
        SharedRecvId::new(self.0, generation)
    }
}

/// A posted receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct PostedRecv {
    pub(super) request: RecvRequest,
    pub(super) source: Option<PeerAddress>,
    /// Set for a multi-receive buffer.
    pub(super) multi: Option<MultiRecv>,
    pub(super) serial: u64,
    /// Neighbours in posting order, or among the unreported releases.
    pub(super) links: Links<QueueSlot>,
}

impl PostedRecv {
    /// The request with which [`Engine::post_cancelled`](crate::Engine::post_cancelled) completes
    /// the receive without a message.
    pub(super) const fn without_message(&self) -> RecvRequest {
        RecvRequest { from: None, len: 0, signal: true, ..self.request }
    }
}

impl Default for PostedRecv {
    fn default() -> Self {
        let context = Context(0);
        let request = RecvRequest { from: None, len: 0, context, tag: None, signal: false };
        Self { request, source: None, multi: None, serial: 0, links: Links::default() }
    }
}

impl Link<QueueSlot> for PostedRecv {
    fn link(&mut self) -> &mut Links<QueueSlot> {
        &mut self.links
    }
}

impl Posted<QueueSlot> for PostedRecv {
    type Source = PeerAddress;

    fn wanted(&self) -> (Option<PeerAddress>, Option<TagMatch>) {
        (self.source, self.request.tag)
    }
}

/// The memory that a queue lives in.
#[derive(Debug)]
pub struct SharedStorage<'s> {
    pub(super) slots: Slots<'s, Slot<PostedRecv>>,
    pub(super) bins: &'s mut [List<QueueSlot>],
    pub(super) entries: &'s mut [BinEntry<QueueSlot>],
}

/// The memory that a queue lives in, on the heap.
#[cfg(feature = "alloc")]
#[derive(Debug)]
pub struct SharedStorageBox {
    slots: Slots<'static, Slot<PostedRecv>>,
    bins: Box<[List<QueueSlot>]>,
    entries: Box<[BinEntry<QueueSlot>]>,
}

#[cfg(feature = "alloc")]
impl SharedStorageBox {
    /// Allocates the slices for a queue of `size` receives, at most
    /// [`SharedRecvId::SLOTS_MAX`]; `None` without memory for them.
    #[must_use]
    pub fn new(size: u32) -> Option<Self> {
        let size = size.min(SharedRecvId::SLOTS_MAX) as usize;
        let bins = filled(size.next_power_of_two())?;
        Some(Self { slots: Slots::with_room(size)?, bins, entries: filled(size)? })
    }

    /// Lends the memory to a queue, once: a second queue would find no slots.
    pub fn lend(&mut self) -> SharedStorage<'_> {
        let Self { slots, bins, entries } = self;
        SharedStorage { slots: slots.take(), bins, entries }
    }
}
