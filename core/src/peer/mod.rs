// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of one peer (`docs/PROTOCOL.md` §5). A small part stays as long as the peer is in the
//! table. A [`Connection`] comes from a pool while anything is under way.

mod competition;
mod congestion;
mod connection;
pub(crate) mod credit;
mod deadlines;
mod errors;
mod hello;
pub(crate) mod hosts;
pub(crate) mod in_flight;
pub(crate) mod operation;
pub(crate) mod packet_record;
mod path;
pub(crate) mod path_mtu;
pub(crate) mod port_requests;
pub(crate) mod queue;
mod receive_state;
mod rtt;
mod send_state;
pub(crate) mod slots;
pub(crate) mod watch;
pub(crate) mod window;

pub(crate) use congestion::CongestionWindow;
pub(crate) use connection::Connection;
pub(crate) use connection::Schedule;
pub(crate) use deadlines::{PING_PART, Silence};
pub(crate) use errors::Errors;
pub(crate) use path::{Extra, LossRule, Path};
pub(crate) use rtt::Rtt;

use crate::api::hosts::Host;
use crate::collections::serial::{Msn, Psn};
use crate::collections::slab::SlotIndex;
use crate::collections::time::Tick;
use crate::peer::slots::ConnSlot;
use crate::wire::{Handshake, Token};
use crate::{PeerAddress, PeerId};

/// Where a connection stands (`docs/PROTOCOL.md` §5.2).
///
/// ```text
///             post_send                 HelloAck
///   Closed ──────────────► HelloSent ──────────────► Established
///     │ ▲                      │ Hello                    ▲
///     │ │ failure, close,      ▼                          │ HelloAck, or any packet
///     │ └─ reset ────────── (any)  ┌──► Accepted ─────────┘ with the right token
///     └────────── Hello ───────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum State {
    /// No connection.
    #[default]
    Closed,
    /// This side has sent a hello.
    HelloSent,
    /// This side has agreed to the peer's hello; the peer may not know that yet.
    Accepted,
    /// Both sides know of the connection.
    Established,
    /// Not in the table: its slot is not used again for a while.
    Removed,
}

/// The right of a peer to its slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum Standing {
    /// It spoke first, and has not shown that it receives at its address.
    Unproven,
    /// It spoke first, and receives at its address.
    #[default]
    Proven,
    /// The application has named it: it stays in the table until the application removes it.
    Named,
}

/// A peer in the table. Sequence numbers here are valid while no [`Connection`] part exists.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Peer {
    /// Proves that a packet belongs to the present or last connection.
    token: Token,
    address: PeerAddress,
    /// The place of its host in the counts of hosts.
    host: Host,
    /// Number of the present or last connection, or of the last attempt at one.
    epoch: u16,
    /// Number of the connection that the token is of.
    token_epoch: u16,
    /// The epoch that the peer proposed: a repetition of that handshake is not a new one.
    hello_epoch: u16,
    /// Largest packet that the peer takes, in bytes.
    receive_max: u16,
    /// Largest packet that passes the path to it, as far as is known. Below [`Self::receive_max`],
    /// the low three bits are the era in which that was found.
    path_max: u16,
    /// The peer's name for the connection.
    remote_cid: u32,
    next_psn: Psn,
    expected_psn: Psn,
    next_msn: Msn,
    expected_msn: Msn,
    /// The slot of the connection, or `ConnSlot::NONE`.
    connection: ConnSlot,
    /// Smoothed round trip, as [`Rtt::kept`] gives it; 0: unknown.
    srtt: u16,
    /// Packets that the peer's port can hold between two of its polls.
    port_packets: u16,
    tx_rnr_epoch: u8,
    rx_rnr_epoch: u8,
    /// Error records sent and received in this connection.
    errors_issued: u8,
    errors_received: u8,
    state: State,
    standing: Standing,
}

// A bound that is promised: an idle peer, with its slot's bookkeeping; the index takes 8 to
// 16 bytes more.
static_assertions::const_assert!(size_of::<crate::collections::slab::Slot<Peer>>() <= 80);

impl Default for Peer {
    fn default() -> Self {
        Self::new(PeerAddress::NONE, Host::default())
    }
}

impl Peer {
    pub(crate) const fn new(address: PeerAddress, host: Host) -> Self {
        Self {
            token: Token(0),
            address,
            host,
            epoch: 0,
            token_epoch: 0,
            hello_epoch: 0,
            receive_max: 0,
            path_max: 0,
            remote_cid: u32::MAX,
            next_psn: Psn(0),
            expected_psn: Psn(0),
            next_msn: Msn(0),
            expected_msn: Msn(0),
            connection: ConnSlot::NONE,
            srtt: 0,
            port_packets: 0,
            tx_rnr_epoch: 0,
            rx_rnr_epoch: 0,
            errors_issued: 0,
            errors_received: 0,
            state: State::Closed,
            standing: Standing::Proven,
        }
    }

    /// Proves that a packet belongs to the present or last connection.
    #[inline(always)]
    pub(crate) const fn token(&self) -> Token {
        self.token
    }

    #[inline(always)]
    pub(crate) const fn address(&self) -> PeerAddress {
        self.address
    }

    /// The place of its host in the counts of hosts.
    pub(crate) const fn host(&self) -> Host {
        self.host
    }

    #[inline(always)]
    pub(crate) const fn state(&self) -> State {
        self.state
    }

    pub(crate) const fn standing(&self) -> Standing {
        self.standing
    }

    pub(crate) fn set_standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// The slot of the connection, or `ConnSlot::NONE`.
    #[inline(always)]
    pub(crate) const fn connection(&self) -> ConnSlot {
        self.connection
    }

    /// Number of the present or last connection, or of the last attempt at one.
    pub(crate) const fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The epoch that the peer proposed: a repetition of that handshake is not a new one.
    pub(crate) const fn hello_epoch(&self) -> u16 {
        self.hello_epoch
    }

    pub(crate) fn set_hello_epoch(&mut self, epoch: u16) {
        self.hello_epoch = epoch;
    }

    /// The peer's name for the connection.
    #[inline(always)]
    pub(crate) const fn remote_cid(&self) -> PeerId {
        PeerId::from_bits(self.remote_cid)
    }

    /// The number of the next packet to the peer, while no [`Connection`] part exists.
    pub(crate) const fn next_psn(&self) -> Psn {
        self.next_psn
    }

    /// The number of the next packet of the peer, while no [`Connection`] part exists.
    pub(crate) const fn expected_psn(&self) -> Psn {
        self.expected_psn
    }

    /// The number of the next message to the peer, while no [`Connection`] part exists.
    pub(crate) const fn next_msn(&self) -> Msn {
        self.next_msn
    }

    /// The number of the next message of the peer, while no [`Connection`] part exists.
    pub(crate) const fn expected_msn(&self) -> Msn {
        self.expected_msn
    }

    /// Error records sent in this connection, while no [`Connection`] part exists.
    pub(crate) const fn errors_issued(&self) -> u8 {
        self.errors_issued
    }

    /// Largest packet that the peer takes, in bytes.
    #[inline(always)]
    pub(crate) const fn receive_max(&self) -> u16 {
        self.receive_max
    }

    /// Packets that the peer's port can hold between two of its polls.
    #[inline(always)]
    pub(crate) const fn port_packets(&self) -> u16 {
        self.port_packets
    }

    /// This side proposes connection `epoch`.
    pub(crate) fn propose(&mut self, epoch: u16) {
        self.state = State::HelloSent;
        self.epoch = epoch;
    }

    /// This side agrees to the peer's proposal `epoch`.
    pub(crate) fn accept(&mut self, epoch: u16) {
        self.state = State::Accepted;
        self.hello_epoch = epoch;
    }

    /// Records the parameters of connection `epoch` with a peer that sees this side as incarnation
    /// `own`. The path passes the largest packet that the peer takes, as far as is known.
    pub(crate) fn connect(&mut self, own: u64, handshake: &Handshake, epoch: u16) {
        self.token = Token::new(own, handshake.src_incarnation.get(), epoch);
        (self.epoch, self.token_epoch) = (epoch, epoch);
        self.remote_cid = handshake.src_cid.get();
        self.receive_max = handshake.receive_max.get();
        self.path_max = self.receive_max;
        self.port_packets = handshake.port_packets.get().max(1);
    }

    /// Names the other side: its address, its host, its name for the connection.
    pub(crate) fn name(&mut self, address: PeerAddress, host: Host, remote_cid: PeerId) {
        (self.address, self.host, self.remote_cid) = (address, host, remote_cid.bits());
    }

    /// Both sides know of the connection.
    pub(crate) fn establish(&mut self) {
        self.state = State::Established;
    }

    /// Ends the connection or the attempt at one. Whether there was one.
    pub(crate) fn close(&mut self) -> bool {
        core::mem::replace(&mut self.state, State::Closed) != State::Closed
    }

    /// Gives the peer a connection of the pool.
    pub(crate) fn attach(&mut self, conn: ConnSlot) {
        self.connection = conn;
    }

    /// The peer's connection goes back to the pool.
    pub(crate) fn detach(&mut self) {
        self.connection = ConnSlot::NONE;
    }

    /// The peer is removed. The time of the removal is stored in a field that is unused until the
    /// slot is used again.
    pub(crate) fn set_removed(&mut self, now: Tick) {
        self.state = State::Removed;
        self.token = Token(now.bits().into());
    }

    pub(crate) fn removed_at(&self) -> Tick {
        Tick::from_bits(self.token.low())
    }

    /// Largest packet for this peer, in bytes, where the port sends `payload_max`: whole words.
    pub(crate) fn payload_max(&self, payload_max: usize) -> usize {
        usize::from(self.path_max).min(payload_max) / 8 * 8
    }

    /// Records in an `era` that the path passes `size` bytes, at most `full`, which is the
    /// [full size](Self::full_size).
    pub(crate) const fn set_path(&mut self, size: u16, full: u16, era: u8) {
        let short = (size / 8 * 8) | (era as u16 % ERAS);
        self.path_max = if size >= full { self.receive_max } else { short };
    }

    /// Whether the path does not pass the full size, as far as is known.
    #[inline]
    pub(crate) const fn has_short_path(&self) -> bool {
        self.path_max / 8 < self.receive_max / 8
    }

    /// Whether that was found some time before this `era`.
    pub(crate) const fn may_try_longer(&self, era: u8) -> bool {
        (era as u16).wrapping_sub(self.path_max) % ERAS >= ERAS_SHORT
    }

    /// Largest packet for this peer, in bytes, on a path that passes every size.
    pub(crate) fn full_size(&self, payload_max: usize) -> u16 {
        // It fits two bytes, as one of the operands does.
        (usize::from(self.receive_max).min(payload_max) / 8 * 8) as u16
    }

    /// Whether there is a connection, as far as this side knows.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state, State::Accepted | State::Established)
    }

    /// Whether the peer spoke first, and nothing is under way with it.
    pub(crate) fn is_resting(&self) -> bool {
        self.connection.is_none() && self.standing != Standing::Named
    }

    /// Whether the peer spoke first and has no connection. An unanswered hello of an unproven peer
    /// does not count.
    pub(crate) fn is_evictable(&self) -> bool {
        let over = self.state == State::Closed || self.standing == Standing::Unproven;
        over && self.is_resting()
    }

    /// Whether the present or last connection is with `remote`, of which this side is seen as
    /// `own`.
    pub(crate) fn is_of(&self, own: u64, remote: u64) -> bool {
        self.token == Token::new(own, remote, self.token_epoch)
    }

    /// Whether data can go out.
    pub(crate) fn is_established(&self) -> bool {
        self.state == State::Established
    }
}

/// Eras that are told apart.
const ERAS: u16 = 8;
/// Eras until larger packets are tried again on a path. After eight eras without traffic the count
/// begins anew.
const ERAS_SHORT: u16 = 4;
/// The part of the time for that which an era takes: three of them pass for certain.
pub(crate) const ERA_PART: u64 = 3;
