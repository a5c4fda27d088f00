// SPDX-License-Identifier: MIT OR Apache-2.0
//! The side that is asked for a connection.
//!
//! In: the owner's decisions; requests, confirmations, acknowledgments of rejections,
//! cancellations. Out: events, and the packets that answer. Callers: `mod.rs`. Bound: one answer to
//! a packet, no longer than it before its sender has shown a cookie; the backlog bounds the
//! requests.

use super::Agent;
use super::cookies::{COOKIE_PERIOD_NANOS, cookie, is_cookie};
use super::event::{AnswerError, RequestId};
use super::exchange::{Exchange, ExchangeSlot, Key, Membership, Repeat, Role, State};
use super::initiator::named_or_at;
use super::reply::ConnectReply;
use crate::api::limits::CONNECT_DATA_MAX;
use crate::collections::secret::Use;
use crate::wire::{ConnectKind, ConnectPacket, RejectReason};
use crate::{DropReason, Instant, PeerAddress};

/// A request that finds fewer than these waiting is taken in, however many its host has.
const UNSHARED: u32 = 16;

static_assertions::const_assert!(2 * COOKIE_PERIOD_NANOS <= super::table::MEMORY_NANOS);

impl Agent<'_> {
    /// Sets the backlog, at most that of the configuration; with 0 the agent does not listen.
    /// Requests that came before stay.
    pub fn set_listening(&mut self, backlog: u32) {
        self.backlog = backlog.min(self.config.backlog);
    }

    /// Accepts a request; `local` is the data port of this side. Where its IP address is
    /// unspecified, the initiator takes that of the packet's source.
    ///
    /// # Errors
    /// [`AnswerError`]; nothing has changed.
    pub fn accept(
        &mut self,
        now: Instant,
        id: RequestId,
        local: PeerAddress,
        data: &[u8],
    ) -> Result<(), AnswerError> {
        let slot = self.unanswered(id, data)?;
        let expires_at = self.timeout_from(now);
        let exchange = &mut self.table[slot];
        exchange.set_data(data);
        exchange.state = State::Accepting;
        exchange.local = local;
        exchange.expires_at = expires_at;
        self.send_repeatedly(slot, now, u32::MAX);
        Ok(())
    }

    /// Rejects a request. Its identifier ends.
    ///
    /// # Errors
    /// [`AnswerError`]; nothing has changed.
    pub fn reject(&mut self, now: Instant, id: RequestId, data: &[u8]) -> Result<(), AnswerError> {
        let slot = self.unanswered(id, data)?;
        self.turn_down(slot, now, data);
        Ok(())
    }

    /// The request `id`, if its owner has read its event and has not answered it.
    fn unanswered(&self, id: RequestId, data: &[u8]) -> Result<ExchangeSlot, AnswerError> {
        let slot = self.table.resolve(id).ok_or(AnswerError::Gone)?;
        let exchange = &self.table[slot];
        if exchange.state != State::Requested || exchange.membership != Membership::None {
            return Err(AnswerError::Gone);
        }
        if data.len() > CONNECT_DATA_MAX { Err(AnswerError::TooLong) } else { Ok(slot) }
    }

    /// Rejects a request with this data.
    pub(super) fn turn_down(&mut self, slot: ExchangeSlot, now: Instant, data: &[u8]) {
        self.table[slot].set_data(data);
        self.table.remember(slot, State::Rejected, now);
        self.table.release(slot);
        self.repeat_for(slot, now);
    }

    pub(super) fn process_connect(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let nonce = packet.nonce;
        let slot = self.table.find(&Key::new(Role::Listener, from, nonce));
        let proves = slot.is_some_and(|slot| self.table[slot].cookie == packet.proof)
            || is_cookie(&self.secret, now, from, packet.proof);
        match slot {
            None if self.backlog == 0 => {
                self.stats.refused += 1;
                self.reply(ConnectReply::reject(from, nonce, RejectReason::Refused));
                Err(DropReason::UnknownConnection)
            }
            _ if !proves && !self.cookie_rate.take(now) => Err(DropReason::NoRoom),
            _ if !proves => {
                let cookie = cookie(&self.secret, now, from);
                self.stats.cookies_sent += 1;
                self.reply(ConnectReply::new(from, ConnectKind::Cookie, nonce, cookie));
                Ok(())
            }
            Some(slot) => self.process_repeated(now, slot, packet),
            None => self.process_new(now, from, packet),
        }
    }

    /// A request that is known.
    fn process_repeated(
        &mut self,
        now: Instant,
        slot: ExchangeSlot,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let expires_at = self.timeout_from(now);
        let exchange = &mut self.table[slot];
        let (peer, nonce) = (exchange.peer, packet.nonce);
        match exchange.state {
            State::Requested => {
                exchange.cookie = packet.proof;
                exchange.expires_at = expires_at;
                self.table.arm(slot, now);
                self.reply(ConnectReply::new(peer, ConnectKind::Pending, nonce, 0));
            }
            State::Accepting | State::Rejected => self.table.queue_send(slot),
            State::Gone | State::AcceptFailed => {
                self.reply(ConnectReply::reject(peer, nonce, RejectReason::Gone));
            }
            _ => return Err(DropReason::Duplicate),
        }
        Ok(())
    }

    /// A new request, with a cookie.
    fn process_new(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let mut exchange = Exchange {
            role: Role::Listener,
            state: State::Requested,
            peer: from,
            nonce: packet.nonce,
            cookie: packet.proof,
            acceptance: self.secret.draw(Use::ConnectNonce),
            remote: named_or_at(PeerAddress::from_v6([0; 16], packet.address.port()), from),
            remote_cid: packet.cid,
            repeat: Repeat::NEVER,
            expires_at: self.timeout_from(now),
            ..Exchange::default()
        };
        exchange.set_data(packet.data);
        let waiting = self.table.unreleased(Role::Listener);
        let free = self.backlog.saturating_sub(waiting);
        if free > 0 && waiting >= UNSHARED && !self.table.has_share(&from, free) {
            // It comes again, and finds room when its host has fewer requests.
            return Err(DropReason::NoRoom);
        }
        let slot = if free > 0 { self.table.insert(exchange, now) } else { None };
        let Some(slot) = slot else {
            self.stats.busy += 1;
            self.reply(ConnectReply::reject(from, packet.nonce, RejectReason::Busy));
            return Err(DropReason::NoRoom);
        };
        self.stats.requested += 1;
        // The answer of the application is the answer to this packet, unless it is late.
        self.table.queue_event(slot);
        Ok(())
    }

    pub(super) fn process_confirm(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let slot = self.request_from(from, packet)?;
        let exchange = &self.table[slot];
        if exchange.acceptance != packet.proof {
            return Err(DropReason::WrongToken);
        }
        if exchange.state != State::Accepting {
            return Err(DropReason::Duplicate);
        }
        self.table.end(slot, State::Established, now);
        self.stats.established += 1;
        Ok(())
    }

    pub(super) fn process_reject_ack(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let slot = self.request_from(from, packet)?;
        if self.table[slot].state != State::Rejected {
            return Err(DropReason::Duplicate);
        }
        self.stop_repeating(slot, now);
        Ok(())
    }

    pub(super) fn process_cancel(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        let slot = self.request_from(from, packet)?;
        let exchange = &self.table[slot];
        let proves = [exchange.cookie, exchange.acceptance].contains(&packet.proof)
            || is_cookie(&self.secret, now, from, packet.proof);
        if !proves {
            return Err(DropReason::WrongToken);
        }
        match exchange.state {
            State::Requested => self.table.end(slot, State::Gone, now),
            State::Accepting => self.table.end(slot, State::AcceptFailed, now),
            State::Rejected => self.stop_repeating(slot, now),
            _ => return Err(DropReason::Duplicate),
        }
        Ok(())
    }

    /// The request that a packet of an initiator belongs to.
    fn request_from(
        &self,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<ExchangeSlot, DropReason> {
        let key = Key::new(Role::Listener, from, packet.nonce);
        self.table.find(&key).ok_or(DropReason::UnknownConnection)
    }

    fn stop_repeating(&mut self, slot: ExchangeSlot, now: Instant) {
        self.table[slot].repeat = Repeat::NEVER;
        self.table.arm(slot, now);
    }
}
