// SPDX-License-Identifier: MIT OR Apache-2.0
//! A runtime's map between `fi_addr_t`, which the address vector gives out, and the engine's peers.
//!
//! In: an address of a send, or the peer of a receive. Out: the peer, or the address. Called under
//! the runtime's lock. Bound: forward, the largest `fi_addr_t` in use; backward, the engine's
//! peers.
//!
//! Forward, the index of an address finds the peer. An index without a peer is looked up in the
//! vector, and the peer is inserted into the engine. Backward, the slot of a peer finds the index.
//! A peer that sent first is looked up in the vector by the address that it is known by. Both
//! results are cached; the vector's counters tell when they are out of date.
//!
//! An address of the vector takes no slot of the engine's table before the application or its peer
//! uses it: a vector may be longer than the table. Where the peer speaks first, or spoke before the
//! address was inserted, the next progress call names it ([`PeerMap::name_known`]).
//!
//! An address that is removed from the vector is forgotten here. The engine keeps the peer and its
//! connection until it needs the room, so operations in flight end in order. An address that is
//! inserted again starts a new connection, as it may belong to a new process. It finds its old peer
//! while operations are in flight there, or if data have come from there since the removal.
//!
//! Receive context *i* of a scalable endpoint is a peer at the *i*-th port behind its address
//! (`endpoint::scalable`). Such peers are found by the whole `fi_addr_t`.

mod groups;
mod inserted;
mod retired;

use std::collections::HashMap;

use ofi_xdp_core::{Engine, PeerAddress, PeerId, PeersFull};

use self::groups::JoinedGroups;
pub(crate) use self::groups::is_of_group;
use self::inserted::InsertedAddresses;
use self::retired::RetiredPeers;
use crate::runtime::addresses::{AddressTable, Occupant};
use crate::sys::abi::{ADDR_NONE, fi_addr_t};
use crate::sys::errno::Error;
use crate::sys::limits::CONTEXTS_MAX;
use crate::sys::memory;

/// The peer behind an index of the vector.
#[derive(Clone, Copy, Debug)]
struct KnownPeer {
    peer: PeerId,
    occupancy: u32,
}

/// The index in the vector of a peer of the engine.
#[derive(Clone, Copy, Debug)]
struct KnownSource {
    peer: PeerId,
    address: fi_addr_t,
    /// How many addresses of the vector name the peer in this slot.
    names: u32,
    /// The vector's changes at the search that found no address.
    changes: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PeerMap {
    known: Vec<KnownPeer>,
    /// Receive contexts behind the first of scalable endpoints, by `fi_addr_t`.
    contexts: HashMap<fi_addr_t, KnownPeer>,
    sources: Vec<KnownSource>,
    groups: JoinedGroups,
    /// Peers without an address in the vector any more.
    retired: RetiredPeers,
    removals: u64,
    /// The vector's changes that [`Self::learn_all`] or [`Self::name_known`] has followed.
    changes: u64,
    inserted: InsertedAddresses,
}

/// Addresses of the vector that one call of [`PeerMap::name_known`] looks at.
const NAMED_PER_CALL: usize = 64;
/// Retired peers that leave a full table together. The quarantine of their slots passes once for
/// all of them.
const REMOVED_TOGETHER: u32 = 32;

impl KnownPeer {
    const NONE: Self = Self { peer: PeerId::NONE, occupancy: 0 };
}

impl KnownSource {
    const NOBODY: Self = Self { peer: PeerId::NONE, address: ADDR_NONE, names: 0, changes: 0 };
}

impl PeerMap {
    /// A map for an engine with room for `peers`; `expected` of them will be in the vector.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn new(peers: usize, expected: usize, av: &AddressTable) -> Result<Self, Error> {
        let nobody = KnownSource::NOBODY;
        Ok(Self {
            // The number is the application's guess. The map grows beyond it when needed.
            known: memory::filled(KnownPeer::NONE, expected.min(peers))?,
            contexts: HashMap::new(),
            sources: memory::filled(nobody, peers)?,
            groups: JoinedGroups::default(),
            retired: RetiredPeers::default(),
            removals: av.removals(),
            changes: 0,
            inserted: InsertedAddresses::default(),
        })
    }

    /// Forgets addresses that were removed from the vector. Called first under each lock.
    #[inline]
    pub(crate) fn sync(&mut self, engine: &Engine<'_>, av: &AddressTable) {
        if av.removals() != self.removals {
            self.sweep(engine, av);
        }
    }

    #[cold]
    fn sweep(&mut self, engine: &Engine<'_>, av: &AddressTable) {
        let Self { known, contexts, sources, retired, .. } = self;
        self.removals = av.removals();
        for source in sources.iter_mut() {
            source.peer = PeerId::NONE;
        }
        let mut retire = |peer: PeerId| {
            retired.add(peer, engine.arrivals_from(peer));
            if let Some(source) = sources.get_mut(peer.slot() as usize) {
                source.names = source.names.saturating_sub(1);
            }
        };
        for (index, known) in known.iter_mut().enumerate() {
            // Later changes of other processes wait for the next call: no file is read here.
            let occupancy = || av.known(index as fi_addr_t).map(|it| it.occupancy);
            if !known.peer.is_none() && occupancy() != Some(known.occupancy) {
                retire(known.peer);
                *known = KnownPeer::NONE;
            }
        }
        contexts.retain(|&address, known| {
            let (index, _) = av.split(address);
            let stays = av.known(index).map(|it| it.occupancy) == Some(known.occupancy);
            if !stays {
                retire(known.peer);
            }
            stays
        });
        if self.retired.len() > self.sources.len() {
            // Longer than the engine's table: some are in use again.
            let known = self.known.iter().chain(self.contexts.values());
            self.retired.remove_all(known.map(|known| known.peer));
        }
    }

    /// The engine's peer at `address`. In a full table retired peers make room.
    fn insert(
        &mut self,
        engine: &mut Engine<'_>,
        address: PeerAddress,
    ) -> Result<PeerId, PeersFull> {
        // bound: peers that were removed
        loop {
            match engine.insert_peer(address) {
                Ok(peer) => return Ok(peer),
                Err(PeersFull::Quarantined) => return Err(PeersFull::Quarantined),
                Err(PeersFull::Full) if self.remove_retired(engine) => {}
                Err(PeersFull::Full) => return Err(PeersFull::Full),
            }
        }
    }

    /// Removes the oldest retired peer from the engine's table, and those after it that are idle
    /// and were not heard since. Returns whether there was one.
    fn remove_retired(&mut self, engine: &mut Engine<'_>) -> bool {
        let mut removed = 0;
        // bound: the retired peers
        while let Some((peer, arrivals)) = self.retired.oldest() {
            let is_over = engine.is_idle(peer) && engine.arrivals_from(peer) == arrivals;
            if removed > 0 && !is_over || removed == REMOVED_TOGETHER {
                break;
            }
            self.retired.remove(peer);
            if !self.is_named(peer) {
                // An error means that it is gone already.
                removed += u32::from(engine.remove_peer(peer).is_ok());
            }
        }
        removed > 0
    }

    /// The peer at an address of the vector.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is not in the vector; [`Error::NoMemory`] when the
    /// engine's peer table is full, or without memory for this one.
    #[inline]
    pub(crate) fn peer(
        &mut self,
        engine: &mut Engine<'_>,
        av: &AddressTable,
        address: fi_addr_t,
    ) -> Result<PeerId, Error> {
        match self.known.get(address as usize) {
            Some(known) if !known.peer.is_none() => Ok(known.peer),
            _ => self.learn(engine, av, address),
        }
    }

    #[cold]
    fn learn(
        &mut self,
        engine: &mut Engine<'_>,
        av: &AddressTable,
        address: fi_addr_t,
    ) -> Result<PeerId, Error> {
        if is_of_group(address) {
            return self.groups.peer(address).ok_or(Error::Invalid);
        }
        if let Some(known) = self.contexts.get(&address) {
            return Ok(known.peer);
        }
        let (index, context) = av.split(address);
        let Occupant { address: name, occupancy } = av.occupant(index).ok_or(Error::Invalid)?;
        let at = context_address(name, context).ok_or(Error::Invalid)?;
        if let Some(former) = engine.find(&at) {
            let is_retired = self.is_retired(engine, former);
            if !is_retired || engine.is_idle(former) {
                self.retired.remove(former);
            }
            if is_retired && engine.is_idle(former) && !self.is_named(former) {
                // An error means that it is gone already.
                let _ = engine.remove_peer(former);
            }
        }
        if context > 0 {
            self.contexts.try_reserve(1).map_err(|_| Error::NoMemory)?;
        } else {
            memory::grow(&mut self.known, KnownPeer::NONE, index as usize + 1)?;
        }
        let peer = self.insert(engine, at)?;
        let known = KnownPeer { peer, occupancy };
        if context > 0 {
            self.contexts.insert(address, known);
        } else if let Some(slot) = self.known.get_mut(index as usize) {
            *slot = known;
        }
        if let Some(source) = self.sources.get_mut(peer.slot() as usize) {
            let names = source.names + 1;
            *source = KnownSource { peer, address: index, names, changes: 0 };
        }
        Ok(peer)
    }

    /// Whether an address of the vector, or a group that was joined, is that of `peer`.
    fn is_named(&self, peer: PeerId) -> bool {
        let named = self.sources.get(peer.slot() as usize).is_some_and(|source| source.names > 0);
        named || self.groups.has(peer)
    }

    /// Whether the address of `peer` was removed from the vector, and nothing has come from there
    /// since then.
    fn is_retired(&self, engine: &Engine<'_>, peer: PeerId) -> bool {
        self.retired.arrivals(peer) == Some(engine.arrivals_from(peer))
    }

    /// A free address for a multicast group; [`Self::join_group`] takes it.
    ///
    /// # Errors
    /// [`Error::Os`] if it was joined before; [`Error::NoMemory`] beyond the bound.
    pub(crate) fn admit_group(&mut self, name: PeerAddress) -> Result<fi_addr_t, Error> {
        self.groups.admit(name)
    }

    /// Makes a multicast group a peer at `address`.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when the engine's peer table is full.
    pub(crate) fn join_group(
        &mut self,
        engine: &mut Engine<'_>,
        address: fi_addr_t,
        name: PeerAddress,
    ) -> Result<(), Error> {
        let peer = self.insert(engine, name)?;
        self.groups.set(address, name, peer);
        Ok(())
    }

    /// Forgets a group, and returns its name. Datagrams to it that have not left leave as usual.
    pub(crate) fn leave_group(&mut self, address: fi_addr_t) -> Option<PeerAddress> {
        let (name, peer) = self.groups.remove(address)?;
        self.retired.add(peer, Some((0, 0)));
        Some(name)
    }

    /// Whether [`Self::learn_all`] or [`Self::name_known`] has something to do. A removal counts:
    /// packets that are received after it are later than it ([`RetiredPeers::arrivals`]).
    #[inline(always)]
    pub(crate) fn has_changed(&self, engine: &Engine<'_>, av: &AddressTable) -> bool {
        av.changes() != self.changes || engine.has_newcomers()
    }

    /// Makes all addresses of the vector peers, as far as there is room in the engine's table.
    /// Bound: the addresses that are new since the last call; all of them where one of these is at
    /// an index that had been free.
    pub(crate) fn learn_all(&mut self, engine: &mut Engine<'_>, av: &AddressTable) {
        let changes = av.changes();
        self.sync(engine, av);
        for index in self.inserted.take(av, usize::MAX) {
            // Without room, or at a free index, there is no peer. A slot in quarantine is room
            // soon.
            if self.peer(engine, av, index as fi_addr_t) == Err(Error::Again) {
                self.inserted.put_back(index);
                break;
            }
        }
        if self.inserted.is_empty() {
            self.changes = changes;
        }
    }

    /// Names the peers with addresses in the vector, those in the engine's table and those that ask
    /// to be there (`docs/PROTOCOL.md` §9.1). Bound: the engine's newcomers, and
    /// [`NAMED_PER_CALL`] addresses of the vector.
    pub(crate) fn name_known(&mut self, engine: &mut Engine<'_>, av: &AddressTable) {
        let changes = av.changes();
        self.sync(engine, av);
        // bound: the newcomers that the engine keeps
        while let Some(address) = engine.take_newcomer() {
            self.name_newcomer(engine, av, &address);
        }
        for index in self.inserted.take(av, NAMED_PER_CALL) {
            let index = index as fi_addr_t;
            let occupant = av.known(index);
            if let Some(peer) = occupant.and_then(|occupant| engine.find(&occupant.address)) {
                self.name(engine, av, index, peer);
            }
        }
        if self.inserted.is_empty() {
            self.changes = changes;
        }
    }

    fn name_newcomer(&mut self, engine: &mut Engine<'_>, av: &AddressTable, address: &PeerAddress) {
        if let Some(index) = av.known_index(address) {
            self.name(engine, av, index, engine.find(address).unwrap_or(PeerId::NONE));
        }
    }

    /// Names the peer at an index of the vector, `found` in the engine's table. A peer with an
    /// address that was removed and inserted again has its name from before. It is left alone:
    /// receives may name it, until the application addresses an operation to the index.
    fn name(
        &mut self,
        engine: &mut Engine<'_>,
        av: &AddressTable,
        index: fi_addr_t,
        found: PeerId,
    ) {
        if !self.is_retired(engine, found) {
            // Without room it says hello again.
            let _ = self.peer(engine, av, index);
        }
    }

    /// The address of `peer`, or [`ADDR_NONE`] if it is not in the vector.
    #[inline]
    pub(crate) fn source(
        &mut self,
        engine: &Engine<'_>,
        av: &AddressTable,
        peer: PeerId,
    ) -> fi_addr_t {
        match self.sources.get(peer.slot() as usize) {
            Some(source)
                if source.peer == peer
                    && (source.address != ADDR_NONE || source.changes == av.changes()) =>
            {
                source.address
            }
            _ => self.find(engine, av, peer),
        }
    }

    #[cold]
    fn find(&mut self, engine: &Engine<'_>, av: &AddressTable, peer: PeerId) -> fi_addr_t {
        // Read before the search: an insertion in between makes the result stale, and the next call
        // searches again.
        let changes = av.changes();
        let found = engine.peer_name(peer).and_then(|name| av.index_of(&name));
        let address = found.unwrap_or(ADDR_NONE);
        if let Some(source) = self.sources.get_mut(peer.slot() as usize) {
            *source = KnownSource { peer, address, names: source.names, changes };
        }
        address
    }
}

/// The address of receive context `context` of a scalable endpoint.
fn context_address(name: PeerAddress, context: u16) -> Option<PeerAddress> {
    let port = name.port().checked_add(context)?;
    (usize::from(context) < CONTEXTS_MAX).then(|| name.with_port(port))
}

#[cfg(test)]
mod tests;
