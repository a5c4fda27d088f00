// SPDX-License-Identifier: MIT OR Apache-2.0
//! The peers without an address in the vector any more.
//!
//! In: peers, as their addresses leave the vector. Out: whether one is among them, and the oldest.
//! Caller: [`PeerMap`](super::PeerMap). Bound: the number of steps of a call does not depend on the
//! number of peers, but for [`RetiredPeers::remove_all`].

use std::collections::{BTreeMap, HashMap};

use ofi_xdp_core::PeerId;

/// [`Engine::arrivals_from`](ofi_xdp_core::Engine::arrivals_from) when a peer is added. A later
/// packet is of a live process, be it the old one or a new one.
pub(super) type PeerArrivals = Option<(u64, u32)>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RetiredPeers {
    /// Each peer, and its place in the order.
    peers: HashMap<PeerId, (PeerArrivals, u64)>,
    /// The peers, oldest first.
    order: BTreeMap<u64, PeerId>,
    added: u64,
}

impl RetiredPeers {
    pub(super) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Adds a peer as the latest one. One that is there keeps its place.
    pub(super) fn add(&mut self, peer: PeerId, arrivals: PeerArrivals) {
        let place = self.peers.get(&peer).map_or(self.added, |&(_, place)| place);
        self.peers.insert(peer, (arrivals, place));
        self.order.insert(place, peer);
        self.added += 1;
    }

    /// The arrivals from a peer when it was added; `None` if it is not there.
    pub(super) fn arrivals(&self, peer: PeerId) -> Option<PeerArrivals> {
        self.peers.get(&peer).map(|&(arrivals, _)| arrivals)
    }

    /// The oldest peer.
    pub(super) fn oldest(&self) -> Option<(PeerId, PeerArrivals)> {
        let (_, &peer) = self.order.first_key_value()?;
        Some((peer, self.arrivals(peer)?))
    }

    /// Removes a peer, if it is there.
    pub(super) fn remove(&mut self, peer: PeerId) {
        if let Some((_, place)) = self.peers.remove(&peer) {
            self.order.remove(&place);
        }
    }

    /// Removes these peers.
    pub(super) fn remove_all(&mut self, peers: impl Iterator<Item = PeerId>) {
        peers.for_each(|peer| self.remove(peer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_leave_in_the_order_in_which_they_came() {
        let [a, b, c] = [1, 2, 3].map(PeerId::from_bits);
        let mut retired = RetiredPeers::default();
        [a, b, c].into_iter().for_each(|peer| retired.add(peer, None));
        retired.add(a, Some((1, 2)));
        assert_eq!((retired.oldest(), retired.len()), (Some((a, Some((1, 2)))), 3));
        retired.remove_all([b, a, b].into_iter());
        assert_eq!((retired.oldest(), retired.arrivals(a)), (Some((c, None)), None));
        retired.remove(c);
        assert_eq!((retired.oldest(), retired.len()), (None, 0));
    }
}
