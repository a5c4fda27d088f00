// SPDX-License-Identifier: MIT OR Apache-2.0
//! D. One packet in (`docs/PROTOCOL.md` §4.2): structure, connection, token, age, plausibility;
//! then, and only then, state changes.
//!
//! In: bytes from anybody. Out: effects of a sound packet, or a counted [`DropReason`]; never an
//! error upward. Bound: the records of the packet and the packets that it acknowledges.

use super::Engine;
use super::answer::Answer;
use crate::operation::EVENTS;
use crate::peer::{AckDue, Active, State};
use crate::serial::{Msn, Psn};
use crate::slab::NIL;
use crate::time::Tick;
use crate::window::Arrival;
use crate::wire::{
    Ack, Body, Flags, Header, Packet, Record, Records, WRITES_WITH_DATA_MAX, sacked,
};
use crate::{Datagram, DropReason, Instant, Memory, OpError, PeerAddress};

/// A packet that is older than the newest one by more than this, in ticks of 64 ns (68 s), is
/// stale: the clock on the wire wraps after 275 s.
const STALE_TICKS: u32 = 1 << 30;
/// With fewer active peers each one's next packet mostly comes before its timer fires, and takes it
/// as it is.
const CROWD: u32 = 16;
/// Ticks without packets after which age means nothing any more (60 s).
const AGE_FORGOTTEN_TICKS: u32 = (60_000_000_000 / crate::time::TICK_NANOS) as u32;

impl Engine<'_> {
    /// Takes in one packet.
    pub fn ingest<M: Memory>(&mut self, now: Instant, datagram: Datagram<'_>, memory: &mut M) {
        let now = self.time(now);
        self.stats.packets_received += 1;
        if self.ingest_expected(&datagram, memory) || self.ingest_expected_ack(&datagram) {
            return;
        }
        self.ingest_any(now, &datagram, memory);
    }

    /// Takes in one packet that may be anything.
    pub(super) fn ingest_any<M: Memory>(
        &mut self,
        now: Instant,
        datagram: &Datagram<'_>,
        memory: &mut M,
    ) {
        let checksum = self.config.checksum;
        let outcome = Packet::parse(datagram.bytes, checksum)
            .and_then(|packet| self.take_in(now, &packet, datagram, memory));
        if let Err(reason) = outcome {
            self.stats.count_drop(reason);
            log::trace!("packet of {} dropped: {reason}", datagram.from);
        }
    }

    fn take_in<M: Memory>(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        datagram: &Datagram<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let header = packet.header;
        match &packet.body {
            Body::Handshake(handshake) => {
                self.take_in_handshake(now, header, handshake, datagram.from)
            }
            Body::Reset(_) => self.take_in_reset(header, datagram.from),
            body => {
                let active = self.admit(now, header, body, datagram.from)?;
                let newest = self.heard(active, header, datagram.congestion_experienced);
                let sack = if let Body::Ack(ack, words) = body {
                    self.measure(active, header, ack);
                    words.as_slice()
                } else {
                    &[]
                };
                self.acknowledge(active, header, newest, sack);
                let outcome = match body {
                    Body::Data(records) => self.take_in_data(active, header, records, memory),
                    Body::Close => {
                        self.end_connection(self.actives[active].peer, OpError::Closed);
                        return Ok(());
                    }
                    Body::Ping => {
                        self.owe_ack_now(active);
                        Ok(())
                    }
                    _ => Ok(()),
                };
                self.after_packet(active, now);
                outcome
            }
        }
    }

    /// A packet was taken in, or not: the peer may send what waited for it. The connection may have
    /// ended meanwhile.
    #[inline]
    pub(super) fn after_packet(&mut self, active: u32, now: Instant) {
        if !self.actives.is_used(active) {
            return;
        }
        if self.actives.used() >= CROWD && self.put_off(active, now) {
            return;
        }
        if self.may_send_new(active) {
            self.make_ready(active);
        }
        self.arm(active, now);
    }

    /// Puts the timer of a peer off with which nothing is left to do; returns whether that is so.
    /// Else it would fire for nothing, when the peer's state is out of the caches again.
    fn put_off(&mut self, active: u32, now: Instant) -> bool {
        let state = &self.actives[active];
        let rests = state.is_at_rest();
        if rests {
            self.wheel.arm(active, state.quiet_at().instant(now), now);
        }
        rests
    }

    /// Everything that must hold before a packet of a connection may change anything. Returns the
    /// active state.
    #[inline]
    fn admit(
        &mut self,
        now: Instant,
        header: &Header,
        body: &Body<'_>,
        from: PeerAddress,
    ) -> Result<u32, DropReason> {
        let is_data = matches!(body, Body::Data(_));
        let Some(number) = self.peer_number(header.dst_cid()) else {
            self.answer_unknown(is_data, header, from);
            return Err(DropReason::UnknownConnection);
        };
        let peer = &self.peers[number];
        if peer.address != from {
            return Err(DropReason::WrongSource);
        }
        if !peer.is_connected() || peer.token != header.token() {
            let unknown = is_data && peer.state == State::Closed;
            if unknown && self.closed && peer.token == header.token() {
                // It has not heard that this endpoint closes.
                let close = Answer::close(peer);
                self.answer(close);
            } else {
                self.answer_unknown(unknown, header, from);
            }
            return Err(DropReason::WrongToken);
        }
        let known = (peer.active != NIL).then_some(peer.active);
        let sack = if let Body::Ack(_, words) = body { words.as_slice() } else { &[] };
        match known {
            Some(active) => {
                let state = &self.actives[active];
                let behind = state.newest_sent_at.since(Tick::from_bits(header.sent_at()));
                let recent = self.tick().since(state.newest_arrived) < AGE_FORGOTTEN_TICKS;
                if state.received > 0 && recent && behind >= STALE_TICKS {
                    return Err(DropReason::Stale);
                }
                check_ack(state.next_psn, header.ack_psn(), sack)?;
                check_accepted(state.accepted_msn, state.next_msn, header)?;
                Ok(active)
            }
            None => {
                // Nothing is under way, so there is one thing an acknowledgment can say.
                check_ack(peer.next_psn, header.ack_psn(), sack)?;
                check_accepted(peer.next_msn, peer.next_msn, header)?;
                self.activate(number, now, false).ok_or(DropReason::NoRoom)
            }
        }
    }

    /// A packet of a connection that there is not (any more).
    fn answer_unknown(&mut self, is_data: bool, header: &Header, to: PeerAddress) {
        if is_data {
            let (token, psn) = (header.token(), header.psn());
            self.answer(Answer::Reset { to, token, psn });
        }
    }

    /// Notes that the peer is alive, and when the packet that it sent last arrived. Returns whether
    /// that is this one.
    #[inline]
    fn heard(&mut self, active: u32, header: &Header, marked: bool) -> bool {
        let now = self.tick();
        let mut state = &mut self.actives[active];
        if self.peers[state.peer].state == State::Accepted {
            self.confirm(active);
            state = &mut self.actives[active];
        }
        let sent_at = Tick::from_bits(header.sent_at());
        let forgotten = now.since(state.newest_arrived) >= AGE_FORGOTTEN_TICKS;
        let newest = state.received == 0 || forgotten || state.newest_sent_at.has_come(sent_at);
        hear(state, now, header, marked, newest);
        newest
    }

    fn take_in_data<M: Memory>(
        &mut self,
        active: u32,
        header: &Header,
        records: &Records<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let (psn, flags) = (header.psn(), header.flags());
        let in_turn =
            flags.contains(Flags::BARRIER) || (self.config.rma_events && records.endings > 0);
        let window = &self.actives[active].window;
        let early = psn != window.next();
        let refusal = match window.arrival(psn) {
            Arrival::Duplicate => Some(DropReason::Duplicate),
            Arrival::Beyond => Some(DropReason::BeyondWindow),
            Arrival::Fresh if early && (in_turn || self.finds_error(active, records)) => {
                Some(DropReason::BehindBarrier)
            }
            Arrival::Fresh => self.lacks_room(active, records, early),
        };
        if let Some(reason) = refusal {
            self.actives[active].duplicates_seen |= reason == DropReason::Duplicate;
            self.owe_ack_now(active);
            return Err(reason);
        }
        let mut records = records.clone();
        // bound: records of the packet
        loop {
            if records.messages && header.is_understood() {
                for tagged in [true, false] {
                    self.receive_run(active, header.rnr_epoch, tagged, &mut records, memory);
                }
            }
            let Some(record) = records.next() else { break };
            if records.messages {
                if !self.accept_record(active, header.rnr_epoch, &record, memory) {
                    self.owe_ack_now(active);
                    return Err(DropReason::EarlyWithoutStorage);
                }
                continue;
            }
            self.take_in_record(active, header, &record, memory);
            if !self.actives.is_used(active) {
                // The record has ended the connection.
                return Ok(());
            }
        }
        let now = self.tick();
        let state = &mut self.actives[active];
        state.window.insert(psn);
        let at_once = flags.contains(Flags::ACK_REQUEST) || state.not_ready;
        state.owe_ack(now, at_once);
        state.return_credits();
        let (ack_now, held) = (state.ack_due == AckDue::Now, !state.held.is_empty());
        if ack_now {
            self.make_ready(active);
        }
        if held {
            self.tell_held(active);
        }
        Ok(())
    }

    /// Why the records of a packet cannot be taken in all together now, if they cannot: every
    /// request needs a slot for its response, and all remote CQ data a slot for its event. What
    /// comes `early` leaves as many slots as a packet in turn can need, of whichever peer: its
    /// events are told at once, and those of early packets not before.
    #[inline]
    fn lacks_room(
        &mut self,
        active: u32,
        records: &Records<'_>,
        early: bool,
    ) -> Option<DropReason> {
        if records.requests > 0 && !self.grant(active, records.requests.into()) {
            return Some(DropReason::NoResponder);
        }
        let events = u32::from(records.events);
        let reserve = if early { WRITES_WITH_DATA_MAX as u32 } else { 0 };
        let short = events > 0 && events + reserve > self.recvs.free_in(EVENTS);
        short.then_some(DropReason::NoEvent)
    }

    /// A record that is not of a message.
    fn take_in_record<M: Memory>(
        &mut self,
        active: u32,
        header: &Header,
        record: &Record<'_>,
        memory: &mut M,
    ) {
        match record {
            Record::Write(write) => self.serve_write(active, header, write, memory),
            Record::ReadRequest(request) => self.serve_read(active, request),
            Record::AtomicRequest(request) => self.serve_atomic(active, header, request, memory),
            Record::Response(response) => {
                self.take_in_response(active, header.psn(), response, memory);
            }
            Record::Fin(fin) => self.take_in_fin(active, fin),
            Record::Error(error) => self.take_in_error(active, error),
            Record::Message(_) | Record::Segment(_) | Record::Rts(_) => {}
        }
    }

    pub(super) fn owe_ack_now(&mut self, active: u32) {
        let state = &mut self.actives[active];
        state.ack_due = AckDue::Now;
        state.ack_whole = true;
        self.make_ready(active);
    }

    /// A round trip, less the time that the peer held the packet back; marks; credit.
    pub(super) fn measure(&mut self, active: u32, header: &Header, ack: &Ack) {
        let now = self.tick().bits();
        let state = &mut self.actives[active];
        let since = now.wrapping_sub(ack.echo.get());
        let round_trip = since.wrapping_sub(ack.hold.get());
        // An acknowledgment of nothing echoes nothing; a wild one must not poison the estimate.
        if ack.received.get() > 0 && round_trip <= since && since < STALE_TICKS {
            state.rtt.sample(round_trip);
            state.congestion.measured(round_trip, ack.congestion_marks.get());
        }
        if state.newest_sent_at.bits() == header.sent_at() {
            state.credits.allowed = ack.responder_credit.max(1);
        }
    }
}

/// What every packet of a connection tells, and what only the `newest` does: the one that was sent
/// last of all that have arrived.
#[inline(always)]
pub(super) fn hear(state: &mut Active, now: Tick, header: &Header, marked: bool, newest: bool) {
    state.silent_since = now;
    state.congestion_marks = state.congestion_marks.wrapping_add(u16::from(marked));
    if newest {
        if !state.is_in_touch(now) {
            // The peer may have given back what it granted; an acknowledgment says it anew.
            state.credits.allowed = 1;
        }
        state.newest_sent_at = Tick::from_bits(header.sent_at());
        state.newest_arrived = now;
        state.pressure = header.pressure().eighths_full();
    }
    state.received = state.received.wrapping_add(1);
}

/// An acknowledgment names packets that are under way, or that were acknowledged before.
#[inline(always)]
fn check_ack(next: Psn, ack: Psn, sack: &[u64]) -> Result<(), DropReason> {
    let unsent = |psn: Psn| !psn.is_before(next);
    if (ack != next && unsent(ack)) || sacked(ack, sack).any(unsent) {
        return Err(DropReason::AckOfUnsent);
    }
    Ok(())
}

/// Nobody accepts a message that was not posted.
#[inline]
fn check_accepted(accepted: Msn, next: Msn, header: &Header) -> Result<(), DropReason> {
    if next.is_before(accepted.nearest(header.accepted_msn())) {
        return Err(DropReason::AckOfUnsent);
    }
    Ok(())
}
