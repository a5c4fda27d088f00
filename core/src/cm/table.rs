// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exchanges of an agent: slots, search, timers, and the lists of those with an event, of those
//! that send and of those that are released.
//!
//! In: exchanges, and changes of their state. Out: the next event, the next exchange that sends,
//! the next deadline. Callers: the other files of this folder. Bound: each operation is O(1); a new
//! exchange may take the slot of the one that was released first.

use super::event::{ConnectEvent, RequestId};
use super::exchange::{Exchange, ExchangeSlot, Key, Membership, ROLES, Repeat, Role, State};
use super::storage::AgentStorage;
use crate::api::hosts::{Host, HostSlots};
use crate::collections::index::Index;
use crate::collections::list::{Linked, Links, List};
use crate::collections::secret::{Secret, Use};
use crate::collections::slab::{Slab, SlotIndex};
use crate::collections::wheel::Wheel;
use crate::{Instant, PeerAddress};

/// How long an exchange is remembered after its end. As long as a cookie is good, so that a late
/// packet does not begin it again.
pub(super) const MEMORY_NANOS: u64 = 20_000_000_000;

type Exchanges<'s> = Slab<'s, Exchange, ExchangeSlot, ROLES>;

/// The exchanges, linked as those that send.
struct Sending<'a, 's>(&'a mut Exchanges<'s>);

impl Linked<ExchangeSlot> for Sending<'_, '_> {
    fn links(&mut self, slot: ExchangeSlot) -> &mut Links<ExchangeSlot> {
        &mut self.0[slot].send_links
    }
}

/// The exchanges of an agent.
#[derive(Debug)]
pub(super) struct ExchangeTable<'s> {
    exchanges: Exchanges<'s>,
    index: Index<'s, Key, ExchangeSlot>,
    timers: Wheel<'s, ExchangeSlot>,
    events: List<ExchangeSlot>,
    sending: List<ExchangeSlot>,
    evictable: [List<ExchangeSlot>; ROLES],
    released_count: [u32; ROLES],
    /// The key of [`Host::of`].
    host_key: [u64; 2],
    /// Requests at the listener that are not released, by host.
    hosts: HostSlots,
}

impl core::ops::Index<ExchangeSlot> for ExchangeTable<'_> {
    type Output = Exchange;

    fn index(&self, slot: ExchangeSlot) -> &Exchange {
        &self.exchanges[slot]
    }
}

impl core::ops::IndexMut<ExchangeSlot> for ExchangeTable<'_> {
    fn index_mut(&mut self, slot: ExchangeSlot) -> &mut Exchange {
        &mut self.exchanges[slot]
    }
}

impl<'s> ExchangeTable<'s> {
    /// An empty table with slots for each role; `None` if they are not as many as `storage` has.
    pub(super) fn new(
        storage: AgentStorage<'s>,
        slots: [u32; ROLES],
        secret: &Secret,
    ) -> Option<Self> {
        Some(Self {
            exchanges: Slab::with_classes(storage.exchanges.begin_all(), slots)?,
            index: Index::new(storage.index, secret.subkey(Use::ConnectTable)),
            timers: Wheel::new(storage.timers),
            events: List::default(),
            sending: List::default(),
            evictable: [List::default(); ROLES],
            released_count: [0; ROLES],
            host_key: secret.subkey(Use::HostTable),
            hosts: HostSlots::EMPTY,
        })
    }

    /// The exchange with this key.
    pub(super) fn find(&self, key: &Key) -> Option<ExchangeSlot> {
        self.index.find(key, |slot| self.exchanges[slot].key())
    }

    /// The exchange with this identifier, unless its owner has released it.
    pub(super) fn resolve(&self, id: RequestId) -> Option<ExchangeSlot> {
        let slot = ExchangeSlot::from_number(id.number);
        let is_tenant = self.exchanges.is_used(slot)
            && self.exchanges.generation(slot) == id.generation
            && self.exchanges[slot].membership != Membership::Released;
        is_tenant.then_some(slot)
    }

    /// The identifier of an exchange.
    pub(super) fn id(&self, slot: ExchangeSlot) -> RequestId {
        RequestId { number: slot.number(), generation: self.exchanges.generation(slot) }
    }

    /// The exchanges of a role that their owner has not released.
    pub(super) fn unreleased(&self, role: Role) -> u32 {
        let class = role as usize;
        self.exchanges.used_in(class) - self.released_count.get(class).copied().unwrap_or_default()
    }

    /// Whether a host may have another request at the listener, where `free` are left.
    pub(super) fn has_share(&mut self, of: &PeerAddress, free: u32) -> bool {
        self.hosts.has_share(Host::of(self.host_key, of), free)
    }

    /// Adds an exchange, if need be in place of the one that was released first. `None`: none was.
    pub(super) fn insert(&mut self, exchange: Exchange, now: Instant) -> Option<ExchangeSlot> {
        let class = exchange.role as usize;
        if !self.exchanges.has_free(class) {
            let oldest = self.evictable.get(class)?.head();
            if oldest.is_none() {
                return None;
            }
            self.free(oldest);
        }
        let key = exchange.key();
        let is_request = exchange.role == Role::Listener;
        let host = Host::of(self.host_key, &exchange.peer);
        let slot = self.exchanges.alloc_in(class, exchange)?;
        if is_request {
            self.hosts.taken(host, 1);
        }
        self.index.insert(&key, slot);
        self.arm(slot, now);
        Some(slot)
    }

    /// Frees the slot of a released exchange.
    pub(super) fn free(&mut self, slot: ExchangeSlot) {
        self.leave_list(slot);
        if self.exchanges[slot].is_sending {
            self.sending.remove(&mut Sending(&mut self.exchanges), slot);
        }
        self.timers.disarm(slot);
        let key = self.exchanges[slot].key();
        self.index.remove(&key, slot, |slot| self.exchanges[slot].key());
        self.exchanges.release_last(slot);
    }

    /// Arms the timer of an exchange for its present deadline.
    pub(super) fn arm(&mut self, slot: ExchangeSlot, now: Instant) {
        let deadline = self.exchanges[slot].deadline();
        self.timers.arm(slot, deadline, now);
    }

    /// An exchange with an expired deadline.
    pub(super) fn expire(&mut self, now: Instant) -> Option<ExchangeSlot> {
        self.timers.expire(now)
    }

    /// The next deadline of all, or an earlier time.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Queues the packet of an exchange's state.
    pub(super) fn queue_send(&mut self, slot: ExchangeSlot) {
        if !core::mem::replace(&mut self.exchanges[slot].is_sending, true) {
            self.sending.push_back(&mut Sending(&mut self.exchanges), slot);
        }
    }

    /// The next exchange that sends.
    pub(super) fn next_sending(&mut self) -> Option<ExchangeSlot> {
        let slot = self.sending.pop_front(&mut Sending(&mut self.exchanges))?;
        self.exchanges[slot].is_sending = false;
        Some(slot)
    }

    /// Whether an exchange has something to send.
    pub(super) fn has_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Queues the event of an exchange's state.
    pub(super) fn queue_event(&mut self, slot: ExchangeSlot) {
        self.exchanges[slot].membership = Membership::Event;
        self.events.push_back(&mut self.exchanges, slot);
    }

    /// Whether an event waits for the owner.
    pub(super) fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// The next event.
    pub(super) fn next_event(&mut self) -> Option<ConnectEvent> {
        let slot = self.events.pop_front(&mut self.exchanges)?;
        self.exchanges[slot].membership = Membership::None;
        self.exchanges[slot].event(self.id(slot))
    }

    /// Ends a live exchange in `state`. Its owner gets an event, unless it has not read the event
    /// of the request yet: then the exchange is released.
    pub(super) fn end(&mut self, slot: ExchangeSlot, state: State, now: Instant) {
        let was_read = self.exchanges[slot].membership == Membership::None;
        self.remember(slot, state, now);
        if was_read {
            self.queue_event(slot);
        } else {
            self.release(slot);
        }
    }

    /// Sets the last state of an exchange, which is remembered for a time.
    pub(super) fn remember(&mut self, slot: ExchangeSlot, state: State, now: Instant) {
        let exchange = &mut self.exchanges[slot];
        exchange.state = state;
        exchange.repeat = Repeat::NEVER;
        exchange.expires_at = now.after_nanos(MEMORY_NANOS);
        self.arm(slot, now);
    }

    /// Ends the owner's hold of an exchange that is not live.
    pub(super) fn release(&mut self, slot: ExchangeSlot) {
        if self.exchanges[slot].membership != Membership::Released {
            self.count_released(slot);
        }
        self.leave_list(slot);
        let exchange = &mut self.exchanges[slot];
        exchange.membership = Membership::Released;
        let class = exchange.role as usize;
        if let Some(list) = self.evictable.get_mut(class) {
            list.push_back(&mut self.exchanges, slot);
        }
        if let Some(count) = self.released_count.get_mut(class) {
            *count += 1;
        }
    }

    /// A request at the listener counts for its host until it is released.
    fn count_released(&mut self, slot: ExchangeSlot) {
        let exchange = &self.exchanges[slot];
        if exchange.role == Role::Listener {
            self.hosts.given_back(Host::of(self.host_key, &exchange.peer), 1);
        }
    }

    /// Takes an exchange from the list that it is in.
    fn leave_list(&mut self, slot: ExchangeSlot) {
        let exchange = &mut self.exchanges[slot];
        let class = exchange.role as usize;
        match core::mem::replace(&mut exchange.membership, Membership::None) {
            Membership::None => {}
            Membership::Event => self.events.remove(&mut self.exchanges, slot),
            Membership::Released => {
                if let Some(list) = self.evictable.get_mut(class) {
                    list.remove(&mut self.exchanges, slot);
                }
                if let Some(count) = self.released_count.get_mut(class) {
                    *count -= 1;
                }
            }
        }
    }

    /// The exchanges in use. Bound: the slots.
    pub(super) fn next_used(&self, from: u32) -> Option<ExchangeSlot> {
        let end = self.exchanges.total();
        (from..end).map(ExchangeSlot::from_number).find(|&slot| self.exchanges.is_used(slot))
    }

    /// Slots in use of a role, those that are remembered included.
    pub(super) fn used(&self, role: Role) -> u32 {
        self.exchanges.used_in(role as usize)
    }
}
