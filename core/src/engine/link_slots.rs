// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slots that each connected endpoint has of the pools that all of an engine share: operations,
//! receives, slices of multi-receive buffers, events. An endpoint that takes no completion, or has
//! a peer that accepts nothing, leaves the others their slots.
//!
//! In: slots as they are taken and given back, by peer: each endpoint has one of its own. Out:
//! whether an endpoint may take another one. Callers: those who take slots, and `Completions`,
//! which frees them. Other engines have no entries, and no shares. Bound: all operations are O(1).

use crate::api::link_share::{LinkShare, LinkShares};
use crate::collections::slab::{Slab, SlotIndex};
use crate::peer::operation::{OpPool, POSTED, RecvKind, RecvOp, RecvPool};
use crate::peer::slots::{OpSlot, RecvSlot};
use crate::{PeerId, PostError};

/// The slots of one endpoint. The entry has the number of its peer's slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkEntry {
    /// The peer. What is left of an earlier one does not count.
    peer: PeerId,
    sends: u32,
    /// By class of [`RecvPool`].
    recvs: [u32; 3],
    /// The number of the round in which its slices were exhausted.
    exhausted: u32,
}

impl Default for LinkEntry {
    fn default() -> Self {
        Self { peer: PeerId::NONE, sends: 0, recvs: [0; 3], exhausted: 0 }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct LinkSlots<'s> {
    entries: &'s mut [LinkEntry],
    sends: LinkShare,
    /// By class of [`RecvPool`].
    recvs: [LinkShare; 3],
    /// The number of the present round: it begins when slices of exhausted endpoints are free.
    round: u32,
    /// The round in which slices were exhausted for a receive that names no peer.
    exhausted_for_all: u32,
    /// A slice was freed that an exhausted endpoint can use.
    slice_freed: bool,
}

impl Default for LinkSlots<'_> {
    fn default() -> Self {
        Self::new(&mut [], &LinkShares::NONE)
    }
}

impl<'s> LinkSlots<'s> {
    /// No endpoints.
    pub(crate) const fn new(entries: &'s mut [LinkEntry], shares: &LinkShares) -> Self {
        let LinkShares { sends, recvs, slices, events } = *shares;
        let recvs = [recvs, slices, events];
        Self { entries, sends, recvs, round: 1, exhausted_for_all: 0, slice_freed: false }
    }

    /// Adds an endpoint, without slots.
    pub(crate) fn add(&mut self, peer: PeerId) {
        if let Some(entry) = self.entries.get_mut(peer.slot() as usize) {
            *entry = LinkEntry { peer, ..LinkEntry::default() };
        }
    }

    #[inline(always)]
    fn entry(&self, peer: PeerId) -> Option<&LinkEntry> {
        self.entries.get(peer.slot() as usize).filter(|entry| entry.peer == peer)
    }

    #[inline(always)]
    fn entry_mut(&mut self, peer: PeerId) -> Option<&mut LinkEntry> {
        self.entries.get_mut(peer.slot() as usize).filter(|entry| entry.peer == peer)
    }

    /// How many more operations may be posted with `peer`.
    pub(crate) fn sends_left(&self, ops: &OpPool<'_>, peer: PeerId) -> u32 {
        let free = ops.free_in(POSTED);
        let used = |entry: &LinkEntry| self.sends.left(entry.sends, free, capacity(ops, POSTED));
        self.entry(peer).map_or(free, used)
    }

    /// Whether another operation may be posted with `peer`.
    #[inline(always)]
    pub(crate) fn may_post(&self, ops: &OpPool<'_>, peer: PeerId) -> bool {
        if self.entries.is_empty() { ops.has_free(POSTED) } else { self.sends_left(ops, peer) > 0 }
    }

    /// An operation is posted with `peer`.
    #[inline(always)]
    pub(crate) fn send_taken(&mut self, peer: PeerId) {
        if let Some(entry) = self.entry_mut(peer) {
            entry.sends += 1;
        }
    }

    /// How many more slots of a class may be taken for `peer`.
    pub(crate) fn recvs_left(&self, recvs: &RecvPool<'_>, class: usize, peer: PeerId) -> u32 {
        let free = recvs.free_in(class);
        let (Some(entry), Some(share)) = (self.entry(peer), self.recvs.get(class)) else {
            return free;
        };
        let used = entry.recvs.get(class).copied().unwrap_or(0);
        share.left(used, free, capacity(recvs, class))
    }

    /// Whether `peer` may have so many more events of packets out of order. An event that waits for
    /// an earlier packet takes none of the slots that endpoints have in common. Otherwise two
    /// endpoints could wait for each other's.
    pub(crate) fn may_keep_back(&self, peer: PeerId, more: u32) -> bool {
        let (Some(entry), [.., share]) = (self.entry(peer), self.recvs) else { return true };
        let [.., used] = entry.recvs;
        used.saturating_add(more) <= share.kept
    }

    /// Takes a slot of a class for a receive, a slice or an event, and returns it with its
    /// generation.
    ///
    /// # Errors
    /// [`PostError::Again`] when none is free, or the endpoint has its share.
    #[inline(always)]
    pub(crate) fn take_recv(
        &mut self,
        recvs: &mut RecvPool<'_>,
        class: usize,
        op: RecvOp,
    ) -> Result<(RecvSlot, u32), PostError> {
        if self.entries.is_empty() {
            return recvs.alloc_entry(class, op).ok_or(PostError::Again);
        }
        self.take_share(recvs, class, op)
    }

    #[inline(never)]
    fn take_share(
        &mut self,
        recvs: &mut RecvPool<'_>,
        class: usize,
        op: RecvOp,
    ) -> Result<(RecvSlot, u32), PostError> {
        let peer = owner(&op);
        if self.recvs_left(recvs, class, peer) == 0 {
            return Err(PostError::Again);
        }
        let taken = recvs.alloc_entry(class, op).ok_or(PostError::Again)?;
        if let Some(count) = self.entry_mut(peer).and_then(|entry| entry.recvs.get_mut(class)) {
            *count += 1;
        }
        Ok(taken)
    }

    /// An operation with `peer` is freed.
    #[inline(always)]
    pub(crate) fn send_given_back(&mut self, peer: PeerId) {
        if let Some(entry) = self.entry_mut(peer) {
            entry.sends = entry.sends.saturating_sub(1);
        }
    }

    /// A posted receive of one message is freed; it named the peer `from`.
    #[inline(always)]
    pub(crate) fn usual_given_back(&mut self, from: Option<PeerId>) {
        if let Some(entry) = from.and_then(|peer| self.entry_mut(peer)) {
            let [usual, ..] = &mut entry.recvs;
            *usual = usual.saturating_sub(1);
        }
    }

    /// A receive, a slice or an event is about to be freed.
    #[inline(always)]
    pub(crate) fn recv_given_back(&mut self, recvs: &RecvPool<'_>, slot: RecvSlot) {
        let is_slice = matches!(recvs[slot].kind, RecvKind::Slice { .. });
        if is_slice || !self.entries.is_empty() {
            self.share_given_back(recvs, slot, is_slice);
        }
    }

    #[inline(never)]
    fn share_given_back(&mut self, recvs: &RecvPool<'_>, slot: RecvSlot, is_slice: bool) {
        let (class, peer) = (recvs.class_of(slot), owner(&recvs[slot]));
        if is_slice {
            let was_last = recvs.free_in(class) == 0;
            self.slice_freed |= was_last || self.is_exhausted(peer);
        }
        if let Some(count) = self.entry_mut(peer).and_then(|it| it.recvs.get_mut(class)) {
            *count = count.saturating_sub(1);
        }
    }

    /// Whether messages of `peer` wait for a slice, where slices are exhausted for any.
    #[inline]
    pub(crate) fn is_exhausted(&self, peer: PeerId) -> bool {
        self.was_exhausted(peer, self.round)
    }

    fn was_exhausted(&self, peer: PeerId, round: u32) -> bool {
        self.exhausted_for_all == round
            || self.entry(peer).is_some_and(|entry| entry.exhausted == round)
    }

    /// No slice is left for a receive that names `peer`, or none.
    pub(crate) fn exhaust(&mut self, peer: PeerId) {
        let round = self.round;
        match self.entry_mut(peer) {
            Some(entry) => entry.exhausted = round,
            None => self.exhausted_for_all = round,
        }
    }

    /// Whether the next call of [`Self::begin_round`] begins one.
    pub(crate) const fn round_begins(&self) -> bool {
        self.slice_freed
    }

    /// Begins a round if exhausted endpoints may have slices again. Returns whether it has begun.
    pub(crate) fn begin_round(&mut self) -> bool {
        let begins = core::mem::take(&mut self.slice_freed);
        self.round = self.round.wrapping_add(u32::from(begins)).max(1);
        begins
    }

    /// Whether messages of `peer` waited for slices in the last round.
    pub(crate) fn resumes(&self, peer: PeerId) -> bool {
        self.was_exhausted(peer, self.round.wrapping_sub(1))
    }

    /// Whether the counts of operations add up to the slots. For tests.
    pub(crate) fn sends_add_up(&self, ops: &OpPool<'_>) -> bool {
        let is_counted =
            |&slot: &OpSlot| ops.class_of(slot) == POSTED && self.entry(ops[slot].peer).is_some();
        let counts = self.entries.iter().map(|entry| entry.sends);
        ops.used_slots().filter(is_counted).count() == counts.sum::<u32>() as usize
    }

    /// Whether the counts of receives, slices and events add up to the slots. For tests.
    pub(crate) fn recvs_add_up(&self, recvs: &RecvPool<'_>) -> bool {
        let is_counted = |&slot: &RecvSlot| self.entry(owner(&recvs[slot])).is_some();
        let counts = self.entries.iter().flat_map(|entry| entry.recvs);
        recvs.used_slots().filter(is_counted).count() == counts.sum::<u32>() as usize
    }
}

/// The peer of the endpoint that has a slot: it gave the event, or the receive names it.
fn owner(op: &RecvOp) -> PeerId {
    match op.kind {
        RecvKind::Event(_) => op.peer,
        _ => op.request.from.unwrap_or(PeerId::NONE),
    }
}

/// The slots of a class.
fn capacity<T, I: SlotIndex, const N: usize>(slab: &Slab<'_, T, I, N>, class: usize) -> u32 {
    slab.free_in(class) + slab.used_in(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::slots::Slots;
    use crate::peer::operation::EVENTS;

    #[test]
    fn events_that_are_kept_back_leave_the_slots_that_endpoints_have_in_common() {
        let events = LinkShare { kept: 8, most: 20 };
        let mut entries = [LinkEntry::default()];
        let mut links = LinkSlots::new(&mut entries, &LinkShares { events, ..LinkShares::NONE });
        let storage = Slots::with_room(32).unwrap();
        let mut recvs = RecvPool::with_classes(storage, [0, 0, 32]).unwrap();
        let peer = PeerId::new(0, 1);
        links.add(peer);
        assert!(links.may_keep_back(peer, 8) && !links.may_keep_back(peer, 9));
        let event = RecvOp { kind: RecvKind::Event(None), peer, ..RecvOp::default() };
        for _ in 0..4 {
            links.take_recv(&mut recvs, EVENTS, event.clone()).unwrap();
        }
        assert!(links.may_keep_back(peer, 4) && !links.may_keep_back(peer, 5));
        // 16 of the 32 slots are those in common.
        assert_eq!(links.recvs_left(&recvs, EVENTS, peer), 12);
    }

    #[test]
    fn what_is_left_of_an_earlier_peer_of_the_slot_does_not_count() {
        let mut entries = [LinkEntry::default()];
        let mut links = LinkSlots::new(&mut entries, &LinkShares::NONE);
        let (before, after) = (PeerId::new(0, 1), PeerId::new(0, 2));
        links.add(before);
        links.send_taken(before);
        links.add(after);
        links.send_taken(after);
        links.send_given_back(before);
        assert_eq!(links.entry(after).map(|entry| entry.sends), Some(1));
        assert!(links.entry(before).is_none());
    }
}
