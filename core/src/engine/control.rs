// SPDX-License-Identifier: MIT OR Apache-2.0
//! B. Peers and regions come and go at the application's word, the engine closes.
//!
//! Bound: closing sends one packet for each connection, and one for each packet of a peer that has
//! not heard of it.

use super::{Engine, answer::Answer, reclaim::RECLAIM_STEPS};
use crate::peer::{Peer, State};
use crate::slab::{NIL, Slab};
use crate::time::TICK_NANOS;
use crate::{
    Instant, OpError, PeerAddress, PeerId, PeersFull, RegionError, RegionId, RegionRequest, Served,
    Transmit, Unknown,
};

/// The slot of a peer that was removed is not used again for twice the longest time-out: packets
/// for its former tenant are gone by then (128 ms).
const QUARANTINE_TICKS: u32 = (128_000_000 / TICK_NANOS) as u32;

impl Engine<'_> {
    /// Adds a peer. An address that is in the table already, because it was inserted or because it
    /// spoke first, keeps its identifier: until it is removed, or, if it only spoke first, until
    /// its connection has ended, all that it sent was polled, and others need the slot.
    ///
    /// # Errors
    /// [`PeersFull`].
    pub fn insert_peer(&mut self, address: PeerAddress) -> Result<PeerId, PeersFull> {
        let number = match self.find_peer(&address) {
            Some(number) => number,
            None => {
                // Where a slot rests the caller may have more to insert.
                match self.peers.capacity() - self.peers.used() {
                    0 => self.reclaim_peer(self.peers.capacity()),
                    _ if self.is_resting() => self.reclaim_peer(RECLAIM_STEPS),
                    _ => {}
                }
                self.add_peer(address)?
            }
        };
        self.peers[number].known = true;
        Ok(self.peer_id(number))
    }

    /// Removes a peer, and tells it. Operations under way end with [`OpError::Closed`]; messages of
    /// it that are stored can still be received. Should it speak again it is a new peer.
    ///
    /// # Errors
    /// [`Unknown`] when there is no such peer.
    pub fn remove_peer(&mut self, peer: PeerId) -> Result<(), Unknown> {
        let number = self.peer_number(peer).ok_or(Unknown)?;
        self.farewell(number);
        self.end_connection(number, OpError::Closed);
        self.forget(number);
        Ok(())
    }

    /// Makes memory reachable for peers that are told the key.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn register_region(
        &mut self,
        request: &RegionRequest,
    ) -> Result<(RegionId, u64), RegionError> {
        self.regions.insert(request, &mut self.rng)
    }

    /// Takes a region back: from the moment this returns nothing reads or writes it, and reads that
    /// peers have under way end in error.
    ///
    /// # Errors
    /// [`Unknown`] when there is no such region.
    pub fn deregister_region(&mut self, region: RegionId) -> Result<(), Unknown> {
        if self.regions.remove(region) { Ok(()) } else { Err(Unknown) }
    }

    /// What peers have done with a region; `None` when there is no such region.
    #[must_use]
    pub fn region_served(&self, region: RegionId) -> Option<Served> {
        self.regions.is_known(region).then(|| *self.regions.get(region))
    }

    /// Whether nothing is known to be under way with a peer, in either direction.
    #[must_use]
    pub fn is_idle(&self, peer: PeerId) -> bool {
        let Some(number) = self.peer_number(peer) else { return true };
        let active = self.peers[number].active;
        active == NIL || !self.actives[active].has_work()
    }

    /// The address of a peer in the table.
    #[must_use]
    pub fn peer_address(&self, peer: PeerId) -> Option<PeerAddress> {
        self.peer_number(peer).map(|number| self.peers[number].address)
    }

    /// The peer that has this address, if it is in the table.
    #[must_use]
    pub fn find(&self, address: &PeerAddress) -> Option<PeerId> {
        self.find_peer(address).map(|number| self.peer_id(number))
    }

    /// Ends every connection. Each peer is told, by packets that the next calls of
    /// [`transmit`](Self::transmit) give; what is under way is discarded. Call it when
    /// [`is_settled`](Self::is_settled) says so, or when waiting for that has taken long enough.
    /// Who is called on after that lingers: a peer that has not heard of the end is told again.
    pub fn close(&mut self, now: Instant) {
        self.time(now);
        self.closing = Some(0);
        self.closed = true;
    }

    /// The farewell to the next peer that needs one.
    pub(super) fn transmit_close(&mut self, now: Instant, packet: &mut [u8]) -> Option<Transmit> {
        let mut number = self.closing?;
        // bound: peers in the table
        while number < self.peers.capacity() {
            self.closing = Some(number + 1);
            if self.peers.is_used(number) && self.peers[number].is_connected() {
                self.farewell(number);
                self.end_connection(number, OpError::Closed);
                return self.transmit_answer(now, packet);
            }
            number += 1;
        }
        self.closing = None;
        None
    }

    /// Queues the news that the connection to a peer ends here, with all that was received.
    pub(super) fn farewell(&mut self, number: u32) {
        let peer = &mut self.peers[number];
        if !peer.is_connected() {
            return;
        }
        if peer.active != NIL {
            self.actives[peer.active].save(peer);
        }
        let close = Answer::close(&self.peers[number]);
        self.answer(close);
    }

    pub(super) fn find_peer(&self, address: &PeerAddress) -> Option<u32> {
        let peers: &Slab<'_, Peer> = &self.peers;
        self.index.find(address, |slot| peers[slot].address)
    }

    /// Whether the slot that is next to be used was a moment ago.
    fn is_resting(&self) -> bool {
        let now = self.tick();
        // After the wrap of the ticks a slot may seem to rest once more, for no longer than that.
        let resting = |peer: &Peer| now.bits().wrapping_sub(peer.removed_at().bits());
        let removed = self.peers.next_free().filter(|peer| peer.state == State::Removed);
        removed.is_some_and(|peer| resting(peer) < QUARANTINE_TICKS)
    }

    pub(super) fn add_peer(&mut self, address: PeerAddress) -> Result<u32, PeersFull> {
        if self.is_resting() {
            self.stats.quarantined += 1;
            return Err(PeersFull::Resting);
        }
        let number = self.peers.alloc(Peer::new(address)).ok_or(PeersFull::Full)?;
        self.index.insert(&address, number);
        Ok(number)
    }
}
