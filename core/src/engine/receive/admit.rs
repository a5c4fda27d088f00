// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admission of a packet to its connection. Every admitted packet shows that the peer is alive, and
//! brings its clock and its receive-buffer occupancy.
//!
//! In: header and body of a sound packet. Out: the connection, or a [`DropReason`]. Bound: the
//! words of a selective acknowledgment.

use crate::collections::serial::{Msn, Psn};
use crate::collections::slab::SlotIndex;
use crate::collections::time::Tick;
use crate::engine::connect::packet::StatelessPacket;
use crate::engine::ctx::Ctx;
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::peer::window::WINDOW_PACKETS;
use crate::peer::{Connection, State};
use crate::wire::{Ack, Body, Header, ProbeBody, Sack};
use crate::{DropReason, PeerAddress};

/// A packet that is older than the latest one by more than this is stale: 68 s, in ticks of 64 ns.
/// The clock on the wire wraps after 275 s.
const STALE_TICKS: u32 = 1 << 30;
/// How far the number of a packet, and the number that it acknowledges, may lie behind the next
/// one. A window is shorter: a packet further back cannot be in flight any more.
const BEHIND_MAX: u32 = 1 << 16;
/// How far the number of a packet may lie ahead of the next one.
const AHEAD_MAX: u32 = 1 << 16;
static_assertions::const_assert!(WINDOW_PACKETS < BEHIND_MAX && WINDOW_PACKETS < AHEAD_MAX);
/// Ticks without packets after which age means nothing any more (60 s).
const AGE_FORGOTTEN_TICKS: u32 = (60_000_000_000 / crate::collections::time::TICK_NANOS) as u32;

impl Ctx<'_> {
    /// Checks every condition that a packet of a connection must meet before it changes anything.
    /// Returns the connection, which is established from then on.
    #[inline]
    pub(super) fn admit(
        &mut self,
        header: &Header,
        body: &Body<'_>,
        from: PeerAddress,
    ) -> Result<ConnSlot, DropReason> {
        let expects_answer = matches!(body, Body::Data(_) | Body::Piece(..) | Body::Ping);
        let Some(slot) = self.table.peer_slot(header.dst_cid()) else {
            self.reset_unknown(expects_answer, header, from);
            return Err(DropReason::UnknownConnection);
        };
        let peer = &self.table[slot];
        if !peer.address().is_same_host(&from) {
            return Err(self.wrong_source(slot, expects_answer, header, from));
        }
        if !peer.is_connected() || !header.proves(peer.token()) {
            // Before a connection is established, this side has no earlier one any more.
            let unknown = expects_answer && peer.state() != State::Established;
            if unknown && self.table.is_closed() && header.proves(peer.token()) {
                // The peer has not received the close notification.
                let close = StatelessPacket::close(peer);
                self.table.queue_stateless(close);
            } else {
                self.reset_unknown(unknown, header, from);
            }
            return Err(DropReason::WrongToken);
        }
        let sack = sack_of(header, body);
        if peer.connection().is_some() {
            let state = &self.table[peer.connection()];
            let behind = state.rx().newest_sent_at().since(Tick::from_bits(header.sent_at()));
            let recent =
                self.timers.tick().since(state.rx().newest_arrived()) < AGE_FORGOTTEN_TICKS;
            if state.rx().received() > 0 && recent && behind >= STALE_TICKS {
                return Err(DropReason::Stale);
            }
            check_number(state.rx().receive_window().next(), header)?;
            check_ack(state.tx().next_psn(), header.ack_psn(), sack)?;
            check_accepted(state.tx().accepted_msn(), state.tx().next_msn(), header)?;
            let conn = peer.connection();
            if peer.state() == State::Accepted {
                self.establish(conn);
            }
            Ok(conn)
        } else {
            // Nothing is under way: an acknowledgment can only repeat the last one.
            check_number(peer.expected_psn(), header)?;
            check_ack(peer.next_psn(), header.ack_psn(), sack)?;
            check_accepted(peer.next_msn(), peer.next_msn(), header)?;
            let (now, accepted) = (self.timers.tick(), peer.state() == State::Accepted);
            let conn =
                self.table.allocate_connection(slot, now, false).ok_or(DropReason::NoRoom)?;
            if accepted {
                self.establish(conn);
            }
            Ok(conn)
        }
    }

    /// Answers a packet for a peer without a connection and without a name, as one for an unknown
    /// peer. Another one comes from a wrong host.
    #[cold]
    fn wrong_source(
        &mut self,
        peer: PeerSlot,
        expects_answer: bool,
        header: &Header,
        from: PeerAddress,
    ) -> DropReason {
        if self.table[peer].address() != PeerAddress::NONE {
            return DropReason::WrongSource;
        }
        self.reset_unknown(expects_answer, header, from);
        DropReason::UnknownConnection
    }

    /// Answers a packet that expects an answer, of a connection that does not exist, or not any
    /// more.
    fn reset_unknown(&mut self, expects_answer: bool, header: &Header, to: PeerAddress) {
        if expects_answer {
            self.table.queue_stateless(StatelessPacket::reset(header, to));
        }
    }

    /// Records the arrival of a packet. Returns whether it is the latest: none that was sent after
    /// it has arrived.
    #[inline]
    pub(super) fn record_arrival(&mut self, conn: ConnSlot, header: &Header, marked: bool) -> bool {
        let now = self.timers.tick();
        let state = &mut self.table[conn];
        let sent_at = Tick::from_bits(header.sent_at());
        let forgotten = now.since(state.rx().newest_arrived()) >= AGE_FORGOTTEN_TICKS;
        let is_latest = state.rx().received() == 0
            || forgotten
            || state.rx().newest_sent_at().has_come(sent_at);
        record_packet(state, (now, self.timers.last_poll()), header, marked, is_latest);
        is_latest
    }

    /// Drops data packet `psn` of a connection, or a piece of it: an acknowledgment says so at
    /// once. Returns the `reason`.
    pub(super) fn drop_data(&mut self, conn: ConnSlot, psn: Psn, reason: DropReason) -> DropReason {
        if reason == DropReason::Duplicate {
            self.table[conn].rx_mut().duplicate_arrived(psn);
        }
        self.excuse(conn, psn, reason);
        self.owe_ack_now(conn);
        reason
    }

    /// This side has no room for packet `psn`. If it is the next one, its sender is excused for all
    /// that it owes. One with requests beyond the credit is a fault of its sender, or the credit
    /// has lapsed, and that holds up nothing else for long: it excuses the order alone.
    pub(super) fn excuse(&mut self, conn: ConnSlot, psn: Psn, reason: DropReason) {
        if psn != self.table[conn].rx().receive_window().next() {
            return;
        }
        match self.timers.watch(conn) {
            Some(watch) if reason == DropReason::NoResponder => watch.excuse_order(),
            Some(watch) => watch.excuse(),
            None => {}
        }
    }

    /// Answers a probe of the path MTU.
    pub(super) fn acknowledge_probe(&mut self, conn: ConnSlot, probe: &ProbeBody) {
        let peer = self.table.peer_of(conn);
        self.table.acknowledge_probe(peer, probe.round.get(), probe.size.get());
    }

    /// Takes the measurements of an acknowledgment: a round trip, less the delay of the packet at
    /// the peer; congestion marks; credit. Returns when the packet was sent that it echoes.
    pub(super) fn measure(&mut self, conn: ConnSlot, header: &Header, ack: &Ack) -> Option<Tick> {
        let (now, wait) = (self.timers.tick(), self.timers.wait());
        let state = &mut self.table[conn];
        let since = now.bits().wrapping_sub(ack.echo.get());
        let round_trip = since.wrapping_sub(ack.hold.get());
        // An acknowledgment before the first packet echoes no time. An impossible echo must not
        // spoil the estimate.
        let echoes = ack.received.get() > 0;
        let possible = round_trip <= since && since < STALE_TICKS;
        self.stats.echoes_ignored += u64::from(echoes && !possible);
        if echoes && possible {
            let waits = ack.wait.get().saturating_add(wait);
            let marks = ack.congestion_marks.get();
            state.path_mut().measured(since, round_trip, waits, marks, now);
            if state.path().is_below_least(round_trip) {
                let peer = state.peer();
                self.timers.propose_least(conn, peer, round_trip);
            }
        }
        if state.rx().newest_sent_at().bits() == header.sent_at() {
            state.credits_mut().allow(ack.responder_credit);
        }
        (echoes && possible).then(|| Tick::from_bits(ack.echo.get()))
    }
}

/// The bitmap of an acknowledgment; for other packets none.
#[inline]
pub(super) fn sack_of<'a>(header: &Header, body: &'a Body<'_>) -> Sack<'a> {
    match body {
        Body::Ack(ack, words) => Sack::new(header.ack_psn(), ack, words),
        _ => Sack::NONE,
    }
}

/// Records a packet of a connection; `is_latest` as [`Ctx::record_arrival`] returns it. The packet
/// may have waited since `last_poll`.
#[inline(always)]
pub(super) fn record_packet(
    state: &mut Connection,
    (now, last_poll): (Tick, Tick),
    header: &Header,
    marked: bool,
    is_latest: bool,
) {
    state.rx_mut().count_silence_from(now);
    state.rx_mut().packet_arrived(marked);
    if is_latest {
        if !state.rx().heard_recently(now) {
            // The peer may have taken its credit back; an acknowledgment grants it again.
            state.credits_mut().lapse();
        }
        let sent_at = Tick::from_bits(header.sent_at());
        state.rx_mut().newest_packet_arrived(sent_at, now, now.since(last_poll));
        state.path_mut().set_occupancy(header.receiver_status().occupancy());
    }
}

/// Checks that a packet with records has a number that one in flight can have, if `next` is the
/// lowest that is missing. It is a part of the proof of membership (`docs/PROTOCOL.md` §5.3).
#[inline(always)]
fn check_number(next: Psn, header: &Header) -> Result<(), DropReason> {
    let first = Psn(next.0.wrapping_sub(BEHIND_MAX));
    let possible = header.psn().since(first) < BEHIND_MAX + AHEAD_MAX;
    if possible || !header.has_psn() { Ok(()) } else { Err(DropReason::Stale) }
}

/// Checks that an acknowledgment names packets that are under way, or that were acknowledged
/// a short time ago.
#[inline(always)]
fn check_ack(next: Psn, ack: Psn, sack: Sack<'_>) -> Result<(), DropReason> {
    let unsent = |psn: Psn| !psn.is_before(next);
    if next.since(ack) > BEHIND_MAX || sack.highest().is_some_and(unsent) {
        return Err(DropReason::AckOfUnsent);
    }
    Ok(())
}

/// Checks that the peer has accepted no message that was not posted.
#[inline]
fn check_accepted(accepted: Msn, next: Msn, header: &Header) -> Result<(), DropReason> {
    if next.is_before(accepted.nearest(header.accepted_msn())) {
        return Err(DropReason::AckOfUnsent);
    }
    Ok(())
}
