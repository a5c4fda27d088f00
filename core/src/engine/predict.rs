// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packet that nearly always comes: the next one, from a peer in good order, with one whole
//! message for the receive that is first in line.
//!
//! Header prediction (V. Jacobson, "4BSD Header Prediction", ACM CCR 20(2), 1990): one look says
//! that nothing is out of the ordinary, and then little is left to do. What it does is what
//! `ingest.rs` would do, step by step (`tests/prediction.rs` compares); whatever is not as
//! predicted goes that way, and nothing has changed by then. In: bytes from anybody. Out: a message
//! placed, a receive completed, at most one packet and its operation retired. Bound: constant.

use super::Engine;
use super::ingest::hear;
use crate::in_flight::TxFlags;
use crate::operation::{RecvKind, TxKind};
use crate::peer::{AckDue, Active, State};
use crate::serial::{Msn, Psn};
use crate::slab::NIL;
use crate::time::Tick;
use crate::wire::{Flags, Header, MessageRecord, plain};
use crate::{Datagram, Memory, PeerAddress};

/// What a packet as predicted is about.
#[derive(Clone, Copy, Debug)]
struct Expected {
    active: u32,
    /// The receive that takes the message.
    recv: u32,
    /// The message that the peer will accept next.
    accepted: Msn,
    /// When the packet was sent that it acknowledges, and the operation that ends with that.
    retired: Option<(Tick, u32)>,
}

/// Whose a packet is, if that peer is in good order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acquaintance {
    pub(super) number: u32,
    pub(super) active: u32,
    /// The message that the peer will accept next.
    pub(super) accepted: Msn,
}

impl Engine<'_> {
    /// Takes in `datagram` if it is as predicted; else changes nothing and returns false.
    #[inline]
    pub(super) fn ingest_expected<M: Memory>(
        &mut self,
        datagram: &Datagram<'_>,
        memory: &mut M,
    ) -> bool {
        let Some((header, message)) = plain(datagram.bytes) else { return false };
        let Some(expected) = self.expects(header, &message, datagram) else { return false };
        if !header.is_sound(datagram.bytes, self.config.checksum) {
            return false;
        }
        self.take_expected(&expected, header, &message, datagram.congestion_experienced, memory);
        true
    }

    /// Whether a packet is as predicted, if its checksum is right.
    #[inline(always)]
    fn expects(
        &self,
        header: &Header,
        message: &MessageRecord<'_>,
        datagram: &Datagram<'_>,
    ) -> Option<Expected> {
        let Acquaintance { number, active, accepted } = self.acquaintance(header, datagram.from)?;
        let state = &self.actives[active];
        let envelope = &message.envelope;
        let in_turn = header.psn() == state.window.next()
            && header.rnr_epoch == state.rx_rnr_epoch
            && envelope.msn == state.expected_msn;
        if !in_turn {
            return None;
        }
        let recv = self.posted.first(envelope.tag.is_some());
        if recv == NIL || self.starved {
            return None;
        }
        let op = &self.recvs[recv];
        if op.kind != RecvKind::One || !op.request.takes(self.peer_id(number), envelope) {
            return None;
        }
        let retired = if header.ack_psn() == state.first_psn {
            None
        } else {
            Some(self.expects_end(state, header, accepted)?)
        };
        Some(Expected { active, recv, accepted, retired })
    }

    /// Whose a packet is that comes from a peer in good order and tells nothing of errors or of the
    /// past.
    #[inline(always)]
    pub(super) fn acquaintance(&self, header: &Header, from: PeerAddress) -> Option<Acquaintance> {
        let number = self.peer_number(header.dst_cid())?;
        let peer = &self.peers[number];
        if peer.active == NIL
            || peer.state != State::Established
            || peer.token != header.token()
            || peer.address != from
        {
            return None;
        }
        let active = peer.active;
        let state = &self.actives[active];
        let accepted = state.accepted_msn.nearest(header.accepted_msn());
        let in_order = state.is_in_order()
            && header.err_count == state.errors.announced
            && state.newest_sent_at.has_come(Tick::from_bits(header.sent_at()))
            && !accepted.is_before(state.accepted_msn)
            && !state.next_msn.is_before(accepted);
        in_order.then_some(Acquaintance { number, active, accepted })
    }

    /// Whether a packet acknowledges the oldest one under way and no other, and a message that was
    /// alone in that ends so: when that was sent, and which operation it is.
    #[inline(always)]
    pub(super) fn expects_end(
        &self,
        state: &Active,
        header: &Header,
        accepted: Msn,
    ) -> Option<(Tick, u32)> {
        let oldest = state.first_psn;
        if state.all_acknowledged() || header.ack_psn() != oldest.plus(1) {
            return None;
        }
        let note = self.in_flight.note(&state.directory, oldest)?;
        if note.flags != TxFlags::empty() || note.len != 1 {
            return None;
        }
        let number = self.op_of_attempt(note.op, note.rnr_epoch)?;
        let op = &self.ops[number];
        let ends = match &op.kind {
            TxKind::Message(envelope) => envelope.msn.is_before(accepted),
            _ => false,
        };
        (ends && op.all_sent && op.in_flight == 1 && state.may_complete())
            .then_some((note.sent_at, number))
    }

    /// The oldest packet under way is acknowledged, with everything before `ack`: the operation in
    /// it, as [`Self::expects_end`] found it, leaves its queue.
    #[inline(always)]
    pub(super) fn end_expected(&mut self, active: u32, ack: Psn, sent_at: Tick, number: u32) {
        let now = self.tick();
        let state = &mut self.actives[active];
        state.rtt.sample(now.since(sent_at));
        state.newest_acked = state.newest_acked.max(sent_at);
        self.in_flight.retire(&mut state.directory, state.first_psn, ack);
        state.retired_until(ack);
        state.news(1, now);
        state.sends.list.remove(&mut self.ops, number);
        self.ops[number].in_flight = 0;
    }

    /// Takes a packet in that is as predicted.
    #[inline(always)]
    fn take_expected<M: Memory>(
        &mut self,
        expected: &Expected,
        header: &Header,
        message: &MessageRecord<'_>,
        marked: bool,
        memory: &mut M,
    ) {
        let Expected { active, recv, accepted, retired } = *expected;
        let now = self.tick();
        let state = &mut self.actives[active];
        hear(state, now, header, marked, true);
        let advanced = accept_until(state, accepted);
        if let Some((sent_at, number)) = retired {
            self.end_expected(active, header.ack_psn(), sent_at, number);
        }
        let state = &mut self.actives[active];
        state.expected_msn = state.expected_msn.plus(1);
        state.window.insert(header.psn());
        state.owe_ack(now, header.flags().contains(Flags::ACK_REQUEST));
        state.return_credits();
        let peer = state.peer;
        let ack_now = state.ack_due == AckDue::Now;
        let (held, early) = (!state.held.is_empty(), !state.early.is_empty());
        let waits = advanced && !state.sends.list.is_empty();
        if let Some((_, number)) = retired {
            self.finish_send(number);
        }
        if waits {
            self.end_accepted(active);
        }
        self.receive_message(recv, self.peer_id(peer), message, memory);
        if early {
            self.accept_early(active, memory);
        }
        if ack_now {
            self.make_ready(active);
        }
        if held {
            self.tell_held(active);
        }
        self.after_packet(active, self.now);
    }
}

/// The peer says which message it will accept next; returns whether that is news.
#[inline(always)]
pub(super) fn accept_until(state: &mut Active, accepted: Msn) -> bool {
    let advanced = state.accepted_msn != accepted;
    if advanced {
        state.accepted_msn = accepted;
        state.rnr_count = 0;
    }
    advanced
}
