// SPDX-License-Identifier: MIT OR Apache-2.0
//! F. One packet out: whose turn it is, and what that peer sends next.
//!
//! Order for a peer: an acknowledgment that no other packet can carry, the question whether it is
//! there, lost packets, the tail probe, new records, a plain acknowledgment. In: an empty buffer.
//! Out: a sealed packet and its destination. Bound: peers that turn out to have nothing to send
//! leave the line; a peer sends at most [`TURN_PACKETS`] in a row.

use super::Engine;
use crate::peer::{AckDue, Peer, Schedule};
use crate::serial::Psn;
use crate::time::Tick;
use crate::wire::{Ack, Flags, HEADER_LEN, Header, PacketKind, Pressure, seal};
use crate::{Destination, Instant, Memory, PeerId, Transmit};
use zerocopy::IntoBytes;

/// A peer gives way to the next after this many packets: enough for segment trains, fair enough for
/// latency.
const TURN_PACKETS: u32 = 16;

/// A packet that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emitted {
    pub(super) len: usize,
    /// Whether records that were never sent may follow, where writing it has shown that.
    pub(super) more: Option<bool>,
}

impl Emitted {
    const fn of(len: usize) -> Self {
        Self { len, more: None }
    }
}

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
        let answer = if self.has_answer() { self.transmit_answer(now, packet) } else { None };
        let sent = match answer {
            Some(sent) => sent,
            None => self.transmit_peer(now, packet, memory)?,
        };
        self.stats.packets_sent += 1;
        Some(sent)
    }

    fn transmit_peer<M: Memory>(
        &mut self,
        now: Instant,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Transmit> {
        // bound: each pass returns, ends an operation, or takes a peer out of the line
        while !self.ready.is_empty() {
            let active = self.ready.head();
            let number = self.actives[active].peer;
            let peer = &self.peers[number];
            let Peer { address, receive_max, .. } = *peer;
            let room = peer.payload_max(packet.len().min(self.limits.payload_max));
            let emitted = packet.get_mut(..room).and_then(|into| self.emit(active, into, memory));
            self.next_turn(active, emitted.and_then(|emitted| emitted.more));
            let Some(Emitted { len, .. }) = emitted else { continue };
            if let Some(written) = packet.get_mut(..len) {
                seal(written, self.config.checksum);
            }
            if self.begins_timer(active) {
                self.arm(active, now);
            }
            let to = Destination { peer: self.peer_id(number), address };
            return Some(Transmit { len, to, receive_max });
        }
        None
    }

    /// Whether the packet that was just sent may bring a deadline that is nearer than those there
    /// are. Behind another packet that is under way it makes timers later, if anything.
    #[inline]
    fn begins_timer(&self, active: u32) -> bool {
        let state = &self.actives[active];
        state.next_psn.since(state.first_psn) <= 1
            || state.congestion.is_pace()
            || self.wheel.deadline(active).is_none()
    }

    /// After a peer had its turn: it stays first in line, goes to the end, or leaves. `more` as in
    /// [`Emitted`].
    #[inline(always)]
    fn next_turn(&mut self, active: u32, more: Option<bool>) {
        self.turn = self.turn.saturating_sub(1);
        let more = more.unwrap_or_else(|| self.may_send_new(active));
        if !self.has_packet(active, more) {
            // It is the first in line.
            self.ready.remove(&mut self.actives, active);
            let state = &mut self.actives[active];
            state.schedule = Schedule::Idle;
            state.released = false;
            self.turn = TURN_PACKETS;
            if more {
                self.enqueue(active, Schedule::Gathering);
            }
        } else if self.turn == 0 {
            self.ready.remove(&mut self.actives, active);
            self.ready.push_back(&mut self.actives, active);
            self.turn = TURN_PACKETS;
        }
    }

    /// Whether a peer has a packet to send now, where `more` says whether records that were never
    /// sent may be.
    #[inline]
    fn has_packet(&self, active: u32, more: bool) -> bool {
        let state = &self.actives[active];
        state.ack_due == AckDue::Now
            || state.ping
            || state.probe
            || (state.may_resend() && self.path_has_room(state))
            || (more && (state.released || self.has_full_packet(state)))
    }

    /// Writes the peer's next packet.
    fn emit<M: Memory>(
        &mut self,
        active: u32,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Emitted> {
        let state = &mut self.actives[active];
        let ack_now = state.ack_due == AckDue::Now;
        if ack_now && state.owes_whole_ack() {
            return self.emit_ack(active, packet).map(Emitted::of);
        }
        if core::mem::take(&mut state.ping) {
            return self.emit_ping(active, packet).map(Emitted::of);
        }
        let probe = state.probe;
        if state.lost > 0
            && let Some(psn) = self.next_lost(active)
        {
            return self.emit_again(active, psn, packet, memory).map(Emitted::of);
        }
        if probe {
            self.actives[active].probe = false;
            if let Some(psn) = self.probe_packet(active) {
                return self.emit_again(active, psn, packet, memory).map(Emitted::of);
            }
        }
        if let Some(first) = self.sendable(active) {
            return self.emit_new(active, first, packet, memory);
        }
        if ack_now { self.emit_ack(active, packet).map(Emitted::of) } else { None }
    }

    /// The common header of a packet, with everything this side has to tell. An acknowledgment has
    /// number 0.
    #[inline]
    pub(super) fn header(&self, active: u32, kind: PacketKind, flags: Flags, psn: Psn) -> Header {
        let state = &self.actives[active];
        let peer = &self.peers[state.peer];
        let full = self.unexpected.eighths_full();
        let pressure = Pressure::new(full, state.not_ready, state.rx_rnr_epoch);
        let flags = if state.duplicates_seen { flags | Flags::DUPLICATES_SEEN } else { flags };
        let mut header = Header::new(kind, PeerId::from_bits(peer.remote_cid), peer.token)
            .with_flags(flags)
            .with_psn(psn)
            .with_received(state.window.next(), state.expected_msn.0 as u16, pressure)
            .with_sent_at(self.tick().bits());
        header.err_count = state.errors.issued;
        header
    }

    fn emit_ping(&mut self, active: u32, packet: &mut [u8]) -> Option<usize> {
        let header = self.header(active, PacketKind::Ping, Flags::ACK_REQUEST, Psn(0));
        put_header(&header, packet)?;
        self.stats.pings += 1;
        self.actives[active].acknowledged(false);
        Some(HEADER_LEN)
    }

    fn emit_ack(&mut self, active: u32, packet: &mut [u8]) -> Option<usize> {
        let header = self.header(active, PacketKind::Ack, Flags::empty(), Psn(0));
        put_header(&header, packet)?;
        let now: Tick = self.tick();
        let state = &mut self.actives[active];
        let sack = state.window.sack();
        let words = sack.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
        let ack = Ack {
            echo: state.newest_sent_at.bits().into(),
            hold: now.since(state.newest_arrived).into(),
            congestion_marks: state.congestion_marks.into(),
            sack_words: words as u8,
            responder_credit: state.credits.granted,
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
}

pub(super) fn put_header(header: &Header, packet: &mut [u8]) -> Option<()> {
    packet.get_mut(..HEADER_LEN)?.copy_from_slice(header.as_bytes());
    Some(())
}
