// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection table: peers, their connections, and the order in which connections send.
//!
//! In: addresses, handshake packets, ends of connections. Out: a slot for each peer, a connection
//! for each peer with traffic, packets without a connection (handshake, reset, close). Bound: the
//! pools of peers and connections.

mod changed;
pub(super) mod cookie;
pub(super) mod evict;
pub(super) mod handshake;
mod links;
mod newcomers;
pub(super) mod packet;
mod peer_key;
pub(super) mod reset;
pub(super) mod schedule;
pub(super) mod stateless;
pub(super) mod teardown;

use crate::api::hosts::Host;
use crate::collections::index::Index as HashIndex;
use crate::collections::list::List;
use crate::collections::secret::{Secret, Use};
use crate::collections::slab::{Slab, Slot, SlotIndex};
use crate::collections::slots::Slots;
use crate::collections::time::{TICK_NANOS, Tick};
use crate::engine::connect::changed::ChangedLinks;
use crate::engine::connect::newcomers::Newcomers;
use crate::engine::connect::packet::{STATELESS_QUEUE_MAX, StatelessPacket};
use crate::engine::connect::peer_key::PeerKey;
use crate::engine::violation::{Violation, sound};
use crate::peer::hosts::{HostShares, SharedPool};
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::peer::{Connection, Peer, Standing, State};
use crate::{Instant, PeerAddress, PeerId};
use core::hash::{Hash, Hasher};
use core::ops::{Index, IndexMut};

/// The slot of a removed peer is not used again for this long (128 ms). Packets for its former
/// tenant may come later: they name another generation of the slot, and change nothing. A
/// generation comes again after 256 tenants, hence 32 s at the earliest.
const QUARANTINE_TICKS: u32 = (128_000_000 / TICK_NANOS) as u32;

/// Peers that were accepted without proof of their address take at most one slot of so many.
const UNPROVEN_PART: u32 = 8;
/// A small table holds so many unproven peers, too.
const UNPROVEN_MIN: u32 = 4;
/// Slots of peers that begin together, in random order.
const PEERS_BEGIN: u32 = 128;

/// Peers and connections of an engine.
#[derive(Debug)]
pub(super) struct ConnectionTable<'s> {
    peers: Slab<'s, Peer, PeerSlot>,
    index: HashIndex<'s, PeerKey, PeerSlot>,
    /// The port that each peer is known by, if it is not that of its address; else 0.
    names: &'s mut [u16],
    /// Peers are those of connected endpoints.
    is_connected: bool,
    connections: Slab<'s, Connection, ConnSlot>,
    /// Connections that send, in round-robin order.
    ready: List<ConnSlot>,
    /// Connections with records that wait to be coalesced.
    corked: List<ConnSlot>,
    /// Packets that the first ready connection may still send before the next one.
    quantum_left: u32,
    stateless: heapless::Deque<StatelessPacket, STATELESS_QUEUE_MAX>,
    /// Whether one of them waits, or peers are to be notified of the close.
    has_stateless: bool,
    /// The highest epoch of any connection so far: a peer that is removed and comes back has a
    /// newer one.
    epochs: u16,
    /// The slot at which the search for an evictable peer continues (CLOCK hand).
    evict_cursor: u32,
    /// When a peer is evicted next for another one of its host.
    evict_at: Instant,
    /// The slot at which the search for a connection to take from its peer continues.
    connection_cursor: u32,
    /// Peers in the table that are [`Standing::Unproven`].
    unproven: u32,
    /// Slots of each host in the pools that all peers use.
    hosts: HostShares,
    /// While the engine closes: the slot of the next peer to be notified.
    closing: Option<u32>,
    /// Every peer was notified, or is being notified, that this endpoint closes.
    closed: bool,
    /// Connections of connected endpoints that have opened or ended.
    changed_links: ChangedLinks,
    /// Peers that spoke first, for the caller to name.
    newcomers: Newcomers,
    /// The peer that sent the last datagram (`FI_EP_DGRAM`).
    datagram_source: PeerId,
}

impl<'s> ConnectionTable<'s> {
    /// A table without peers; `is_connected`: they will be those of connected endpoints. The
    /// `secret` keeps others from choosing addresses that collide, and from inferring one peer's
    /// identifier from another's.
    pub(super) fn new(
        peers: Slots<'s, Slot<Peer>>,
        (index, names): (&'s mut [u32], &'s mut [u16]),
        connections: Slots<'s, Slot<Connection>>,
        secret: &Secret,
        is_connected: bool,
    ) -> Self {
        let peer_table = secret.subkey(Use::PeerTable);
        Self {
            peers: Slab::new(peers),
            index: HashIndex::new(index, peer_table),
            names,
            is_connected,
            connections: Slab::new(connections),
            ready: List::default(),
            corked: List::default(),
            quantum_left: 0,
            stateless: heapless::Deque::new(),
            has_stateless: false,
            epochs: 0,
            evict_cursor: 0,
            evict_at: Instant::ZERO,
            connection_cursor: 0,
            unproven: 0,
            hosts: HostShares::new(secret.subkey(Use::HostTable)),
            closing: None,
            closed: false,
            changed_links: ChangedLinks::default(),
            newcomers: Newcomers::default(),
            datagram_source: PeerId::NONE,
        }
    }
}

impl Index<PeerSlot> for ConnectionTable<'_> {
    type Output = Peer;

    #[inline(always)]
    fn index(&self, peer: PeerSlot) -> &Peer {
        &self.peers[peer]
    }
}

impl IndexMut<PeerSlot> for ConnectionTable<'_> {
    #[inline(always)]
    fn index_mut(&mut self, peer: PeerSlot) -> &mut Peer {
        &mut self.peers[peer]
    }
}

impl Index<ConnSlot> for ConnectionTable<'_> {
    type Output = Connection;

    #[inline(always)]
    fn index(&self, conn: ConnSlot) -> &Connection {
        &self.connections[conn]
    }
}

impl IndexMut<ConnSlot> for ConnectionTable<'_> {
    #[inline(always)]
    fn index_mut(&mut self, conn: ConnSlot) -> &mut Connection {
        &mut self.connections[conn]
    }
}

impl ConnectionTable<'_> {
    /// The identifier of a peer in the table.
    #[inline]
    pub(super) fn peer_id(&self, peer: PeerSlot) -> PeerId {
        peer.id(self.peers.generation(peer))
    }

    /// A peer in the table, and its identifier.
    #[inline(always)]
    pub(super) fn peer_and_id(&self, slot: PeerSlot) -> (&Peer, PeerId) {
        let (peer, generation) = self.peers.entry_ref(slot);
        (peer, slot.id(generation))
    }

    /// The identifier of the peer of a connection.
    #[inline]
    pub(super) fn peer_of(&self, conn: ConnSlot) -> PeerId {
        self.peer_id(self.connections[conn].peer())
    }

    /// The slot of a peer, if `id` names one that is in the table.
    #[inline]
    pub(super) fn peer_slot(&self, id: PeerId) -> Option<PeerSlot> {
        Some(self.find(id)?.0)
    }

    /// The slot and the state of a peer, if `id` names one that is in the table.
    #[inline(always)]
    pub(super) fn find(&self, id: PeerId) -> Option<(PeerSlot, &Peer)> {
        let slot = PeerSlot::of(id);
        let (peer, generation) = self.peers.tenant(slot)?;
        (slot.id(generation) == id).then_some((slot, peer))
    }

    /// The peer at an address. A connected endpoint may have several there: then `cid`, the other
    /// side's name for the connection, tells them apart.
    pub(super) fn find_peer(&self, address: PeerAddress, cid: PeerId) -> Option<PeerSlot> {
        let cid = if self.is_connected { cid } else { PeerId::NONE };
        self.index.find(&PeerKey { address, cid }, |peer| self.key_of(peer))
    }

    /// The peer at the source address of a datagram; [`PeerId::NONE`] for an unknown one. Most
    /// datagrams follow one of the same peer, so that peer is compared before the table is
    /// searched.
    #[inline]
    pub(super) fn datagram_source(&mut self, address: PeerAddress) -> PeerId {
        let last = self.find(self.datagram_source);
        if last.is_none_or(|(_, peer)| peer.address() != address) {
            self.datagram_source = self.search_datagram_source(address);
        }
        self.datagram_source
    }

    #[inline(never)]
    fn search_datagram_source(&self, address: PeerAddress) -> PeerId {
        self.find_peer(address, PeerId::NONE).map_or(PeerId::NONE, |slot| self.peer_id(slot))
    }

    /// The number of a connection: its peer has a newer one after it.
    #[inline]
    pub(super) fn epoch_of(&self, conn: ConnSlot) -> u16 {
        self.peers[self.connections[conn].peer()].epoch()
    }

    /// The peer `id`, if its connection with number `epoch` has not ended.
    pub(super) fn find_connected(&self, id: PeerId, epoch: u16) -> Option<PeerSlot> {
        let (slot, peer) = self.find(id)?;
        (peer.is_connected() && peer.epoch() == epoch).then_some(slot)
    }

    /// Whether a connection exists in this slot.
    #[inline]
    pub(super) fn is_open(&self, conn: ConnSlot) -> bool {
        self.connections.is_used(conn)
    }

    /// The connection of a peer, if it has one.
    pub(super) fn connection_of(&self, peer: PeerSlot) -> Option<ConnSlot> {
        let conn = self.peers[peer].connection();
        (self.peers.is_used(peer) && conn.is_some()).then_some(conn)
    }

    /// How many connections exist.
    pub(super) fn open_connections(&self) -> u32 {
        self.connections.used()
    }

    /// The connections that exist. Bound: their pool.
    pub(super) fn iter(&self) -> impl Iterator<Item = ConnSlot> + '_ {
        self.connections.used_slots()
    }

    /// Every slot that a connection can have.
    pub(super) fn connection_slots(&self) -> impl Iterator<Item = ConnSlot> + use<> {
        (0..self.connections.capacity()).map(ConnSlot::from_number)
    }

    /// The slots of the peer table, and how many of them are taken.
    pub(super) fn peer_slots(&self) -> (u32, u32) {
        (self.peers.capacity(), self.peers.used())
    }

    /// Begins to notify every peer that this endpoint closes.
    pub(super) fn start_closing(&mut self) {
        self.closing = Some(0);
        self.has_stateless = true;
        self.closed = true;
    }

    /// Whether this endpoint has closed.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Checks that free and used slots of the pools add up.
    pub(super) fn audit_pools(&self) -> Result<(), Violation> {
        sound("peers", &self.peers)?;
        sound("connections", &self.connections)
    }

    /// Hashes the state, for tests.
    pub(super) fn digest(&self, hasher: &mut impl Hasher) {
        self.peers.hash(hasher);
        self.connections.hash(hasher);
        [u32::from(self.epochs), self.closing.unwrap_or(u32::MAX)].hash(hasher);
        [self.ready, self.corked].hash(hasher);
    }

    /// The connection of a peer, allocated if it has none. `None` if the pool is empty, or if the
    /// peer is unnamed and its host has its share. The last quarter of the pool is for connections
    /// that peers open, because theirs always end.
    #[inline]
    pub(super) fn allocate_connection(
        &mut self,
        peer: PeerSlot,
        now: Tick,
        ours: bool,
    ) -> Option<ConnSlot> {
        let known = self.peers[peer].connection();
        if known.is_some() {
            return Some(known);
        }
        let capacity = self.connections.capacity();
        if ours && self.connections.used() >= capacity - capacity / 4 {
            return None;
        }
        if self.crowded_host(peer).is_some() {
            return None;
        }
        let conn = self.connections.alloc(Connection::new(peer, &self.peers[peer], now))?;
        self.peers[peer].attach(conn);
        self.hosts[SharedPool::Connections].taken(self.peers[peer].host(), 1);
        Some(conn)
    }

    /// The host of an unnamed peer that has no connection, if it has its share of them.
    pub(super) fn crowded_host(&mut self, peer: PeerSlot) -> Option<Host> {
        let free = self.connections.capacity() - self.connections.used();
        let peer = &self.peers[peer];
        let is_served = peer.connection().is_some() || peer.standing() == Standing::Named;
        let pool = &mut self.hosts[SharedPool::Connections];
        (!is_served && !pool.has_share(peer.host(), free)).then_some(peer.host())
    }

    /// Frees a connection, which must be in no list.
    pub(super) fn release_connection(&mut self, conn: ConnSlot) {
        let peer = self.connections[conn].peer();
        self.peers[peer].detach();
        self.hosts[SharedPool::Connections].given_back(self.peers[peer].host(), 1);
        self.connections.release(conn);
    }

    /// Whether a peer is evicted at `now` for another one of its host.
    pub(super) fn may_evict(&self, now: Instant) -> bool {
        now >= self.evict_at
    }

    /// A peer to evict was searched at `now` for another one of its host. At this pace at most half
    /// of the free slots are in quarantine for that: a host that comes with new ports all the time
    /// leaves the others to new peers elsewhere.
    pub(super) fn pace_evictions(&mut self, now: Instant) {
        let free = self.peers.capacity() - self.peers.used();
        let pause = 2 * u64::from(QUARANTINE_TICKS) * TICK_NANOS / u64::from(free.max(1));
        self.evict_at = now.after_nanos(pause);
    }

    /// Whether the host of an unknown peer may have another slot for peers.
    pub(super) fn has_peer_share(&mut self, address: &PeerAddress) -> bool {
        let (host, free) = (self.hosts.host(address), self.peers.capacity() - self.peers.used());
        self.hosts[SharedPool::Peers].has_share(host, free)
    }

    /// Whether the peer of a connection may have another slot of `pool`, where `free` are left.
    pub(super) fn has_share(&mut self, conn: ConnSlot, pool: SharedPool, free: u32) -> bool {
        self.may_take(self.connections[conn].peer(), pool, free)
    }

    /// As [`Self::has_share`], of a peer that may have no connection.
    pub(super) fn may_take(&mut self, peer: PeerSlot, pool: SharedPool, free: u32) -> bool {
        let host = self.sharing_host_of(peer);
        host.is_none_or(|host| self.hosts[pool].has_share(host, free))
    }

    /// The peer of a connection has taken `slots` of `pool`.
    pub(super) fn take_share(&mut self, conn: ConnSlot, pool: SharedPool, slots: u32) {
        let host = self.peers[self.connections[conn].peer()].host();
        self.hosts[pool].taken(host, slots);
    }

    /// The peer of a connection has given `slots` of `pool` back.
    pub(super) fn give_share_back(&mut self, conn: ConnSlot, pool: SharedPool, slots: u32) {
        self.give_host_share_back(self.host_of_connection(conn), pool, slots);
    }

    /// A host gives back `slots` of a pool.
    pub(super) fn give_host_share_back(&mut self, host: Host, pool: SharedPool, slots: u32) {
        self.hosts[pool].given_back(host, slots);
    }

    /// The host of the peer of a connection.
    pub(super) fn host_of_connection(&self, conn: ConnSlot) -> Host {
        self.peers[self.connections[conn].peer()].host()
    }

    /// The host with an address.
    pub(super) fn host_of(&self, address: &PeerAddress) -> Host {
        self.hosts.host(address)
    }

    /// The host of the peer of a connection, where peers there have a share together.
    pub(super) fn sharing_host(&self, conn: ConnSlot) -> Option<Host> {
        self.sharing_host_of(self.connections[conn].peer())
    }

    /// The host of a peer, where peers there have a share together: unnamed ones, and all peers of
    /// connected endpoints. The application names each of those, and trusts it no more than others.
    pub(super) fn sharing_host_of(&self, peer: PeerSlot) -> Option<Host> {
        let peer = &self.peers[peer];
        (self.is_connected || peer.standing() != Standing::Named).then_some(peer.host())
    }

    /// Whether the counts of hosts agree with the numbers of `assemblies` and of rendezvous
    /// `reads`.
    pub(super) fn hosts_add_up(&self, assemblies: u32, reads: u32) -> bool {
        let credit = |conn| u32::from(self.connections[conn].credits().reserved()) - 1;
        let errors = |conn| u32::from(self.connections[conn].errors().open());
        let counted = [
            (SharedPool::Peers, self.peers.used()),
            (SharedPool::Connections, self.connections.used()),
            (SharedPool::RendezvousReads, reads),
            (SharedPool::Assemblies, assemblies),
            (SharedPool::Credits, self.iter().map(credit).sum()),
            (SharedPool::Errors, self.iter().map(errors).sum()),
        ];
        counted.iter().all(|&(pool, slots)| self.hosts[pool].adds_up_to(slots))
    }

    /// Whether peers have spoken first, for the caller to name.
    #[inline(always)]
    pub(super) fn has_newcomers(&self) -> bool {
        !self.newcomers.is_empty()
    }

    /// The next one of them.
    pub(super) fn take_newcomer(&mut self) -> Option<PeerAddress> {
        self.newcomers.pop()
    }

    /// Whether so many peers are unproven that the next one must prove its address.
    fn has_many_unproven(&self) -> bool {
        let slots = self.peers.capacity().min(self.connections.capacity());
        self.unproven >= (slots / UNPROVEN_PART).max(UNPROVEN_MIN)
    }

    /// Whether the application has named a peer.
    pub(super) fn is_named(&self, id: PeerId) -> bool {
        self.peer_slot(id).is_some_and(|slot| self.peers[slot].standing() == Standing::Named)
    }

    /// Changes the right of a peer to its slot; a named peer stays named.
    pub(super) fn set_standing(&mut self, peer: PeerSlot, standing: Standing) {
        let before = self.peers[peer].standing();
        if before != Standing::Named {
            self.unproven -= u32::from(before == Standing::Unproven);
            self.unproven += u32::from(standing == Standing::Unproven);
            self.peers[peer].set_standing(standing);
        }
    }

    /// Puts a peer in a free slot, which is not in quarantine. `None`: there is none.
    fn insert(&mut self, address: PeerAddress) -> Option<PeerSlot> {
        let host = self.hosts.host(&address);
        let peer = self.peers.alloc(Peer::new(address, host))?;
        self.index_peer(peer);
        self.set_name_port(peer, 0);
        self.hosts[SharedPool::Peers].taken(host, 1);
        Some(peer)
    }

    /// Whether no slot is free for a peer at `now`, among those that have begun.
    pub(super) fn lacks_slots(&self, now: Tick) -> bool {
        self.peers.next_free().is_none() || self.is_quarantined(now)
    }

    /// Begins [`PEERS_BEGIN`] slots, if so many are left.
    #[cold]
    pub(super) fn begin_slots(&mut self, secret: &mut Secret) {
        self.peers.begin_shuffled(PEERS_BEGIN, || secret.draw(Use::PeerSlot));
    }

    /// Whether the slot that is used next is in quarantine at `now`.
    pub(super) fn is_quarantined(&self, now: Tick) -> bool {
        // After the wrap of the ticks a slot may seem to be in quarantine once more, for no longer
        // than that.
        let since = |peer: &Peer| now.bits().wrapping_sub(peer.removed_at().bits());
        let removed = self.peers.next_free().filter(|peer| peer.state() == State::Removed);
        removed.is_some_and(|peer| since(peer) < QUARANTINE_TICKS)
    }

    /// Removes a peer that has no connection; its slot goes into quarantine.
    pub(super) fn forget(&mut self, peer: PeerSlot, now: Tick) {
        self.unindex_peer(peer);
        self.set_standing(peer, Standing::Proven);
        self.hosts[SharedPool::Peers].given_back(self.peers[peer].host(), 1);
        self.peers[peer].set_removed(now);
        self.peers.release_last(peer);
    }
}
