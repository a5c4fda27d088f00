// SPDX-License-Identifier: MIT OR Apache-2.0
//! Peers that are gone make room for newcomers: a server meets more clients in its life than its
//! table has slots.
//!
//! In: that the table is crowded, or full. Out: a slot that rests, and is free after that. A peer
//! goes whose connection has ended, which the application never named, and which nothing names that
//! it may still ask for: its name would be nobody's, and a message of it from an unknown source.
//! Bounds: the slots that the caller says, and [`CANDIDATES`] times what is finished and stored.

use super::Engine;
use crate::PeerId;
use crate::peer::Peer;
use crate::slab::{List, NIL};

/// Slots that a newcomer's hello looks at; the next one goes on from there.
pub(super) const RECLAIM_STEPS: u32 = 64;
/// Peers that could go for which one call looks whether anything names them.
const CANDIDATES: u32 = 4;

impl Engine<'_> {
    /// Takes one peer that is gone out of the table, if there is one among the next `steps` slots.
    #[cold]
    pub(super) fn reclaim_peer(&mut self, steps: u32) {
        let mut candidates = CANDIDATES;
        for _ in 0..steps.min(self.peers.capacity()) {
            let number = self.reclaim_hand;
            self.reclaim_hand = (number + 1) % self.peers.capacity();
            if !self.peers.is_used(number) || !self.peers[number].is_gone() {
                continue;
            }
            if !self.is_named(self.peer_id(number)) {
                log::debug!("peer {}: forgotten", self.peers[number].address);
                return self.forget(number);
            }
            candidates -= 1;
            if candidates == 0 {
                return;
            }
        }
    }

    /// Takes a peer out of the table that has neither connection nor active state.
    pub(super) fn forget(&mut self, number: u32) {
        let address = self.peers[number].address;
        let peers = &self.peers;
        self.index.remove(&address, number, |slot| peers[slot].address);
        let now = self.tick();
        self.peers[number].set_removed(now);
        self.peers.release_last(number);
    }

    /// Whether an operation that has ended, or a stored message, is a peer's. Those that have not
    /// ended do with the connection.
    fn is_named(&mut self, peer: PeerId) -> bool {
        let sends = [self.sends_done, self.deferred_sends];
        let recvs = [self.recvs_done, self.deferred_recvs];
        let stored = [self.stored.untagged, self.stored.tagged, self.claimed];
        let (ops, done, messages) = (&mut self.ops, &mut self.recvs, &mut self.unexpected);
        sends.into_iter().any(|list| any(list, ops, |ops, n| ops[n].peer == peer))
            || recvs.into_iter().any(|list| any(list, done, |done, n| done[n].peer == peer))
            || stored
                .into_iter()
                .any(|list| any(list, messages, |it, n| it.message(n).peer == peer))
    }
}

/// Whether `is` holds for a member of a list. Bound: its members.
fn any<S: crate::slab::Linked>(
    list: List,
    slots: &mut S,
    is: impl Fn(&mut S, u32) -> bool,
) -> bool {
    let mut number = list.head();
    while number != NIL {
        if is(slots, number) {
            return true;
        }
        number = List::next(slots, number);
    }
    false
}

impl Peer {
    /// Whether it spoke first, and there is nothing with it any more.
    fn is_gone(&self) -> bool {
        self.state == crate::peer::State::Closed && self.active == NIL && !self.known
    }
}
