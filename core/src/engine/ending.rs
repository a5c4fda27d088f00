// SPDX-License-Identifier: MIT OR Apache-2.0
//! A connection ends: everything that depends on it ends, too (`docs/PROTOCOL.md` §5.5).
//!
//! In: the reason. Out: completions in error, slots given back. Bound: what was under way with the
//! peer, and the stored messages and pulls among which it is searched.

use super::Engine;
use crate::operation::{Holder, Landing, TxKind, Unexpected};
use crate::peer::{Queue, State};
use crate::slab::{List, NIL};
use crate::{OpError, PeerId};

impl Engine<'_> {
    /// Ends a connection, if there is one: everything that depends on it ends with `error`.
    pub(super) fn end_connection(&mut self, number: u32, error: OpError) {
        let peer = &mut self.peers[number];
        let active = peer.active;
        if peer.state != State::Closed {
            peer.state = State::Closed;
            self.stats.peers_failed += u64::from(error != OpError::Closed);
        }
        let id = self.peer_id(number);
        self.drop_announced(id, error);
        self.drop_pulling(id, error);
        if active == NIL {
            return;
        }
        self.discard_early(active);
        // bound: messages that were arriving
        loop {
            let assembly = self.actives[active].assemblies.head();
            if assembly == NIL {
                break;
            }
            let landing = self.assemblies[assembly].landing;
            self.drop_assembly(active, assembly);
            self.abandon(landing, error);
        }
        // bound: remote writes that wait for their turn
        while let Some(event) = self.actives[active].held.pop_front(&mut self.recvs) {
            self.recvs.release(event);
        }
        self.end_responses(active, error);
        // bound: operations that were posted
        while let Some(op) = self.actives[active].sends.list.pop_front(&mut self.ops) {
            self.ops[op].outcome = Err(error);
            self.finish_send(op);
        }
        self.release_active(number, active);
    }

    /// Gives a peer's active state back to the pool, with the slots that were kept for it. What
    /// matters later stays with the peer.
    pub(super) fn release_active(&mut self, number: u32, active: u32) {
        self.unschedule(active);
        self.wheel.disarm(active);
        let state = &mut self.actives[active];
        state.save(&mut self.peers[number]);
        self.peers[number].active = NIL;
        let kept = core::mem::take(&mut state.credits).granted;
        self.responders_spare += u32::from(kept) - 1;
        self.in_flight.clear(&mut self.actives[active].directory);
        self.actives.release(active);
    }

    /// Answers that were not acknowledged, and requests of pulls. Bound: those.
    pub(super) fn end_responses(&mut self, active: u32, error: OpError) {
        while let Some(op) = self.actives[active].responses.list.pop_front(&mut self.ops) {
            match self.ops[op].kind {
                TxKind::Pull { recv, .. } => self.abandon_pull(recv, true, error),
                TxKind::Error { .. } => self.responders_spare += 1,
                _ => {}
            }
            self.ops.release(op);
        }
        let state = &mut self.actives[active];
        state.responses = Queue::default();
        state.credits.serving = 0;
        state.errors.open = 0;
    }

    /// Long messages of a peer that were announced and that no receive has matched; who claims one
    /// is told. Bound: stored messages.
    fn drop_announced(&mut self, peer: PeerId, error: OpError) {
        for tagged in [false, true] {
            let mut number = self.stored.of(tagged).head();
            while number != NIL {
                let next = List::next(&mut self.unexpected, number);
                let Unexpected { peer: from, handle, .. } = *self.unexpected.message(number);
                if from == peer && handle.is_some() {
                    self.stored.of(tagged).remove(&mut self.unexpected, number);
                    self.unexpected.release(number);
                }
                number = next;
            }
        }
        let mut number = self.claimed.head();
        while number != NIL {
            let message = self.unexpected.message(number);
            if message.peer == peer && message.handle.take().is_some() {
                message.failed = Some(error);
            }
            number = List::next(&mut self.unexpected, number);
        }
    }

    /// Long messages of a peer that wait for their turn to be pulled. Bound: messages that do.
    fn drop_pulling(&mut self, peer: PeerId, error: OpError) {
        let mut number = self.pulling.head();
        while number != NIL {
            let next = List::next(&mut self.recvs, number);
            if self.recvs[number].peer == peer {
                self.abandon_pull(number, false, error);
            }
            number = next;
        }
    }

    /// A message will not be complete any more: its receive ends in error, its storage is free
    /// again.
    fn abandon(&mut self, landing: Landing, error: OpError) {
        let recv = match landing {
            Landing::Recv(id) => id.slot(),
            Landing::Stored(id) => {
                let slot = id.slot();
                let message = self.unexpected.message(slot);
                let recv = match message.holder {
                    Holder::Claim(_) => {
                        message.failed = Some(error);
                        return;
                    }
                    Holder::Nobody => {
                        self.unqueue_stored(slot);
                        NIL
                    }
                    Holder::Recv(recv) => recv,
                    Holder::Discard => NIL,
                };
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
