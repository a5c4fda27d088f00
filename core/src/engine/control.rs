// SPDX-License-Identifier: MIT OR Apache-2.0
//! B. Peers come and go at the application's word, connections end, the engine closes.
//!
//! Bound: ending a connection takes time in proportion to what was under way; closing sends one
//! packet for each connection.

use super::Engine;
use crate::message::Unexpected;
use crate::peer::{Peer, State, ticks};
use crate::serial::Psn;
use crate::slab::{NIL, Slab};
use crate::wire::{Header, PacketKind};
use crate::{
    Destination, Instant, OpError, PeerAddress, PeerId, PeersFull, Target, Transmit, Unknown,
};

impl Engine<'_> {
    /// Adds a peer. An address that is in the table already, because it was inserted or because it
    /// spoke first, keeps its identifier.
    ///
    /// # Errors
    /// [`PeersFull`].
    pub fn insert_peer(&mut self, address: PeerAddress) -> Result<PeerId, PeersFull> {
        let number = match self.find_peer(&address) {
            Some(number) => number,
            None => self.add_peer(address).ok_or(PeersFull)?,
        };
        Ok(self.peer_id(number))
    }

    /// Removes a peer. Operations under way end with [`OpError::Closed`]; messages of it that are
    /// stored can still be received. Should it speak again it is a new peer.
    ///
    /// # Errors
    /// [`Unknown`] when there is no such peer.
    pub fn remove_peer(&mut self, peer: PeerId) -> Result<(), Unknown> {
        let number = self.peer_number(peer).ok_or(Unknown)?;
        self.end_connection(number, OpError::Closed);
        let address = self.peers[number].address;
        let peers = &self.peers;
        self.index.remove(&address, number, |slot| peers[slot].address);
        self.peers.release(number);
        Ok(())
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
    pub fn close(&mut self, now: Instant) {
        self.time(now);
        self.closing = Some(0);
    }

    /// The farewell to the next peer that needs one.
    pub(super) fn transmit_close(&mut self, now: Instant, packet: &mut [u8]) -> Option<Transmit> {
        let mut number = self.closing?;
        // bound: peers in the table
        while number < self.peers.capacity() {
            self.closing = Some(number + 1);
            if self.peers.is_used(number) && self.peers[number].is_established() {
                let peer = &self.peers[number];
                let received = match peer.active {
                    NIL => (peer.expected_psn, peer.expected_msn),
                    active => {
                        let state = &self.actives[active];
                        (state.window.next(), state.expected_msn)
                    }
                };
                let cid = PeerId::from_bits(peer.remote_cid);
                let header = Header::new(PacketKind::Close, cid, peer.token)
                    .with_psn(Psn(0))
                    .with_received(received.0, received.1.0 as u16, Default::default())
                    .with_sent_at(ticks(now));
                let sent = self.put_answer(&header, &[], peer.address, packet)?;
                let to = Destination { peer: self.peer_id(number), ..sent.to };
                self.end_connection(number, OpError::Closed);
                return Some(Transmit { to, ..sent });
            }
            number += 1;
        }
        self.closing = None;
        None
    }

    pub(super) fn find_peer(&self, address: &PeerAddress) -> Option<u32> {
        let peers: &Slab<'_, Peer> = &self.peers;
        self.index.find(address, |slot| peers[slot].address)
    }

    pub(super) fn add_peer(&mut self, address: PeerAddress) -> Option<u32> {
        let number = self.peers.alloc(Peer::new(address))?;
        self.index.insert(&address, number);
        Some(number)
    }

    /// Ends a connection, if there is one: everything that depends on it ends with `error`.
    pub(super) fn end_connection(&mut self, number: u32, error: OpError) {
        let peer = &mut self.peers[number];
        let active = core::mem::replace(&mut peer.active, NIL);
        if peer.state != State::Closed {
            peer.state = State::Closed;
            self.stats.peers_failed += u64::from(error != OpError::Closed);
        }
        if active == NIL {
            return;
        }
        self.unschedule(active);
        self.wheel.disarm(active);
        self.discard_early(active);
        // bound: messages that were arriving
        loop {
            let assembly = self.actives[active].assemblies.head();
            if assembly == NIL {
                break;
            }
            let target = self.assemblies[assembly].target;
            self.drop_assembly(active, assembly);
            self.abandon(target, error);
        }
        // bound: sends that were posted
        while let Some(op) = self.actives[active].sends.pop_front(&mut self.sends) {
            self.sends[op].outcome = Err(error);
            self.finish_send(op);
        }
        self.in_flight.clear(&mut self.actives[active].directory);
        self.actives.release(active);
    }

    /// A message will not be complete any more: its receive ends in error, its storage is free
    /// again.
    fn abandon(&mut self, target: Target, error: OpError) {
        let recv = match target {
            Target::Recv(id) => id.slot(),
            Target::Unexpected(id) => {
                let slot = id.slot();
                let Unexpected { recv, envelope, .. } = *self.unexpected.message(slot);
                if recv == NIL {
                    self.stored.of(envelope.tag.is_some()).remove(&mut self.unexpected, slot);
                }
                self.unexpected.release(slot);
                recv
            }
        };
        if recv != NIL {
            self.recvs[recv].outcome = Err(error);
            self.finish_recv(recv);
        }
    }
}
