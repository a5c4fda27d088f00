// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path for long operations: the next packet of a message, a write or a read, alone in its
//! packet, from a peer in good order.
//!
//! Nearly all packets of a long operation are of this kind: not the one that begins or completes
//! it, and without an acknowledgment of anything new. One check tells so, and the steps that remain
//! are those of `ingest.rs`, in its order (`core/tests/prediction.rs` compares both). A packet that
//! is not as predicted takes the general path, and has changed nothing before.
//!
//! In: bytes from anywhere. Out: bytes placed. Caller: `ingest.rs`. Bound: the messages of the peer
//! that are arriving, and its requests.

use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::receive::admit::record_packet;
use crate::engine::receive::fast_path::{is_sound, predict_peer};
use crate::engine::receive::run::{IncomingRun, PartPlace};
use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::peer::slots::ConnSlot;
use crate::wire::{Flags, Header, Part, ResponseRecord, plain_part};
use crate::{Datagram, Memory, PeerAddress};

/// The components that a part concerns.
pub(crate) struct PartReceiver<'r, 's> {
    pub(super) cx: &'r mut Ctx<'s>,
    pub(super) sender: &'r mut Sender<'s>,
    pub(super) matcher: &'r mut Matcher<'s>,
    pub(super) target: &'r RmaTarget<'s>,
}

impl PartReceiver<'_, '_> {
    /// Processes `datagram` if it is the predicted part of a long operation; else changes nothing
    /// and returns false. A `run` may follow the part.
    #[inline]
    pub(super) fn ingest_predicted<M: Memory>(
        &mut self,
        datagram: &Datagram<'_>,
        run: &mut Option<IncomingRun>,
        memory: &mut M,
    ) -> bool {
        let Some((header, part)) = plain_part(datagram.bytes) else { return false };
        let Some(conn) = predict_next(self.cx, header, datagram.from) else { return false };
        let Some(found) = self.predict_place(conn, header, &part) else { return false };
        if !is_sound(self.cx, header, datagram) {
            return false;
        }
        let marked = datagram.congestion_experienced;
        self.take((conn, found.0), (header, part.payload()), marked, memory);
        self.sender.after_packet_of_open(self.cx, conn);
        *run = IncomingRun::behind(conn, datagram, found);
        true
    }

    /// Processes `datagram` if it is the next packet of `run`; else changes nothing and returns
    /// false.
    // Not inlined: the caller's way to other packets stays short.
    #[inline(never)]
    pub(super) fn ingest_next<M: Memory>(
        &mut self,
        datagram: &Datagram<'_>,
        run: &mut IncomingRun,
        memory: &mut M,
    ) -> bool {
        let Some((conn, place, header, payload)) = run.next(datagram) else { return false };
        // The packet before it may have closed a gap in front of this one, which had arrived.
        let is_next = header.psn() == self.cx.table[conn].rx().receive_window().next();
        if !is_next || !is_sound(self.cx, header, datagram) {
            return false;
        }
        run.advance();
        self.cx.stats.packets_received += 1;
        let marked = datagram.congestion_experienced;
        let was_due = self.cx.table[conn].rx().is_ack_due();
        self.take((conn, place), (header, payload), marked, memory);
        if !was_due {
            self.sender.after_packet_of_open(self.cx, conn);
        } else if self.sender.may_send_new(self.cx, conn) {
            // No deadline has come nearer since the packet before.
            self.cx.table.make_ready(conn);
        }
        true
    }

    /// Takes a part that meets every condition; the caller schedules what waited for it.
    #[inline(always)]
    fn take<M: Memory>(
        &mut self,
        (conn, place): (ConnSlot, PartPlace),
        (header, payload): (&Header, &[u8]),
        marked: bool,
        memory: &mut M,
    ) {
        let Self { cx, sender, matcher, target } = self;
        let now = cx.timers.tick();
        let times = (now, cx.timers.last_poll());
        record_packet(&mut cx.table[conn], times, header, marked, true);
        let psn = header.psn();
        // Neither fails: see `predict_place`.
        match place {
            PartPlace::Assembly(slot, offset) => {
                let _ = matcher.add_segment(cx, conn, slot, (offset, payload), memory);
            }
            PartPlace::Region(region, offset) => {
                target.place_write(cx, (region, offset), (payload, true), memory);
            }
            PartPlace::Request(op, offset) => {
                let response = ResponseRecord { op, offset, status: Ok(()), payload };
                let _ = sender.process_response(cx, matcher, conn, psn, &response, memory);
            }
        }
        let state = &mut cx.table[conn];
        state.rx_mut().packet_processed(&mut cx.bits, psn, None);
        state.rx_mut().owe_ack(now, header.flags().contains(Flags::ACK_REQUEST));
        state.return_credits();
        let ack_now = state.rx().ack_due_now();
        let has_events = !state.pending_events().is_empty();
        if ack_now {
            cx.table.make_ready(conn);
        }
        if has_events {
            matcher.deliver_events(cx, conn);
        }
        matcher.count_packet();
    }

    /// Where the bytes of a part go, if it neither completes its operation nor can be refused; and
    /// how many bytes behind it are like that.
    #[inline(always)]
    fn predict_place(
        &mut self,
        conn: ConnSlot,
        header: &Header,
        part: &Part<'_>,
    ) -> Option<(PartPlace, u64)> {
        let Self { cx, sender, matcher, target } = self;
        match part {
            Part::Segment(segment) => {
                let (slot, room) = matcher.predict_segment(cx, conn, segment, header.rnr_epoch)?;
                Some((PartPlace::Assembly(slot, segment.offset), room))
            }
            // The last part is counted and may bring an event.
            Part::Write(write) if write.last => None,
            Part::Write(write) => {
                let (region, offset) = target.resolve_write(write).ok()?;
                let room = target.room_behind(region, offset + write.payload.len() as u64);
                Some((PartPlace::Region(region, offset), room))
            }
            Part::Response(response) => {
                let room = sender.predict_response(cx, conn, response)?;
                Some((PartPlace::Request(response.op, response.offset), room))
            }
        }
    }
}

/// The sender of a data packet, if it is a peer in good order, and the packet is its next one and
/// acknowledges nothing new.
#[inline(always)]
fn predict_next(cx: &Ctx<'_>, header: &Header, from: PeerAddress) -> Option<ConnSlot> {
    let peer = predict_peer(cx, header, from)?;
    let state = &cx.table[peer.conn];
    let is_next = header.psn() == state.rx().receive_window().next()
        && header.ack_psn() == state.tx().first_psn()
        && peer.accepted == state.tx().accepted_msn();
    is_next.then_some(peer.conn)
}
