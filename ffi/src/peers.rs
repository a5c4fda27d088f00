// SPDX-License-Identifier: MIT OR Apache-2.0
//! One endpoint's map between `fi_addr_t`, which its address vector gives out, and the engine's
//! peers.
//!
//! Forward, for a send: the index of the address finds the peer; an index that was never used is
//! looked up in the vector, and the engine told of the peer. Backward, for the source of a receive:
//! the peer's slot finds the index; a peer that spoke first is looked up in the vector by its
//! address. Both answers are kept; the vector's counters say when they no longer hold. Belongs to
//! the endpoint's lock.
//!
//! An address that goes from the vector is forgotten here, but the engine keeps the peer and its
//! connection until it needs the room: what is under way ends in order. An address that comes back
//! (`fi_av_remove`, `fi_av_insert`) and is used begins a new connection, as there may be a new
//! process behind it; but where something is still under way, it finds its peer as it was.
//!
//! Bounds: forward, the largest `fi_addr_t` in use; backward, the engine's peers.

use std::collections::{HashSet, VecDeque};

use ofi_xdp_core::{Engine, PeerAddress, PeerId, PeersFull};

use crate::abi::{ADDR_NONE, fi_addr_t};
use crate::av::Av;
use crate::errno::Error;

/// The peer behind an index of the vector.
#[derive(Clone, Copy, Debug)]
struct Known {
    peer: PeerId,
    occupancy: u32,
}

/// The index in the vector of a peer of the engine's.
#[derive(Clone, Copy, Debug)]
struct Source {
    peer: PeerId,
    address: fi_addr_t,
    /// The vector's insertions when `address` was found to be none.
    insertions: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PeerMap {
    known: Vec<Known>,
    sources: Vec<Source>,
    /// Peers whose addresses went from the vector, oldest first.
    retired: VecDeque<PeerId>,
    removals: u64,
}

impl Known {
    const NONE: Self = Self { peer: PeerId::NONE, occupancy: 0 };
}

impl PeerMap {
    /// For an engine with room for `peers`, of which `expected` will be in the vector.
    pub(crate) fn new(peers: usize, expected: usize, av: &Av) -> Self {
        let nobody = Source { peer: PeerId::NONE, address: ADDR_NONE, insertions: 0 };
        Self {
            // An application may expect any number; what comes beyond is made room for then.
            known: vec![Known::NONE; expected.min(peers)],
            sources: vec![nobody; peers],
            retired: VecDeque::new(),
            removals: av.removals(),
        }
    }

    /// Forgets addresses that went from the vector: called first, whenever the endpoint is locked.
    #[inline]
    pub(crate) fn sync(&mut self, av: &Av) {
        if av.removals() != self.removals {
            self.sweep(av);
        }
    }

    #[cold]
    fn sweep(&mut self, av: &Av) {
        self.removals = av.removals();
        for source in &mut self.sources {
            source.peer = PeerId::NONE;
        }
        for (index, known) in self.known.iter_mut().enumerate() {
            // What others have changed since is for the next time: no look at a file here.
            let occupancy = || av.known(index as fi_addr_t).map(|it| it.occupancy);
            if !known.peer.is_none() && occupancy() != Some(known.occupancy) {
                self.retired.push_back(known.peer);
                *known = Known::NONE;
            }
        }
        if self.retired.len() > self.sources.len() {
            // More than the engine has: some are there twice, or have come back.
            let mut seen: HashSet<PeerId> = self.known.iter().map(|known| known.peer).collect();
            self.retired.retain(|retired| seen.insert(*retired));
        }
    }

    /// The engine's peer at `address`, for which a retired one makes room if need be.
    fn insert(
        &mut self,
        engine: &mut Engine<'_>,
        address: PeerAddress,
    ) -> Result<PeerId, PeersFull> {
        // bound: peers that were removed
        loop {
            match engine.insert_peer(address) {
                Ok(peer) => return Ok(peer),
                Err(PeersFull::Resting) => return Err(PeersFull::Resting),
                Err(full @ PeersFull::Full) => {
                    let oldest = self.retired.pop_front().ok_or(full)?;
                    if !self.known.iter().any(|known| known.peer == oldest) {
                        // An error would say that it is gone already: there is room then.
                        let _ = engine.remove_peer(oldest);
                    }
                }
            }
        }
    }

    /// The peer that an application means by `address`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an address that is not in the vector; [`Error::NoMemory`] when the
    /// engine's peer table is full.
    #[inline]
    pub(crate) fn peer(
        &mut self,
        engine: &mut Engine<'_>,
        av: &Av,
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
        av: &Av,
        address: fi_addr_t,
    ) -> Result<PeerId, Error> {
        let occupant = av.occupant(address).ok_or(Error::Invalid)?;
        if let Some(former) = engine.find(&occupant.address)
            && let Some(at) = self.retired.iter().position(|&retired| retired == former)
            && engine.is_idle(former)
        {
            self.retired.remove(at);
            // An error would say that it is gone already.
            let _ = engine.remove_peer(former);
        }
        let peer = self.insert(engine, occupant.address)?;
        let index = address as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, Known::NONE);
        }
        if let Some(known) = self.known.get_mut(index) {
            *known = Known { peer, occupancy: occupant.occupancy };
        }
        if let Some(source) = self.sources.get_mut(peer.slot() as usize) {
            *source = Source { peer, address, insertions: 0 };
        }
        Ok(peer)
    }

    /// What an application knows `peer` by, or [`ADDR_NONE`] if it is not in the vector.
    #[inline]
    pub(crate) fn source(&mut self, engine: &Engine<'_>, av: &Av, peer: PeerId) -> fi_addr_t {
        match self.sources.get(peer.slot() as usize) {
            Some(source)
                if source.peer == peer
                    && (source.address != ADDR_NONE || source.insertions == av.insertions()) =>
            {
                source.address
            }
            _ => self.find(engine, av, peer),
        }
    }

    #[cold]
    fn find(&mut self, engine: &Engine<'_>, av: &Av, peer: PeerId) -> fi_addr_t {
        // Read before the look-up: an insertion in between makes this answer stale, not wrong for
        // ever.
        let insertions = av.insertions();
        let found = engine.peer_address(peer).and_then(|address| av.index_of(&address));
        let address = found.unwrap_or(ADDR_NONE);
        if let Some(source) = self.sources.get_mut(peer.slot() as usize) {
            *source = Source { peer, address, insertions };
        }
        address
    }
}

#[cfg(test)]
mod tests;
