// SPDX-License-Identifier: MIT OR Apache-2.0
//! F. One packet out: whose turn it is, and what that peer sends next.
//!
//! Order for a peer: an acknowledgment that shows holes, lost packets, the tail probe, new records,
//! a plain acknowledgment. In: an empty buffer. Out: a sealed packet and its destination. Bound:
//! peers that turn out to have nothing to send leave the line; a peer sends at most
//! [`TURN_PACKETS`] in a row.

use super::{Engine, post::pending_cost};
use crate::in_flight::{TxFlags, TxPacket};
use crate::peer::{AckDue, Schedule, ticks};
use crate::serial::Psn;
use crate::slab::{List, NIL};
use crate::wire::{
    Ack, Flags, HEADER_LEN, Header, PacketKind, Pressure, SEGMENT_QUANTUM, TAG_RESERVE,
    message_len, put_message, put_segment, seal, segment_overhead,
};
use crate::{Destination, Gather, Instant, Memory, OpId, PeerId, Transmit};
use zerocopy::IntoBytes;

/// A peer gives way to the next after this many packets: enough for segment trains, fair enough for
/// latency.
const TURN_PACKETS: u32 = 16;
/// Every so many packets the sender asks for an acknowledgment at once.
const ACK_REQUEST_EVERY: u32 = 64;

impl Engine<'_> {
    /// Writes the next packet into `packet`; `None` when there is nothing to send. `packet` has at
    /// least the port's `payload_max` bytes.
    pub fn transmit<M: Memory>(
        &mut self,
        now: Instant,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Transmit> {
        let now = self.time(now);
        let sent = self
            .transmit_answer(now, packet)
            .or_else(|| self.transmit_peer(now, packet, memory))?;
        self.stats.packets_sent += 1;
        Some(sent)
    }

    fn transmit_peer<M: Memory>(
        &mut self,
        now: Instant,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Transmit> {
        // bound: each pass returns, or takes a peer out of the line
        while !self.ready.is_empty() {
            let active = self.ready.head();
            let number = self.actives[active].peer;
            let room = packet.len().min(self.peers[number].payload_max());
            let len = packet.get_mut(..room).and_then(|into| self.emit(active, into, now, memory));
            self.next_turn(active);
            let Some(len) = len else { continue };
            if let Some(written) = packet.get_mut(..len) {
                seal(written, self.config.checksum);
            }
            self.arm(active, now);
            let to =
                Destination { peer: self.peer_id(number), address: self.peers[number].address };
            return Some(Transmit { len, to });
        }
        None
    }

    /// After a peer had its turn: it stays first in line, goes to the end, or leaves.
    fn next_turn(&mut self, active: u32) {
        self.turn = self.turn.saturating_sub(1);
        if !self.has_packet(active) {
            self.unschedule(active);
            self.actives[active].released = false;
            self.turn = TURN_PACKETS;
            if self.may_send_new(active) {
                self.enqueue(active, Schedule::Gathering);
            }
        } else if self.turn == 0 {
            self.ready.remove(&mut self.actives, active);
            self.ready.push_back(&mut self.actives, active);
            self.turn = TURN_PACKETS;
        }
    }

    /// Whether a peer has a packet to send now.
    fn has_packet(&self, active: u32) -> bool {
        let state = &self.actives[active];
        state.ack_due == AckDue::Now
            || state.may_resend()
            || state.probe
            || (self.may_send_new(active) && (state.released || self.has_full_packet(active)))
    }

    /// Writes the peer's next packet; returns its length.
    fn emit<M: Memory>(
        &mut self,
        active: u32,
        packet: &mut [u8],
        now: Instant,
        memory: &mut M,
    ) -> Option<usize> {
        let state = &self.actives[active];
        let ack_now = state.ack_due == AckDue::Now;
        if ack_now && (state.window.has_holes() || state.duplicates_seen) {
            return self.emit_ack(active, packet, now);
        }
        if let Some(psn) = self.next_lost(active) {
            return self.emit_again(active, psn, packet, now, memory);
        }
        if core::mem::take(&mut self.actives[active].probe)
            && let Some(psn) = self.last_unacknowledged(active)
        {
            return self.emit_again(active, psn, packet, now, memory);
        }
        if self.may_send_new(active) {
            return self.emit_new(active, packet, now, memory);
        }
        if ack_now { self.emit_ack(active, packet, now) } else { None }
    }

    /// The lowest packet that is taken for lost. Bound: the window.
    fn next_lost(&mut self, active: u32) -> Option<Psn> {
        let state = &mut self.actives[active];
        if !state.may_resend() {
            return None;
        }
        let mut psn = state.lost_from;
        while psn != state.next_psn {
            let note = self.in_flight.packet(&state.directory, psn)?;
            if note.flags.contains(TxFlags::LOST) {
                state.lost_from = psn;
                return Some(psn);
            }
            psn = psn.plus(1);
        }
        // Not reached while the count is right; a wrong count must not stop the peer for good.
        debug_assert!(false, "lost packets are at or after `lost_from`");
        state.lost_from = state.first_psn;
        state.lost = 0;
        None
    }

    /// The packet sent last among those under way (RFC 8985 §7.3). Bound: the window.
    fn last_unacknowledged(&mut self, active: u32) -> Option<Psn> {
        let state = &self.actives[active];
        let count = state.next_psn.since(state.first_psn);
        (0..count).rev().map(|n| state.first_psn.plus(n)).find(|&psn| {
            let note = self.in_flight.packet(&state.directory, psn);
            note.is_some_and(|note| !note.flags.contains(TxFlags::ACKED))
        })
    }

    /// The common header of a packet, with everything this side has to tell. An acknowledgment has
    /// number 0.
    fn header(&self, active: u32, kind: PacketKind, flags: Flags, psn: Psn) -> Header {
        let state = &self.actives[active];
        let peer = &self.peers[state.peer];
        let pressure = Pressure::new(state.not_ready, state.rx_rnr_epoch);
        let flags = if state.duplicates_seen { flags | Flags::DUPLICATES_SEEN } else { flags };
        Header::new(kind, PeerId::from_bits(peer.remote_cid), peer.token)
            .with_flags(flags)
            .with_psn(psn)
            .with_received(state.window.next(), state.expected_msn.0 as u16, pressure)
            .with_sent_at(ticks(self.now))
    }

    fn emit_ack(&mut self, active: u32, packet: &mut [u8], now: Instant) -> Option<usize> {
        let header = self.header(active, PacketKind::Ack, Flags::empty(), Psn(0));
        put_header(&header, packet)?;
        let state = &mut self.actives[active];
        let sack = state.window.sack();
        let words = sack.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        let hold = now.since(state.newest_arrived).as_nanos() / u128::from(crate::peer::TICK_NANOS);
        let ack = Ack {
            echo: state.newest_sent_at.into(),
            hold: u32::try_from(hold).unwrap_or(u32::MAX).into(),
            congestion_marks: state.congestion_marks.into(),
            sack_words: words as u8,
            responder_credit: 1,
            received: state.received.into(),
        };
        let (head, tail) = packet.get_mut(HEADER_LEN..)?.split_at_mut_checked(size_of::<Ack>())?;
        head.copy_from_slice(ack.as_bytes());
        let tail = tail.get_mut(..words * size_of::<u64>())?;
        for (into, word) in tail.chunks_exact_mut(size_of::<u64>()).zip(sack) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        state.acknowledged(true);
        self.stats.acks_sent += 1;
        Some(HEADER_LEN + size_of::<Ack>() + words * size_of::<u64>())
    }

    /// Sends packet `psn` once more: the records it had, less those of an attempt that is over.
    fn emit_again<M: Memory>(
        &mut self,
        active: u32,
        psn: Psn,
        packet: &mut [u8],
        now: Instant,
        memory: &mut M,
    ) -> Option<usize> {
        let state = &mut self.actives[active];
        let note = self.in_flight.packet(&state.directory, psn)?;
        let sent = *note;
        note.sent_at = ticks(now);
        note.flags = note.flags.union(TxFlags::RESENT).difference(TxFlags::LOST);
        if sent.flags.contains(TxFlags::LOST) {
            state.lost -= 1;
            state.resend_credit = state.resend_credit.saturating_sub(1);
        }
        state.timer_from = now;
        self.stats.retransmissions += 1;
        let flags = Flags::RETRANSMISSION | Flags::ACK_REQUEST;
        let mut header = self.header(active, PacketKind::Data, flags, psn);
        header.rnr_epoch = sent.rnr_epoch;
        put_header(&header, packet)?;
        let mut at = HEADER_LEN;
        if sent.flags.contains(TxFlags::SEGMENT) {
            if let Some(number) = self.op_of_attempt(sent.op, sent.rnr_epoch) {
                at +=
                    self.put_part(number, sent.offset, sent.len, packet.get_mut(at..)?, memory)?;
            }
        } else {
            self.each_message(&sent, |engine, number| {
                let rest = packet.get_mut(at..).unwrap_or_default();
                at += engine.put_whole(number, rest, memory).unwrap_or(0);
            });
        }
        self.actives[active].acknowledged(false);
        Some(at)
    }

    /// Sends what has not been sent yet: one segment, or as many whole messages as fit.
    fn emit_new<M: Memory>(
        &mut self,
        active: u32,
        packet: &mut [u8],
        now: Instant,
        memory: &mut M,
    ) -> Option<usize> {
        let psn = self.actives[active].next_psn;
        let first = self.actives[active].cursor;
        let room = packet.len().checked_sub(TAG_RESERVE)?;
        let body = packet.get_mut(HEADER_LEN..room)?;
        let envelope = self.sends[first].envelope;
        let whole = message_len(envelope.total as usize, envelope.data.is_some());
        let offset = self.sends[first].sent;
        let (taken, len, kind) = if whole <= body.len() {
            let (taken, count) = self.put_messages(active, body, memory);
            (taken, count, TxFlags::empty())
        } else {
            let (taken, len) = self.put_next_segment(active, body, memory)?;
            (taken, len, TxFlags::SEGMENT)
        };
        let state = &mut self.actives[active];
        let note = TxPacket {
            op: OpId::new(first, self.sends.generation(first)),
            offset,
            sent_at: ticks(now),
            len,
            flags: kind,
            rnr_epoch: state.tx_rnr_epoch,
        };
        if !self.in_flight.push(&mut state.directory, psn, note) {
            debug_assert!(false, "`may_send_new` asked for room");
            return None;
        }
        if state.all_acknowledged() {
            state.silent_since = now;
        }
        state.next_psn = psn.plus(1);
        state.timer_from = now;
        self.stats.data_packets_sent += 1;
        let last =
            psn.0 % ACK_REQUEST_EVERY == ACK_REQUEST_EVERY - 1 || self.is_window_full(active);
        let flags = if last { Flags::ACK_REQUEST } else { Flags::empty() };
        let mut header = self.header(active, PacketKind::Data, flags, psn);
        header.rnr_epoch = note.rnr_epoch;
        put_header(&header, packet)?;
        self.actives[active].acknowledged(false);
        Some(HEADER_LEN + taken)
    }

    fn is_window_full(&self, active: u32) -> bool {
        let state = &self.actives[active];
        state.cursor != NIL && !self.may_send_new(active)
    }

    /// Whole messages from the cursor on, as many as fit. Returns bytes taken and messages written.
    fn put_messages<M: Memory>(
        &mut self,
        active: u32,
        body: &mut [u8],
        memory: &mut M,
    ) -> (usize, u16) {
        let (mut at, mut count) = (0, 0);
        // bound: a message takes at least 16 bytes
        loop {
            let number = self.actives[active].cursor;
            if number == NIL {
                break;
            }
            let rest = body.get_mut(at..).unwrap_or_default();
            let Some(len) = self.put_whole(number, rest, memory) else { break };
            at += len;
            count += 1;
            let op = &mut self.sends[number];
            op.sent = op.envelope.total;
            op.in_flight = 1;
            self.advance_cursor(active);
        }
        (at, count)
    }

    /// The next segment of the message at the cursor. Returns bytes taken and payload length.
    fn put_next_segment<M: Memory>(
        &mut self,
        active: u32,
        body: &mut [u8],
        memory: &mut M,
    ) -> Option<(usize, u16)> {
        let number = self.actives[active].cursor;
        let op = &self.sends[number];
        let most = body.len().checked_sub(segment_overhead(op.envelope.data.is_some()))?;
        let most = most - most % SEGMENT_QUANTUM;
        let offset = op.sent;
        let len = (op.envelope.total - offset).min(u32::try_from(most).ok()?);
        let len = u16::try_from(len).ok()?;
        let taken = self.put_part(number, offset, len, body, memory)?;
        let op = &mut self.sends[number];
        op.sent += u32::from(len);
        op.in_flight += 1;
        if op.sent == op.envelope.total {
            self.advance_cursor(active);
        }
        Some((taken, len))
    }

    /// The send at the cursor is in packets entirely.
    fn advance_cursor(&mut self, active: u32) {
        let state = &mut self.actives[active];
        let number = state.cursor;
        let op = &mut self.sends[number];
        op.all_sent = true;
        state.pending = state.pending.saturating_sub(pending_cost(op.envelope.total));
        state.cursor = List::next(&mut self.sends, number);
    }

    fn put_whole<M: Memory>(&self, number: u32, into: &mut [u8], memory: &mut M) -> Option<usize> {
        let op = self.op_id(number);
        let envelope = &self.sends[number].envelope;
        put_message(into, envelope, |payload| memory.gather(Gather { op, offset: 0 }, payload))
    }

    fn put_part<M: Memory>(
        &self,
        number: u32,
        offset: u32,
        len: u16,
        into: &mut [u8],
        memory: &mut M,
    ) -> Option<usize> {
        let from = Gather { op: self.op_id(number), offset: u64::from(offset) };
        let envelope = &self.sends[number].envelope;
        put_segment(into, envelope, offset, len, |payload| memory.gather(from, payload))
    }
}

fn put_header(header: &Header, packet: &mut [u8]) -> Option<()> {
    packet.get_mut(..HEADER_LEN)?.copy_from_slice(header.as_bytes());
    Some(())
}
