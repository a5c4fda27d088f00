// SPDX-License-Identifier: MIT OR Apache-2.0
//! D. One packet in (`docs/PROTOCOL.md` §4.2): structure, connection, token, age, plausibility;
//! then, and only then, state changes.
//!
//! In: bytes from anybody. Out: effects of a sound packet, or a counted [`DropReason`]; never an
//! error upward. Bound: the records of the packet and the packets that it acknowledges.

use super::Engine;
use super::answer::Answer;
use crate::peer::{AckDue, State, ticks};
use crate::serial::{Msn, Psn};
use crate::slab::NIL;
use crate::window::Arrival;
use crate::wire::{Ack, Body, Flags, Header, Packet, Records, sacked};
use crate::{Datagram, DropReason, Instant, Memory, OpError, PeerAddress};

/// A packet that is older than the newest one by more than this, in ticks of 64 ns (68 s), is
/// stale: the clock on the wire wraps after 275 s.
const STALE_TICKS: u32 = 1 << 30;
/// Time without packets after which age means nothing any more.
const AGE_FORGOTTEN_NANOS: u64 = 60_000_000_000;

impl Engine<'_> {
    /// Takes in one packet.
    pub fn ingest<M: Memory>(&mut self, now: Instant, datagram: Datagram<'_>, memory: &mut M) {
        let now = self.time(now);
        self.stats.packets_received += 1;
        let checksum = self.config.checksum;
        let outcome = Packet::parse(datagram.bytes, checksum)
            .and_then(|packet| self.take_in(now, &packet, &datagram, memory));
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
                self.heard(active, header, datagram.congestion_experienced, now);
                let sack = if let Body::Ack(_, words) = body { words.as_slice() } else { &[] };
                self.acknowledge(active, header, sack, now);
                let outcome = match body {
                    Body::Data(records) => self.take_in_data(active, header, records, now, memory),
                    Body::Ack(ack, _) => {
                        self.measure(active, ack, now);
                        Ok(())
                    }
                    Body::Close => {
                        self.end_connection(self.actives[active].peer, OpError::Closed);
                        return Ok(());
                    }
                    _ => {
                        self.owe_ack_now(active);
                        Ok(())
                    }
                };
                self.arm(active, now);
                outcome
            }
        }
    }

    /// Everything that must hold before a packet of a connection may change anything. Returns the
    /// active state.
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
        let connected = matches!(peer.state, State::Accepted | State::Established);
        if !connected || peer.token != header.token() {
            self.answer_unknown(is_data && peer.state == State::Closed, header, from);
            return Err(DropReason::WrongToken);
        }
        let known = (peer.active != NIL).then_some(peer.active);
        let sack = if let Body::Ack(_, words) = body { words.as_slice() } else { &[] };
        match known {
            Some(active) => {
                let state = &self.actives[active];
                let behind = state.newest_sent_at.wrapping_sub(header.sent_at());
                let recent = now < state.newest_arrived.after_nanos(AGE_FORGOTTEN_NANOS);
                if state.received > 0 && recent && (STALE_TICKS..1 << 31).contains(&behind) {
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

    fn answer_unknown(&mut self, is_data: bool, header: &Header, to: PeerAddress) {
        if is_data {
            let (token, psn) = (header.token(), header.psn());
            self.answer(Answer::Reset { to, token, psn });
        }
    }

    /// Notes that the peer is alive, and when the packet that it sent last arrived.
    fn heard(&mut self, active: u32, header: &Header, marked: bool, now: Instant) {
        self.confirm(active, now);
        let state = &mut self.actives[active];
        state.silent_since = now;
        state.congestion_marks = state.congestion_marks.wrapping_add(u16::from(marked));
        let behind = state.newest_sent_at.wrapping_sub(header.sent_at());
        let forgotten = now >= state.newest_arrived.after_nanos(AGE_FORGOTTEN_NANOS);
        if state.received == 0 || forgotten || behind == 0 || behind >= 1 << 31 {
            state.newest_sent_at = header.sent_at();
            state.newest_arrived = now;
        }
        state.received = state.received.wrapping_add(1);
    }

    fn take_in_data<M: Memory>(
        &mut self,
        active: u32,
        header: &Header,
        records: &Records<'_>,
        now: Instant,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        match self.actives[active].window.arrival(header.psn()) {
            Arrival::Fresh => {}
            Arrival::Duplicate => {
                self.actives[active].duplicates_seen = true;
                self.owe_ack_now(active);
                return Err(DropReason::Duplicate);
            }
            Arrival::Beyond => {
                self.owe_ack_now(active);
                return Err(DropReason::BeyondWindow);
            }
        }
        for record in records.clone() {
            if !self.accept_record(active, header.rnr_epoch, &record, memory) {
                return Err(DropReason::EarlyWithoutStorage);
            }
        }
        let state = &mut self.actives[active];
        state.window.insert(header.psn());
        let at_once = header.flags().contains(Flags::ACK_REQUEST) || state.not_ready;
        state.owe_ack(now, at_once);
        if state.ack_due == AckDue::Now {
            self.make_ready(active);
        }
        Ok(())
    }

    fn owe_ack_now(&mut self, active: u32) {
        self.actives[active].ack_due = AckDue::Now;
        self.make_ready(active);
    }

    /// A round trip, less the time that the peer held the packet back.
    fn measure(&mut self, active: u32, ack: &Ack, now: Instant) {
        let state = &mut self.actives[active];
        let since = ticks(now).wrapping_sub(ack.echo.get());
        let round_trip = since.wrapping_sub(ack.hold.get());
        // An acknowledgment of nothing echoes nothing; a wild one must not poison the estimate.
        if ack.received.get() > 0 && round_trip <= since && since < STALE_TICKS {
            state.rtt.sample(round_trip);
        }
    }
}

/// An acknowledgment names packets that are under way, or that were acknowledged before.
fn check_ack(next: Psn, ack: Psn, sack: &[u64]) -> Result<(), DropReason> {
    let unsent = |psn: Psn| !psn.is_before(next);
    if (ack != next && unsent(ack)) || sacked(ack, sack).any(unsent) {
        return Err(DropReason::AckOfUnsent);
    }
    Ok(())
}

/// Nobody accepts a message that was not posted.
fn check_accepted(accepted: Msn, next: Msn, header: &Header) -> Result<(), DropReason> {
    if next.is_before(accepted.nearest(header.accepted_msn())) {
        return Err(DropReason::AckOfUnsent);
    }
    Ok(())
}
