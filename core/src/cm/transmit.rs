// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time and packets: expired deadlines, repetitions, transmission.
//!
//! In: the time. Out: packets, one a call; events of time-outs. Callers: the owner of the agent.
//! Bound: a call does the work of the deadlines that have come, and of one packet.

use super::Agent;
use super::exchange::{ExchangeSlot, Membership, NEVER, Repeat, State};
use super::reply::ConnectReply;
use crate::wire::{ConnectKind, ConnectPacket};
use crate::{Instant, PeerAddress};

/// The pause before the first repetition of a packet.
pub(super) const FIRST_PAUSE_NANOS: u64 = 50_000_000;
/// The longest pause between two repetitions.
const PAUSE_MAX_NANOS: u64 = 1_000_000_000;
/// The longest pause of a request without an answer. In a flood a listener sends COOKIEs for some
/// requests: if for a sixth, 14 requests in ten seconds would fail in one case of ten.
const UNANSWERED_PAUSE_MAX_NANOS: u64 = 200_000_000;
/// Repetitions of a rejection or of a cancellation, which may get no answer.
const LAST_REPEATS: u32 = 5;

impl Agent<'_> {
    /// Lets time pass, and writes the next packet to `into`, which has
    /// [`CONNECT_PACKET_MAX`](super::CONNECT_PACKET_MAX) bytes. Returns destination and length.
    ///
    /// The owner first ingests the packets of its socket, at most
    /// [`REPLIES_MAX`](super::REPLIES_MAX), so that nothing times out that was received. Then it
    /// calls this until it returns `None`, and then it polls events.
    pub fn poll_transmit(&mut self, now: Instant, into: &mut [u8]) -> Option<(PeerAddress, usize)> {
        self.advance(now);
        if let Some(ConnectReply { to, kind, nonce, proof, reason }) = self.replies.pop_front() {
            let packet = ConnectPacket { reason, ..ConnectPacket::new(kind, nonce, proof) };
            return self.put(to, &packet, into);
        }
        // bound: the exchanges that send
        while let Some(slot) = self.table.next_sending() {
            // The state may have changed since.
            if let Some(packet) = self.table[slot].packet() {
                let len = packet.put(into, self.config.checksum)?;
                self.stats.packets_sent += 1;
                return Some((self.table[slot].peer, len));
            }
        }
        None
    }

    fn put(
        &mut self,
        to: PeerAddress,
        packet: &ConnectPacket<'_>,
        into: &mut [u8],
    ) -> Option<(PeerAddress, usize)> {
        let len = packet.put(into, self.config.checksum)?;
        self.stats.packets_sent += 1;
        Some((to, len))
    }

    /// When [`Self::poll_transmit`] has something to do, or an earlier time; `None`: not before
    /// another call.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        if self.table.has_sending() || !self.replies.is_empty() {
            return Some(Instant::ZERO);
        }
        self.table.next_deadline()
    }

    /// Queues an answer. Without room it is dropped: the packet that it answers will come again.
    pub(super) fn reply(&mut self, reply: ConnectReply) {
        if self.replies.push_back(reply).is_err() {
            self.stats.replies_dropped += 1;
        }
    }

    /// Sends the packet of the present state now, and `times` more at the most.
    pub(super) fn send_repeatedly(&mut self, slot: ExchangeSlot, now: Instant, times: u32) {
        self.table[slot].repeat = Repeat::after(now, FIRST_PAUSE_NANOS, times);
        self.table.arm(slot, now);
        self.table.queue_send(slot);
    }

    /// Sends the packet of a last state now, and some times more.
    pub(super) fn repeat_for(&mut self, slot: ExchangeSlot, now: Instant) {
        self.send_repeatedly(slot, now, LAST_REPEATS);
    }

    /// Does the work of the deadlines that have come.
    fn advance(&mut self, now: Instant) {
        // bound: each pass moves a deadline into the future, or ends an exchange
        while let Some(slot) = self.table.expire(now) {
            let exchange = &mut self.table[slot];
            if exchange.expires_at <= now {
                self.expire(slot, now);
            } else if exchange.repeat.at <= now {
                let unanswered = exchange.state == State::Connecting && !exchange.is_answered;
                let longest = if unanswered { UNANSWERED_PAUSE_MAX_NANOS } else { PAUSE_MAX_NANOS };
                exchange.repeat.advance(now, longest);
                self.stats.repetitions += 1;
                self.table.queue_send(slot);
                self.table.arm(slot, now);
            } else {
                // The wheel does not reach far enough.
                self.table.arm(slot, now);
            }
        }
    }

    /// The time of a state, or of the memory of an exchange, is over.
    fn expire(&mut self, slot: ExchangeSlot, now: Instant) {
        let exchange = &mut self.table[slot];
        match exchange.state {
            State::Connecting => {
                let (peer, nonce, cookie) = (exchange.peer, exchange.nonce, exchange.cookie);
                self.table.end(slot, State::TimedOut, now);
                if cookie != 0 {
                    self.reply(ConnectReply::new(peer, ConnectKind::Cancel, nonce, cookie));
                }
            }
            State::Requested => self.table.end(slot, State::Gone, now),
            State::Accepting => self.table.end(slot, State::AcceptFailed, now),
            _ if exchange.membership == Membership::Released => self.table.free(slot),
            // The owner still holds it: `release` frees it.
            _ => exchange.expires_at = NEVER,
        }
    }
}
