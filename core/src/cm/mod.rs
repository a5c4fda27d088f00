// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection management for connected endpoints (`docs/PROTOCOL.md` §12): a request, its answer,
//! and the data of the application that both carry.
//!
//! An [`Agent`] serves one UDP socket of the kernel, and plays both roles: initiator and listener.
//! The connection itself is between two engines; the two agents exchange the UDP ports of these.
//!
//! In: calls of the owner, received packets, the time. Out: packets to send, and events, each once.
//! Caller: the owner of the socket, one call at a time. Bounds: [`AgentConfig`] has the exchanges
//! of each role. [`REPLIES_MAX`] answers wait to be sent. A packet causes at most one answer.
//! Nothing is kept for a sender that has not shown that it receives at its address.

mod cookies;
mod event;
mod exchange;
mod initiator;
mod listener;
mod reply;
mod stats;
mod storage;
mod table;
mod transmit;

use crate::collections::secret::Secret;
use crate::wire::{ConnectKind, ConnectPacket};
use crate::{ConfigError, DropReason, Instant, PeerAddress, PeerId};
use cookies::{CookieRate, KnownCookies};
use exchange::{Role, State};
use reply::ConnectReply;
use table::ExchangeTable;

pub use crate::api::limits::CONNECT_DATA_MAX;
pub use crate::wire::{CONNECT_PACKET_MAX, RejectReason};
pub use event::{AnswerError, ConnectError, ConnectEvent, RequestId};
pub use reply::REPLIES_MAX;
pub use stats::AgentStats;
#[cfg(feature = "alloc")]
pub use storage::AgentStorageBox;
pub use storage::{AgentConfig, AgentStorage};

/// The connection manager of one UDP socket.
#[derive(Debug)]
pub struct Agent<'s> {
    config: AgentConfig,
    secret: Secret,
    table: ExchangeTable<'s>,
    /// Requests that may be unreleased at once; 0: the agent does not listen.
    backlog: u32,
    /// Cookies of listeners, for the requests of this side.
    cookies: KnownCookies,
    /// The rate of cookies for the requests of others.
    cookie_rate: CookieRate,
    replies: heapless::Deque<ConnectReply, REPLIES_MAX>,
    stats: AgentStats,
}

impl<'s> Agent<'s> {
    /// An agent that does not listen. `key` is random, and another one for each agent.
    ///
    /// # Errors
    /// [`ConfigError`] when a slice has the wrong length or a capacity is too large.
    pub fn new(
        config: &AgentConfig,
        storage: AgentStorage<'s>,
        key: u128,
    ) -> Result<Self, ConfigError> {
        storage.check(config)?;
        let secret = Secret::new(key);
        let table = ExchangeTable::new(storage, config.slots()?, &secret)
            .ok_or(ConfigError::Storage("exchanges"))?;
        let (cookies, replies) = (KnownCookies::default(), heapless::Deque::new());
        let (cookie_rate, stats) = (CookieRate::default(), AgentStats::default());
        Ok(Self {
            config: *config,
            secret,
            table,
            backlog: 0,
            cookies,
            cookie_rate,
            replies,
            stats,
        })
    }

    /// Ends an exchange in any state, for example because its endpoint is closed. The other side is
    /// told, no event follows, and the identifier ends.
    pub fn cancel(&mut self, now: Instant, id: RequestId) {
        let Some(slot) = self.table.resolve(id) else { return };
        match self.table[slot].state {
            State::Connecting | State::Connected => self.give_up(slot, now),
            State::Requested | State::Accepting => self.turn_down(slot, now, &[]),
            _ => self.release(now, id),
        }
    }

    /// Releases an exchange after its terminal event: its slot may be used again. The identifier
    /// ends. An exchange without a terminal event is cancelled.
    pub fn release(&mut self, now: Instant, id: RequestId) {
        let Some(slot) = self.table.resolve(id) else { return };
        if self.table[slot].state.is_live() {
            return self.cancel(now, id);
        }
        self.table.release(slot);
        if self.table[slot].expires_at == exchange::NEVER {
            self.table.free(slot);
        }
    }

    /// Processes a packet that came from `from`.
    ///
    /// # Errors
    /// The reason for dropping it. No exchange has changed; an answer may be queued.
    pub fn ingest(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &[u8],
    ) -> Result<(), DropReason> {
        self.stats.packets_received += 1;
        let result = ConnectPacket::parse(packet, self.config.checksum)
            .and_then(|packet| self.process(now, from, &packet));
        if let Err(reason) = result {
            self.stats.count_drop(reason);
        }
        result
    }

    fn process(
        &mut self,
        now: Instant,
        from: PeerAddress,
        packet: &ConnectPacket<'_>,
    ) -> Result<(), DropReason> {
        match packet.kind {
            ConnectKind::Connect => self.process_connect(now, from, packet),
            ConnectKind::Confirm => self.process_confirm(now, from, packet),
            ConnectKind::RejectAck => self.process_reject_ack(now, from, packet),
            ConnectKind::Cancel => self.process_cancel(now, from, packet),
            ConnectKind::Cookie => self.process_cookie(now, packet),
            ConnectKind::Pending => self.process_pending(now, packet),
            ConnectKind::Accept => self.process_accept(now, from, packet),
            ConnectKind::Reject => {
                let reason = packet.reason.ok_or(DropReason::Malformed)?;
                self.process_reject(now, from, packet, reason)
            }
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ConnectEvent> {
        self.table.next_event()
    }

    /// Whether [`Self::poll_event`] has an event.
    #[must_use]
    pub fn has_event(&self) -> bool {
        self.table.has_event()
    }

    /// The data that came with the last event of an exchange; empty for an identifier that ended.
    #[must_use]
    pub fn data(&self, id: RequestId) -> &[u8] {
        self.table.resolve(id).map_or(&[], |slot| self.table[slot].received())
    }

    /// Sets the name of the connection on this side, for the packets that follow. The caller sets
    /// it before it sends, after [`Self::connect`] or [`Self::accept`].
    pub fn set_local_cid(&mut self, id: RequestId, cid: PeerId) {
        if let Some(slot) = self.table.resolve(id) {
            self.table[slot].local_cid = cid;
        }
    }

    /// The name of the connection on the other side, which came with the last event;
    /// [`PeerId::NONE`]: it has none.
    #[must_use]
    pub fn remote_cid(&self, id: RequestId) -> PeerId {
        self.table.resolve(id).map_or(PeerId::NONE, |slot| self.table[slot].remote_cid)
    }

    /// Whether a rejection is repeated that the other side has not acknowledged. Bound: the slots.
    #[must_use]
    pub fn is_rejecting(&self) -> bool {
        let mut next = 0;
        while let Some(slot) = self.table.next_used(next) {
            next = self.table.id(slot).number + 1;
            let exchange = &self.table[slot];
            if exchange.state == State::Rejected && exchange.repeat.at != exchange::NEVER {
                return true;
            }
        }
        false
    }

    /// Requests of others that are not released, and slots in use for them and for those that are
    /// remembered.
    #[must_use]
    pub fn requests(&self) -> (u32, u32) {
        (self.table.unreleased(Role::Listener), self.table.used(Role::Listener))
    }

    /// Statistics since the agent was made.
    #[must_use]
    pub const fn stats(&self) -> &AgentStats {
        &self.stats
    }

    fn timeout_from(&self, now: Instant) -> Instant {
        now.after(self.config.connect_timeout)
    }

    fn timeout_nanos(&self) -> u64 {
        u64::try_from(self.config.connect_timeout.as_nanos()).unwrap_or(u64::MAX)
    }
}
