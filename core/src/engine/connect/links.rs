// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of connected endpoints: their peers, and the changes that the owner learns.
//!
//! In: names of peers; connections that open or end. Out: the peers that have changed. Called by
//! the façade, `handshake` and `teardown`. Bound: those of `changed`.

use crate::collections::slab::SlotIndex as _;
use crate::engine::connect::ConnectionTable;
use crate::engine::connect::peer_key::PeerKey;
use crate::peer::State;
use crate::peer::hosts::SharedPool;
use crate::peer::slots::PeerSlot;
use crate::{LinkState, PeerAddress, PeerId};

impl ConnectionTable<'_> {
    /// Lets the key of a peer find it, if the peer has an address.
    pub(super) fn index_peer(&mut self, peer: PeerSlot) {
        let key = self.key_of(peer);
        // A peer may give the same name twice. The first connection has it.
        if key.address != PeerAddress::NONE && self.find_peer(key.address, key.cid).is_none() {
            self.index.insert(&key, peer);
        }
    }

    /// The key of a peer in the index.
    pub(super) fn key_of(&self, peer: PeerSlot) -> PeerKey {
        PeerKey::of(&self.peers[peer], self.is_connected)
    }

    /// Names the other side of a peer that was inserted without an address. `remote_cid` is its
    /// name for the connection.
    pub(crate) fn name_peer(&mut self, peer: PeerSlot, address: PeerAddress, remote_cid: PeerId) {
        let before = self.peers[peer].host();
        let host = self.hosts.host(&address);
        self.hosts[SharedPool::Peers].given_back(before, 1);
        self.hosts[SharedPool::Peers].taken(host, 1);
        self.peers[peer].name(address, host, remote_cid);
        self.index_peer(peer);
    }

    /// Packets for a peer, which has no connection any more, are those for an unknown peer from now
    /// on. It keeps its slot.
    pub(crate) fn unname_peer(&mut self, peer: PeerSlot) {
        self.unindex_peer(peer);
        let host = self.peers[peer].host();
        self.peers[peer].name(PeerAddress::NONE, host, PeerId::NONE);
    }

    /// The key of a peer finds it no more.
    pub(super) fn unindex_peer(&mut self, peer: PeerSlot) {
        let (peers, is_connected) = (&self.peers, self.is_connected);
        let key_of = |peer: PeerSlot| PeerKey::of(&peers[peer], is_connected);
        self.index.remove(&key_of(peer), peer, key_of);
    }

    /// Records the port that a peer says it is known by; 0: that of its address.
    pub(super) fn set_name_port(&mut self, peer: PeerSlot, port: u16) {
        if let Some(name) = self.names.get_mut(peer.number() as usize) {
            *name = port;
        }
    }

    /// See [`Engine::peer_name`](crate::Engine::peer_name).
    pub(crate) fn name_of(&self, peer: PeerSlot) -> PeerAddress {
        let address = self.peers[peer].address();
        match self.names.get(peer.number() as usize) {
            None | Some(0) => address,
            Some(&port) => address.with_port(port),
        }
    }

    /// Notes that the connection of a peer has opened or ended.
    pub(crate) fn note_link(&mut self, peer: PeerSlot, state: LinkState) {
        self.changed_links.push(self.peer_id(peer), state);
    }

    /// See [`Engine::poll_link`](crate::Engine::poll_link).
    pub(crate) fn poll_link(&mut self) -> Option<(PeerId, LinkState)> {
        self.changed_links.pop()
    }

    /// See [`Engine::link`](crate::Engine::link).
    pub(crate) fn link(&self, peer: PeerSlot) -> LinkState {
        let peer = &self.peers[peer];
        match peer.state() {
            State::Established => LinkState::Open,
            State::Closed if peer.epoch() != 0 => LinkState::Ended,
            State::Closed | State::HelloSent | State::Accepted => LinkState::Opening,
            State::Removed => LinkState::Ended,
        }
    }
}
