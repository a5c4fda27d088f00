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
//! Bounds: forward, the largest `fi_addr_t` in use; backward, the engine's peers.

use ofi_xdp_core::{Engine, PeerId};

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
            known: vec![Known::NONE; expected],
            sources: vec![nobody; peers],
            removals: av.removals(),
        }
    }

    /// Drops peers whose addresses went from the vector: called first, whenever the endpoint is
    /// locked.
    #[inline]
    pub(crate) fn sync(&mut self, engine: &mut Engine<'_>, av: &Av) {
        if av.removals() != self.removals {
            self.sweep(engine, av);
        }
    }

    #[cold]
    fn sweep(&mut self, engine: &mut Engine<'_>, av: &Av) {
        self.removals = av.removals();
        for (index, known) in self.known.iter_mut().enumerate() {
            let occupancy = av.occupant(index as fi_addr_t).map(|it| it.occupancy);
            if !known.peer.is_none() && occupancy != Some(known.occupancy) {
                // An error would say that the engine has forgotten the peer: that is what is
                // wanted.
                let _ = engine.remove_peer(known.peer);
                *known = Known::NONE;
            }
        }
        for source in &mut self.sources {
            source.peer = PeerId::NONE;
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
        let peer = engine.insert_peer(occupant.address)?;
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
