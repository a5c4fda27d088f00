// SPDX-License-Identifier: MIT OR Apache-2.0
//! An exchange: a connection that is being made, as one side sees it.
//!
//! In: fields that `initiator`, `listener` and `table` set. Out: the event of its state, and the
//! packet that the state repeats. Bound: one event and one packet at a time, because both follow
//! from the state.

use super::event::{ConnectEvent, RequestId};
use crate::api::limits::CONNECT_DATA_MAX;
use crate::collections::index::IndexKey;
use crate::collections::list::{Link, Links};
use crate::collections::secret::sip_hash;
use crate::collections::slab::SlotIndex;
use crate::wire::{ConnectKind, ConnectPacket, RejectReason};
use crate::{Instant, PeerAddress, PeerId};

/// No time: nothing is due.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A slot of an agent's exchanges.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ExchangeSlot(u32);

impl SlotIndex for ExchangeSlot {
    const NONE: Self = Self(u32::MAX);

    fn from_number(number: u32) -> Self {
        Self(number)
    }

    fn number(self) -> u32 {
        self.0
    }
}

/// The side of an exchange; also the class of its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Initiator = 0,
    Listener = 1,
}

/// The number of roles.
pub(super) const ROLES: usize = 2;

/// The state of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Initiator: the request is repeated.
    Connecting,
    /// Initiator: accepted.
    Connected,
    /// Initiator: rejected by the other side.
    Refused(RejectReason),
    /// Initiator: nothing was received for the connect time-out.
    TimedOut,
    /// Initiator: the network cannot reach the listener.
    Unreachable(i32),
    /// Initiator: the owner has given the request up.
    Cancelled,
    /// Listener: the owner has to accept or reject.
    Requested,
    /// Listener: the acceptance is repeated.
    Accepting,
    /// Listener: the acceptance is confirmed.
    Established,
    /// Listener: the owner rejected the request.
    Rejected,
    /// Listener: the initiator has given the request up, or nothing is received of it.
    Gone,
    /// Listener: the acceptance was not confirmed.
    AcceptFailed,
}

impl State {
    /// Whether the exchange may still change.
    pub(super) const fn is_live(self) -> bool {
        matches!(self, Self::Connecting | Self::Requested | Self::Accepting)
    }
}

/// The list that an exchange is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Membership {
    None,
    /// Its event waits for the owner.
    Event,
    /// The owner has released it; it makes room when its slot is needed.
    Released,
}

/// An exchange.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(super) role: Role,
    pub(super) state: State,
    pub(super) membership: Membership,
    /// Whether the packet of its state waits to be sent.
    pub(super) is_sending: bool,
    /// Initiator: whether anything was received from the other side.
    pub(super) is_answered: bool,
    /// The other agent.
    pub(super) peer: PeerAddress,
    /// The number of the request.
    pub(super) nonce: u128,
    /// The cookie that the request was last received or is sent with; 0: none.
    pub(super) cookie: u64,
    /// The number of the acceptance.
    pub(super) acceptance: u64,
    /// The data port of this side.
    pub(super) local: PeerAddress,
    /// The name of the connection on this side.
    pub(super) local_cid: PeerId,
    /// The data port of the other side.
    pub(super) remote: PeerAddress,
    /// The name of the connection on the other side.
    pub(super) remote_cid: PeerId,
    pub(super) repeat: Repeat,
    /// The end of the state, or of the memory of the exchange.
    pub(super) expires_at: Instant,
    pub(super) data: [u8; CONNECT_DATA_MAX],
    pub(super) data_len: u16,
    /// Neighbours in the list of [`Membership`].
    pub(super) links: Links<ExchangeSlot>,
    /// Neighbours among those that send.
    pub(super) send_links: Links<ExchangeSlot>,
}

/// When the packet of a state is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Repeat {
    pub(super) at: Instant,
    /// The pause after that.
    pub(super) pause: u64,
    /// How often, at the most.
    pub(super) left: u32,
}

impl Repeat {
    /// Not at all.
    pub(super) const NEVER: Self = Self { at: NEVER, pause: 0, left: 0 };

    /// `times` times, the first one after `pause` nanoseconds.
    pub(super) const fn after(now: Instant, pause: u64, times: u32) -> Self {
        Self { at: now.after_nanos(pause), pause: pause * 2, left: times }
    }

    /// Takes the repetition that is due; the next one follows after a pause of `longest` at most.
    pub(super) fn advance(&mut self, now: Instant, longest: u64) {
        self.left -= 1;
        self.at = if self.left == 0 { NEVER } else { now.after_nanos(self.pause.min(longest)) };
        self.pause = self.pause.saturating_mul(2).min(longest);
    }
}

impl Default for Exchange {
    fn default() -> Self {
        Self {
            role: Role::Initiator,
            state: State::Cancelled,
            membership: Membership::None,
            is_sending: false,
            is_answered: false,
            peer: PeerAddress::NONE,
            nonce: 0,
            cookie: 0,
            acceptance: 0,
            local: PeerAddress::NONE,
            local_cid: PeerId::NONE,
            remote: PeerAddress::NONE,
            remote_cid: PeerId::NONE,
            repeat: Repeat::NEVER,
            expires_at: NEVER,
            data: [0; CONNECT_DATA_MAX],
            data_len: 0,
            links: Links::default(),
            send_links: Links::default(),
        }
    }
}

impl Exchange {
    /// The data that was set last.
    pub(super) fn data(&self) -> &[u8] {
        self.data.get(..usize::from(self.data_len)).unwrap_or_default()
    }

    /// Sets the data; `false`, without a change, if it is too long.
    pub(super) fn set_data(&mut self, data: &[u8]) -> bool {
        let Some(room) = self.data.get_mut(..data.len()) else { return false };
        room.copy_from_slice(data);
        self.data_len = data.len() as u16;
        true
    }

    /// The data that came with the last event of the exchange.
    pub(super) fn received(&self) -> &[u8] {
        match self.state {
            State::Requested | State::Connected | State::Refused(_) => self.data(),
            _ => &[],
        }
    }

    /// The event of the present state.
    pub(super) fn event(&self, id: RequestId) -> Option<ConnectEvent> {
        Some(match self.state {
            State::Connected => ConnectEvent::Connected { id, peer: self.remote },
            State::Refused(reason) => ConnectEvent::Rejected { id, reason },
            State::TimedOut => ConnectEvent::TimedOut { id },
            State::Unreachable(code) => ConnectEvent::Unreachable { id, code },
            State::Requested => {
                ConnectEvent::Requested { id, from: self.peer, data_address: self.remote }
            }
            State::Established => ConnectEvent::Established { id, peer: self.remote },
            State::Gone => ConnectEvent::RequestGone { id },
            State::AcceptFailed => ConnectEvent::AcceptFailed { id },
            State::Connecting | State::Cancelled | State::Accepting | State::Rejected => {
                return None;
            }
        })
    }

    /// The packet that the present state repeats.
    pub(super) fn packet(&self) -> Option<ConnectPacket<'_>> {
        let new = |kind, proof| ConnectPacket::new(kind, self.nonce, proof);
        let (address, cid, data) = (self.local, self.local_cid, self.data());
        Some(match self.state {
            // A listener keeps nothing of a request without a cookie, so it has no data yet. The
            // packet is as long as the answer.
            State::Connecting if self.cookie == 0 => {
                ConnectPacket { address, cid, ..new(ConnectKind::Connect, 0) }
            }
            State::Connecting => {
                ConnectPacket { address, cid, data, ..new(ConnectKind::Connect, self.cookie) }
            }
            State::Accepting => {
                ConnectPacket { address, cid, data, ..new(ConnectKind::Accept, self.acceptance) }
            }
            State::Rejected => {
                let reason = Some(RejectReason::Rejected);
                ConnectPacket { reason, data, ..new(ConnectKind::Reject, 0) }
            }
            State::Cancelled => {
                let proof = if self.acceptance == 0 { self.cookie } else { self.acceptance };
                new(ConnectKind::Cancel, proof)
            }
            _ => return None,
        })
    }

    /// The key in the table.
    pub(super) fn key(&self) -> Key {
        Key::new(self.role, self.peer, self.nonce)
    }

    /// The next time at which something is due.
    pub(super) fn deadline(&self) -> Instant {
        self.repeat.at.min(self.expires_at)
    }
}

impl Link<ExchangeSlot> for Exchange {
    fn link(&mut self) -> &mut Links<ExchangeSlot> {
        &mut self.links
    }
}

/// The key of an exchange: the number of the request. A listener adds the initiator's address,
/// because each initiator chooses its own numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    role: u64,
    address: PeerAddress,
    nonce: u128,
}

impl Key {
    pub(super) const fn new(role: Role, peer: PeerAddress, nonce: u128) -> Self {
        let address = match role {
            Role::Initiator => PeerAddress::NONE,
            Role::Listener => peer,
        };
        Self { role: role as u64, address, nonce }
    }
}

impl IndexKey for Key {
    fn hash(&self, secret: [u64; 2]) -> u64 {
        let [high, low, port] = self.address.words();
        let (nonce, nonce_high) = (self.nonce as u64, (self.nonce >> 64) as u64);
        sip_hash(secret, &[high, low, port, nonce, nonce_high, self.role])
    }
}
