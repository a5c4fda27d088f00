// SPDX-License-Identifier: MIT OR Apache-2.0
//! Storage for messages that no posted receive has matched (`docs/PROTOCOL.md` §6.3).
//!
//! There is a class of slots for each size of storage. A small message takes a small slot. A
//! message longer than the largest class is not stored: the sender gets "receiver not ready". The
//! bytes are behind [`Memory`](crate::Memory); this file has the bookkeeping. All operations are
//! O(1).
//!
//! A message is an *orphan* when its connection has ended and the application does not name its
//! sender. Orphans leave when the storage is full, the oldest first, and do not count as occupancy.
//!
//! A message out of order is the *next* one when all earlier ones of its sender are accepted. It
//! waits in a list of such messages, at most one of each sender. When messages out of order are
//! discarded, they keep their slots until the matcher releases them in bounded steps.

#![allow(clippy::indexing_slicing, reason = "arrays have an element for each class")]

use crate::UnexpectedId;
use crate::api::config::{UNEXPECTED_CLASS_LEN, UNEXPECTED_CLASSES};
use crate::api::hosts::{Host, HostSlots};
use crate::collections::list::{Link, Linked, Links, List};
use crate::collections::slab::{Slab, Slot, SlotIndex};
use crate::collections::slots::Slots;
use crate::peer::operation::{StoredState, Unexpected};
use crate::peer::slots::StoredSlot;

/// Classes in which a message may be stored.
const CLASSES_TRIED: usize = 2;

/// Storage for messages that no posted receive has matched, by size.
#[derive(Debug)]
pub(crate) struct UnexpectedPool<'s> {
    slots: Slab<'s, Unexpected, StoredSlot, UNEXPECTED_CLASSES>,
    /// How many messages have left: a count from 1 to 255 that wraps to 1. 0 stands for a
    /// connection without refusals.
    releases: u8,
    /// The orphans of each class, the oldest first.
    orphans: [List<StoredSlot>; UNEXPECTED_CLASSES],
    /// How many these are.
    orphaned: [u32; UNEXPECTED_CLASSES],
    /// Messages out of order that are the next ones of their senders.
    next: List<StoredSlot>,
    /// Messages out of order that nobody waits for.
    discarded: List<StoredSlot>,
    /// The last batch of messages out of order.
    batch: u32,
    /// Slots of each class of peers that have the share of their host, without orphans.
    hosts: [HostSlots; UNEXPECTED_CLASSES],
}

/// The links of orphans, and of next messages: none is both.
struct AsideLinks<'a, 's>(&'a mut Slab<'s, Unexpected, StoredSlot, UNEXPECTED_CLASSES>);

impl Linked<StoredSlot> for AsideLinks<'_, '_> {
    fn links(&mut self, slot: StoredSlot) -> &mut Links<StoredSlot> {
        &mut self.0[slot].aside
    }
}

impl<'s> UnexpectedPool<'s> {
    /// Divides `slots` among the classes as `config` says; `None` if their number differs.
    pub(crate) fn new(
        slots: Slots<'s, Slot<Unexpected>>,
        counts: [u32; UNEXPECTED_CLASSES],
    ) -> Option<Self> {
        Some(Self {
            slots: Slab::with_classes(slots, counts)?,
            releases: 1,
            orphans: [List::default(); UNEXPECTED_CLASSES],
            orphaned: [0; UNEXPECTED_CLASSES],
            next: List::default(),
            discarded: List::default(),
            batch: 0,
            hosts: [const { HostSlots::EMPTY }; UNEXPECTED_CLASSES],
        })
    }

    /// Takes a slot that holds `len` bytes, from the smallest class that fits or from the next
    /// larger one. So small messages do not take the room of long ones. There is none in a
    /// class of which a host that has a share has it already. Orphans count as free there.
    #[inline(always)]
    pub(crate) fn alloc(&mut self, len: u64, message: Unexpected) -> Option<StoredSlot> {
        let class = self.class_with_room(len, message.host)?;
        let slot = self.slots.alloc_in(class, message)?;
        if let Some(host) = message.host {
            self.hosts[class].taken(host, 1);
        }
        Some(slot)
    }

    /// The class that has a slot for a message of `len` bytes.
    fn class_with_room(&mut self, len: u64, host: Option<Host>) -> Option<usize> {
        classes_for(len).find(|&class| {
            let free = self.slots.free_in(class);
            let is_shared = |host| self.hosts[class].has_share(host, free + self.orphaned[class]);
            free > 0 && host.is_none_or(is_shared)
        })
    }

    /// Whether the counts of hosts are those of the slots. For tests.
    pub(crate) fn hosts_add_up(&self) -> bool {
        let mut counts = [0; UNEXPECTED_CLASSES];
        let is_counted =
            |&slot: &StoredSlot| self.slots[slot].host.is_some() && !self.slots[slot].orphaned;
        for slot in self.slots.used_slots().filter(is_counted) {
            counts[self.slots.class_of(slot)] += 1;
        }
        self.hosts.iter().zip(counts).all(|(hosts, count)| hosts.adds_up_to(count))
    }

    /// Makes a message an orphan.
    pub(crate) fn orphan(&mut self, slot: StoredSlot) {
        if !core::mem::replace(&mut self.slots[slot].orphaned, true) {
            let class = self.slots.class_of(slot);
            self.orphans[class].push_back(&mut AsideLinks(&mut self.slots), slot);
            self.orphaned[class] += 1;
            if let Some(host) = self.slots[slot].host {
                self.hosts[class].given_back(host, 1);
            }
        }
    }

    /// A message is no orphan any more, if it was one.
    pub(crate) fn adopt(&mut self, slot: StoredSlot) {
        if core::mem::take(&mut self.slots[slot].orphaned) {
            let class = self.slots.class_of(slot);
            self.orphans[class].remove(&mut AsideLinks(&mut self.slots), slot);
            self.orphaned[class] -= 1;
            if let Some(host) = self.slots[slot].host {
                self.hosts[class].taken(host, 1);
            }
        }
    }

    /// The oldest orphan that makes room for a message of `len` bytes. There is none in a class of
    /// which a host that has a share has it already.
    pub(crate) fn oldest_orphan(&self, len: u64, host: Option<Host>) -> Option<StoredSlot> {
        classes_for(len)
            .filter(|&class| {
                let free = self.slots.free_in(class) + self.orphaned[class];
                host.is_none_or(|host| self.hosts[class].has_share(host, free))
            })
            .map(|class| self.orphans[class].head())
            .find(|slot| slot.is_some())
    }

    /// A message out of order is the next one from now on.
    pub(crate) fn mark_next(&mut self, slot: StoredSlot) {
        if !core::mem::replace(&mut self.slots[slot].is_next, true) {
            self.next.push_back(&mut AsideLinks(&mut self.slots), slot);
        }
    }

    /// A message leaves the list of next messages, if it is there.
    pub(crate) fn unmark_next(&mut self, slot: StoredSlot) {
        if core::mem::take(&mut self.slots[slot].is_next) {
            self.next.remove(&mut AsideLinks(&mut self.slots), slot);
        }
    }

    /// The next messages, in the order in which they were marked.
    #[inline]
    pub(crate) const fn next_messages(&self) -> List<StoredSlot> {
        self.next
    }

    /// The batch of the messages out of order in `list`, or a new one.
    ///
    /// Batches repeat after 2^32. A discarded message leaves long before that.
    pub(crate) fn batch_of(&mut self, list: List<StoredSlot>) -> u32 {
        if list.head().is_some() {
            return self.slots[list.head()].batch;
        }
        self.batch = self.batch.wrapping_add(1).max(1);
        self.batch
    }

    /// Nobody waits for these messages any more. They leave one by one.
    pub(crate) fn discard(&mut self, mut list: List<StoredSlot>) {
        if list.head().is_some() {
            list.move_run(&mut self.slots, (list.head(), list.tail()), &mut self.discarded);
        }
    }

    /// Takes the next discarded message from its list.
    pub(crate) fn pop_discarded(&mut self) -> Option<StoredSlot> {
        self.discarded.pop_front(&mut self.slots)
    }

    /// The discarded messages.
    #[inline]
    pub(crate) const fn discarded(&self) -> List<StoredSlot> {
        self.discarded
    }

    /// Whether a slot has a message that waits for a receive.
    pub(crate) fn waits_for_receive(&self, slot: StoredSlot) -> bool {
        self.slots.is_used(slot) && {
            let Unexpected { state, batch, .. } = &self.slots[slot];
            (*state, *batch) == (StoredState::Unmatched, 0)
        }
    }

    pub(crate) fn release(&mut self, slot: StoredSlot) {
        if let Some(host) = self.slots[slot].host {
            self.hosts[self.slots.class_of(slot)].given_back(host, 1);
        }
        self.slots.release(slot);
        self.releases = self.releases.wrapping_add(1).max(1);
    }

    /// A count that changes when a message leaves.
    pub(crate) const fn releases(&self) -> u8 {
        self.releases
    }

    /// Whether `id` still names the message in its `slot`.
    pub(crate) fn is_current(&self, slot: StoredSlot, id: UnexpectedId) -> bool {
        let tenant = self.slots.tenant(slot);
        tenant.is_some_and(|(_, generation)| slot.id(generation) == id)
    }

    /// The identifier of a slot that is given out.
    pub(crate) fn id(&self, slot: StoredSlot) -> UnexpectedId {
        slot.id(self.slots.generation(slot))
    }

    /// How many messages are stored.
    pub(crate) fn used(&self) -> u32 {
        self.slots.used_in_all()
    }

    /// How full the fullest class is for a peer, in eighths, rounded down: the slots of peers
    /// without a share, or of the `host` with one, as a part of these and the free ones. So
    /// messages of other hosts slow no peer. Orphans count as free.
    pub(crate) fn occupancy(&self, host: Option<Host>) -> u8 {
        let occupancy_of = |class| {
            let hosts = &self.hosts[class];
            let free = self.slots.free_in(class) + self.orphaned[class];
            let used = self.slots.used_in(class) - self.orphaned[class];
            let own = match host {
                None => used.saturating_sub(hosts.total()),
                Some(host) => hosts.of(host),
            };
            (own * 8).checked_div(own + free).unwrap_or(0)
        };
        (0..UNEXPECTED_CLASSES).map(occupancy_of).max().unwrap_or(0) as u8
    }

    pub(crate) fn message(&mut self, slot: StoredSlot) -> &mut Unexpected {
        &mut self.slots[slot]
    }

    pub(crate) fn slots(&self) -> &Slab<'s, Unexpected, StoredSlot, UNEXPECTED_CLASSES> {
        &self.slots
    }
}

/// The classes in which a message may be stored, the smallest first.
fn classes_for(len: u64) -> impl Iterator<Item = usize> {
    let fits = move |&(_, class_len): &(usize, u64)| len <= class_len;
    (0..UNEXPECTED_CLASSES)
        .zip(UNEXPECTED_CLASS_LEN)
        .filter(fits)
        .map(|(class, _)| class)
        .take(CLASSES_TRIED)
}

impl Link<StoredSlot> for Unexpected {
    fn link(&mut self) -> &mut Links<StoredSlot> {
        &mut self.links
    }
}

impl Linked<StoredSlot> for UnexpectedPool<'_> {
    fn links(&mut self, slot: StoredSlot) -> &mut Links<StoredSlot> {
        self.slots.links(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn messages_get_the_smallest_slot_there_is_and_none_twice(
            counts in prop::array::uniform4(0u32..4),
            lens in prop::collection::vec(prop_oneof![0u64..3000, 0u64..150_000], 0..20),
        ) {
            let config = Config { unexpected: counts, ..Config::new(|crc, _| crc) };
            let total: u32 = counts.iter().sum();
            let slots = Slots::with_room(total as usize).unwrap();
            let mut pool = UnexpectedPool::new(slots, counts).unwrap();
            let mut free = config.unexpected;
            let mut ranges = BTreeSet::new();
            for len in lens {
                let expected =
                    (0..UNEXPECTED_CLASSES)
                    .filter(|&c| len <= UNEXPECTED_CLASS_LEN[c])
                    .take(2)
                    .find(|&c| free[c] > 0);
                let slot = pool.alloc(len, Unexpected::default());
                prop_assert_eq!(slot.map(|s| pool.slots.class_of(s)), expected);
                if let (Some(slot), Some(class)) = (slot, expected) {
                    free[class] -= 1;
                    let (offset, room) = config.unexpected_range(pool.id(slot));
                    prop_assert!(room >= len);
                    prop_assert!(offset + room <= config.unexpected_bytes());
                    prop_assert!(ranges.insert(offset), "two messages in one place");
                }
            }
            prop_assert_eq!(pool.used() as usize, ranges.len());
        }
    }
}
