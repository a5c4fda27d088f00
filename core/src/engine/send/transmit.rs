// SPDX-License-Identifier: MIT OR Apache-2.0
//! F. One packet out: the connection that sends next, and its next packet.
//!
//! Order for a connection: an acknowledgment that no other packet can carry, packets without
//! payload, lost packets, the tail loss probe, new records, a plain acknowledgment. In: an empty
//! buffer. Out: a sealed packet and its destination. Bound: connections that turn out to have
//! nothing to send leave the list.

use crate::collections::slab::SlotIndex;
use crate::collections::time::Tick;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::engine::send::run::OutgoingRun;
use crate::peer::slots::{ConnSlot, OpSlot};
use crate::peer::{Connection, Schedule};
use crate::wire::{
    Ack, Flags, HEADER_LEN, Header, PacketKind, PortRequestBody, ReceiverStatus, SACK_WORDS_MAX,
    seal_for,
};
use crate::{Destination, Memory, Transmit};
use zerocopy::IntoBytes;

/// What the packet that was sent last tells about the next one.
#[derive(Debug)]
pub(crate) struct NextPacket {
    /// The connection that sent it, and the operation of which it may send a new record, or none.
    conn: ConnSlot,
    op: OpSlot,
    /// The run that it belongs to.
    run: Option<OutgoingRun>,
}

impl NextPacket {
    /// Nothing is known.
    #[inline(always)]
    pub(crate) const fn unknown() -> Self {
        Self { conn: ConnSlot::NONE, op: OpSlot::NONE, run: None }
    }
}

/// A packet that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emitted {
    pub(crate) len: usize,
    /// The operation of which a new record may be sent next, or none, if writing the packet has
    /// shown that.
    pub(crate) next: Option<OpSlot>,
    /// The packet leaves in no GSO batch.
    pub(crate) alone: bool,
}

impl Emitted {
    const fn of(len: usize) -> Self {
        Self { len, next: None, alone: false }
    }

    const fn alone(len: usize) -> Self {
        Self { len, next: None, alone: true }
    }
}

pub(crate) fn put_header(header: &Header, packet: &mut [u8]) -> Option<()> {
    packet.get_mut(..HEADER_LEN)?.copy_from_slice(header.as_bytes());
    Some(())
}

/// Whether the packet that was just sent may bring a deadline that is nearer than the present one.
/// Behind another packet that is under way, a packet can only make timers later.
#[inline]
fn begins_timer(cx: &Ctx<'_>, conn: ConnSlot) -> bool {
    let state = &cx.table[conn];
    state.tx().under_way() <= 1 || state.path().is_paced() || cx.timers.deadline(conn).is_none()
}

impl Sender<'_> {
    /// Writes the next packet of the first connection that has one.
    pub(crate) fn transmit<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        target: &RmaTarget<'_>,
        next: &mut NextPacket,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Transmit> {
        if let Some(run) = &mut next.run {
            let sent = self.continue_run(cx, run, packet, memory);
            if sent.is_some() {
                return sent;
            }
            next.run = None;
        }
        // bound: each pass returns, ends an operation, or takes a connection out of the list
        while let Some(conn) = cx.table.first_ready() {
            let slot = cx.table[conn].peer();
            let (peer, id) = cx.table.peer_and_id(slot);
            let (address, receive_max) = (peer.address(), peer.receive_max());
            let most = packet.len().min(cx.limits.payload_max);
            let room = peer.payload_max(most);
            let first = if next.conn == conn { next.op } else { OpSlot::NONE };
            let emitted = packet.get_mut(..most).and_then(|into| {
                self.emit(cx, matcher, target, (conn, first), (into, room), memory)
            });
            let after = emitted.and_then(|emitted| emitted.next);
            let after = after.unwrap_or_else(|| self.next_sendable(cx, conn));
            (next.conn, next.op) = (conn, after);
            let more = after.is_some();
            let sends = self.has_packet(cx, &cx.table[conn], more);
            cx.table.rotate(conn, sends, more);
            let Some(Emitted { len, alone, next: known }) = emitted else { continue };
            if let Some(written) = packet.get_mut(..len) {
                seal_for(cx.limits.coverage, written, cx.config.checksum);
            }
            if begins_timer(cx, conn) {
                cx.arm(conn);
            }
            let to = Destination { peer: id, address };
            let receive_max = if alone { u16::MAX } else { receive_max };
            let transmit = Transmit { len, to, receive_max };
            // A new packet, behind which the rest of an operation goes: often parts of one length.
            if known.is_some_and(|op| op.is_some() && self.ops[op].sent > 0)
                && let Some(written) = packet.get(..len)
            {
                next.run = self.begin_run(cx, target, (conn, after), written, transmit);
            }
            return Some(transmit);
        }
        None
    }

    /// Whether a connection has a packet to send now, where `more` says whether new records may be
    /// sent.
    #[inline]
    fn has_packet(&self, cx: &Ctx<'_>, state: &Connection, more: bool) -> bool {
        state.rx().ack_due_now()
            || state.path().has_extra()
            || state.path().has_tail_probe()
            || (state.tx().lost() > 0 && self.path_has_room(cx, state))
            || (more && (state.schedule() == Schedule::Uncorked || self.has_full_packet(cx, state)))
    }

    /// Writes the next packet of a connection; new records go in `room` bytes at the most. `first`:
    /// the operation of which a new record may be sent, or none if that is not known.
    fn emit<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        target: &RmaTarget<'_>,
        (conn, first): (ConnSlot, OpSlot),
        (packet, room): (&mut [u8], usize),
        memory: &mut M,
    ) -> Option<Emitted> {
        let state = &cx.table[conn];
        let ack_now = state.rx().ack_due_now();
        if ack_now && state.rx().owes_whole_ack() {
            return self.emit_ack(cx, matcher, conn, packet).map(Emitted::of);
        }
        if state.path().has_extra() {
            return self.emit_extra(cx, matcher, conn, packet).map(Emitted::alone);
        }
        let probe = state.path().has_tail_probe();
        if state.tx().lost() > 0
            && let Some(psn) = self.next_lost(cx, conn)
        {
            return self
                .retransmit(cx, matcher, target, (conn, psn), (packet, room), memory)
                .map(Emitted::of);
        }
        if probe {
            cx.table[conn].path_mut().clear_tail_probe();
            if let Some(psn) = self.probe_packet(cx, conn) {
                return self
                    .retransmit(cx, matcher, target, (conn, psn), (packet, room), memory)
                    .map(Emitted::of);
            }
        }
        debug_assert!(first.is_none() || first == self.next_sendable(cx, conn));
        let first = if first.is_some() { first } else { self.next_sendable(cx, conn) };
        if first.is_some() {
            let packet = packet.get_mut(..room)?;
            return self.emit_new(cx, matcher, target, (conn, first), packet, memory);
        }
        if ack_now { self.emit_ack(cx, matcher, conn, packet).map(Emitted::of) } else { None }
    }

    /// The header of a packet, with the token and with the receiver status of this side.
    #[inline(always)]
    pub(super) fn header(
        &self,
        cx: &Ctx<'_>,
        matcher: &Matcher<'_>,
        state: &Connection,
        kind: PacketKind,
        flags: Flags,
    ) -> Header {
        let peer = &cx.table[state.peer()];
        let full = matcher.occupancy(|| cx.table.sharing_host_of(state.peer()));
        let status = ReceiverStatus::new(full, state.rx().is_not_ready(), state.rx().rnr_epoch());
        let flags =
            if state.rx().duplicates_seen() { flags | Flags::DUPLICATES_SEEN } else { flags };
        let mut header = Header::new(kind, peer.remote_cid(), peer.token())
            .with_flags(flags)
            .with_received(
                state.rx().receive_window().next(),
                state.rx().expected_msn().0 as u16,
                status,
            )
            .with_sent_at(cx.timers.tick().bits());
        header.err_count = state.errors().issued();
        header
    }

    pub(super) fn emit_ping(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        packet: &mut [u8],
    ) -> Option<usize> {
        let header =
            self.header(cx, matcher, &cx.table[conn], PacketKind::Ping, Flags::ACK_REQUEST);
        put_header(&header, packet)?;
        cx.stats.pings += 1;
        cx.table[conn].rx_mut().acknowledged(false);
        Some(HEADER_LEN)
    }

    pub(super) fn emit_port_request(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        request: PortRequestBody,
        packet: &mut [u8],
    ) -> Option<usize> {
        let header =
            self.header(cx, matcher, &cx.table[conn], PacketKind::PortRequest, Flags::empty());
        put_header(&header, packet)?;
        let len = HEADER_LEN + size_of::<PortRequestBody>();
        packet.get_mut(HEADER_LEN..len)?.copy_from_slice(request.as_bytes());
        cx.stats.port_requests += 1;
        cx.table[conn].rx_mut().acknowledged(false);
        Some(len)
    }

    fn emit_ack(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        packet: &mut [u8],
    ) -> Option<usize> {
        let header = self.header(cx, matcher, &cx.table[conn], PacketKind::Ack, Flags::empty());
        put_header(&header, packet)?;
        let now: Tick = cx.timers.tick();
        let state = &cx.table[conn];
        let mut ack = Ack {
            echo: state.rx().newest_sent_at().bits().into(),
            hold: now.since(state.rx().newest_arrived()).into(),
            wait: state.rx().newest_waited().into(),
            congestion_marks: state.rx().congestion_marks().into(),
            sack_offset: 0.into(),
            sack_words: 0,
            responder_credit: state.credits().granted(),
            reserved: 0.into(),
            received: state.rx().received().into(),
        };
        let (head, tail) = packet.get_mut(HEADER_LEN..)?.split_at_mut_checked(size_of::<Ack>())?;
        let mut len = HEADER_LEN + size_of::<Ack>();
        if state.rx().receive_window().has_holes() {
            len += put_sack(cx, conn, &mut ack, tail)?;
        } else {
            cx.table[conn].rx_mut().sack_sent(0);
        }
        head.copy_from_slice(ack.as_bytes());
        cx.stats.acks_sent += 1;
        Some(len)
    }
}

/// Writes the bitmap of a selective acknowledgment into `tail`, and its offset into `ack`. Returns
/// its bytes.
#[inline(never)]
fn put_sack(cx: &mut Ctx<'_>, conn: ConnSlot, ack: &mut Ack, tail: &mut [u8]) -> Option<usize> {
    let rx = cx.table[conn].rx();
    let offset = rx.sack_offset();
    let word = |word| rx.receive_window().sack_word(&cx.bits, offset + word as u32);
    let bitmap: [u64; SACK_WORDS_MAX] = core::array::from_fn(word);
    let words = bitmap.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    let tail = tail.get_mut(..words * size_of::<u64>())?;
    for (into, word) in tail.chunks_exact_mut(size_of::<u64>()).zip(bitmap) {
        into.copy_from_slice(&word.to_le_bytes());
    }
    ack.sack_offset = u16::try_from(offset).unwrap_or(u16::MAX).into();
    ack.sack_words = words as u8;
    cx.table[conn].rx_mut().sack_sent(offset);
    Some(words * size_of::<u64>())
}
