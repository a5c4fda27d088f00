// SPDX-License-Identifier: MIT OR Apache-2.0
//! The side that asks for a connection.
//!
//! In: requests of the owner; cookies, pending notices, acceptances and rejections. Out: events,
//! and the packets that answer. Callers: `mod.rs`. Bound: one answer to a packet; all states but
//! the first are remembered for a time only.

use super::Agent;
use super::event::{ConnectError, RequestId};
use super::exchange::{Exchange, ExchangeSlot, Key, Repeat, Role, State};
use super::reply::ConnectReply;
use super::transmit::FIRST_PAUSE_NANOS;
use crate::api::limits::CONNECT_DATA_MAX;
use crate::collections::secret::Use;
use crate::wire::{ConnectKind, ConnectPacket, NONCE_BITS, RejectReason};
use crate::{DropReason, Instant, PeerAddress};

/// The longest time between two signs of life.
const KEEPALIVE_NANOS: u64 = 1_000_000_000;

impl Agent<'_> {
    /// Begins a request to the agent at `to`, for a connection with the data port `local` of this
    /// side, not 0.
    ///
    /// # Errors
    /// [`ConnectError`]; nothing has changed.
    pub fn connect(
        &mut self,
        now: Instant,
        to: PeerAddress,
        local: u16,
        data: &[u8],
    ) -> Result<RequestId, ConnectError> {
        if data.len() > CONNECT_DATA_MAX {
            return Err(ConnectError::TooLong);
        }
        let mut exchange = Exchange {
            role: Role::Initiator,
            state: State::Connecting,
            peer: to,
            nonce: self.draw_nonce(),
            cookie: self.cookies.shown_to(now, to),
            local: PeerAddress::from_v6([0; 16], local),
            repeat: self.repeat_request(now),
            expires_at: self.timeout_from(now),
            ..Exchange::default()
        };
        exchange.set_data(data);
        let slot = self.table.insert(exchange, now).ok_or(ConnectError::Full)?;
        self.table.queue_send(slot);
        Ok(self.table.id(slot))
    }

    /// A new number for a request.
    fn draw_nonce(&mut self) -> u128 {
        let [low, high] = core::array::from_fn(|_| self.secret.draw(Use::ConnectNonce));
        (u128::from(high) << 64 | u128::from(low)) & ((1 << NONCE_BITS) - 1)
    }

    /// The repetitions of a request. The first one comes before the time-out, however short that
    /// is: a listener does not answer a request that it received once until its application does.
    fn repeat_request(&self, now: Instant) -> Repeat {
        Repeat::after(now, self.at_most_quarter(FIRST_PAUSE_NANOS), u32::MAX)
    }

    /// A pause, or a quarter of the connect time-out if that is less.
    fn at_most_quarter(&self, pause: u64) -> u64 {
        // A pause of nothing would repeat the packet without end.
        pause.min(self.timeout_nanos() / 4).max(1)
    }

    /// A message of ICMP has come about the packet that begins with `quoted`. Its request ends in
    /// [`ConnectEvent::Unreachable`](super::ConnectEvent::Unreachable) with this `code`, unless it
    /// got a packet from `to`. A forged message does not know the number of a request.
    ///
    /// # Errors
    /// [`DropReason::UnknownConnection`]; counted.
    pub fn report_unreachable(
        &mut self,
        now: Instant,
        to: PeerAddress,
        quoted: &[u8],
        code: i32,
    ) -> Result<(), DropReason> {
        let slot = ConnectPacket::nonce_of(quoted).and_then(|nonce| self.request_with(nonce));
        let Some(slot) = slot.filter(|&slot| self.may_be_unreachable(slot, to)) else {
            self.stats.count_drop(DropReason::UnknownConnection);
            return Err(DropReason::UnknownConnection);
        };
        self.table.end(slot, State::Unreachable(code), now);
        Ok(())
    }

    /// No packet can be sent to `to`. Requests to it that got no packet end in
    /// [`ConnectEvent::Unreachable`](super::ConnectEvent::Unreachable) with this `code`. Bound:
    /// the slots.
    pub fn unreachable(&mut self, now: Instant, to: PeerAddress, code: i32) {
        let mut next = 0;
        while let Some(slot) = self.table.next_used(next) {
            next = self.table.id(slot).number + 1;
            if self.may_be_unreachable(slot, to) {
                self.table.end(slot, State::Unreachable(code), now);
            }
        }
    }

    /// Gives up a request, or its acceptance: the other side is told some times.
    pub(super) fn give_up(&mut self, slot: ExchangeSlot, now: Instant) {
        let has_proof = self.table[slot].cookie != 0 || self.table[slot].acceptance != 0;
        self.table.remember(slot, State::Cancelled, now);
        self.table.release(slot);
        if has_proof {
            self.repeat_for(slot, now);
        } else {
            // The listener keeps nothing of a request without a cookie.
            self.table.free(slot);
        }
    }

    /// Whether an exchange is a request to `to` that got no packet.
    fn may_be_unreachable(&self, slot: ExchangeSlot, to: PeerAddress) -> bool {
        let exchange = &self.table[slot];
        exchange.state == State::Connecting && !exchange.is_answered && exchange.peer == to
    }

    /// The request of this side that a packet belongs to.
    fn request_of(&self, packet: &ConnectPacket<'_>) -> Option<ExchangeSlot> {
        self.request_with(packet.nonce)
    }

    fn request_with(&self, nonce: u128) -> Option<ExchangeSlot> {
        self.table.find(&Key::new(Role::Initiator, PeerAddress::NONE, nonce))
    }

    /// The request of this side that a packet belongs to, if it has no final answer.
    fn open_request_of(&self, packet: &ConnectPacket<'_>) -> Result<ExchangeSlot, DropReason> {
        let slot = self.request_of(packet).ok_or(DropReason::UnknownConnection)?;
        let is_open = self.table[slot].state == State::Connecting;
        if is_open { Ok(slot) } else { Err(DropReason::UnexpectedHandshake) }
    }

    pub(super) fn process_cookie(
        &mut self,
        now: Instant,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let slot = self.open_request_of(packet)?;
        let (repeat, expires_at) = (self.repeat_request(now), self.timeout_from(now));
        let exchange = &mut self.table[slot];
        if packet.proof == 0 || packet.proof == exchange.cookie {
            return Err(DropReason::Duplicate);
        }
        exchange.is_answered = true;
        exchange.expires_at = expires_at;
        exchange.cookie = packet.proof;
        // The listener may have answered from another address than it was asked at.
        self.cookies.keep(now, exchange.peer, packet.proof);
        exchange.repeat = repeat;
        self.table.arm(slot, now);
        self.table.queue_send(slot);
        Ok(())
    }

    pub(super) fn process_pending(
        &mut self,
        now: Instant,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let slot = self.open_request_of(packet)?;
        let expires_at = self.timeout_from(now);
        let keepalive = self.at_most_quarter(KEEPALIVE_NANOS);
        let exchange = &mut self.table[slot];
        exchange.is_answered = true;
        exchange.expires_at = expires_at;
        exchange.repeat = Repeat::after(now, keepalive, u32::MAX);
        self.table.arm(slot, now);
        Ok(())
    }

    pub(super) fn process_accept(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let slot = self.request_of(packet);
        let state = slot.map(|slot| (slot, self.table[slot].state));
        let (kind, result) = match state {
            Some((slot, State::Connecting)) => {
                let exchange = &mut self.table[slot];
                exchange.acceptance = packet.proof;
                exchange.remote = named_or_at(packet.address, from);
                exchange.remote_cid = packet.cid;
                exchange.set_data(packet.data);
                self.table.end(slot, State::Connected, now);
                self.stats.connected += 1;
                (ConnectKind::Confirm, Ok(()))
            }
            Some((slot, State::Connected)) if self.table[slot].acceptance == packet.proof => {
                (ConnectKind::Confirm, Err(DropReason::Duplicate))
            }
            Some(_) => (ConnectKind::Cancel, Err(DropReason::UnexpectedHandshake)),
            None => (ConnectKind::Cancel, Err(DropReason::UnknownConnection)),
        };
        self.reply(ConnectReply::new(from, kind, packet.nonce, packet.proof));
        result
    }

    pub(super) fn process_reject(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
        reason: RejectReason,
    ) -> Result<(), DropReason> {
        self.reply(ConnectReply::new(from, ConnectKind::RejectAck, packet.nonce, 0));
        let slot = self.open_request_of(packet)?;
        self.table[slot].set_data(packet.data);
        self.table.end(slot, State::Refused(reason), now);
        Ok(())
    }
}

/// `address`, with the IP address of `from` where it has none.
pub(super) fn named_or_at(address: PeerAddress, from: PeerAddress) -> PeerAddress {
    if address.octets() == [0; 16] { PeerAddress::new(from.ip(), address.port()) } else { address }
}
