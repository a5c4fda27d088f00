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
use crate::engine::receive::fast_path::predict_peer;
use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::peer::slots::{AssemblySlot, ConnSlot};
use crate::wire::{
    Flags, Header, Part, ResponseRecord, SegmentRecord, WriteRecord, plain_part, verify,
};
use crate::{Datagram, Memory, PeerAddress, RegionId};

/// A part, and where its bytes go.
#[derive(Clone, Copy, Debug)]
enum PartPlace<'p, 'a> {
    Assembly(AssemblySlot, &'p SegmentRecord<'a>),
    Region((RegionId, u64), &'p WriteRecord<'a>),
    Request(&'p ResponseRecord<'a>),
}

/// Processes `datagram` if it is the predicted part of a long operation; else changes nothing and
/// returns false.
#[inline]
pub(crate) fn ingest_predicted_part<M: Memory>(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    target: &RmaTarget<'_>,
    datagram: &Datagram<'_>,
    memory: &mut M,
) -> bool {
    let Some((header, part)) = plain_part(datagram.bytes) else { return false };
    let Some(conn) = predict_next(cx, header, datagram.from) else { return false };
    let found = predict_destination(cx, (sender, matcher, target), conn, header, &part);
    let Some(destination) = found else { return false };
    if !verify(header, datagram.bytes, cx.config.checksum) {
        return false;
    }
    let now = cx.timers.tick();
    let times = (now, cx.timers.last_poll());
    record_packet(&mut cx.table[conn], times, header, datagram.congestion_experienced, true);
    let psn = header.psn();
    // Neither fails: see `predict_destination`.
    match destination {
        PartPlace::Assembly(slot, segment) => {
            let _ = matcher.add_segment(cx, conn, slot, segment, memory);
        }
        PartPlace::Region(at, write) => target.place_write(cx, at, write, memory),
        PartPlace::Request(response) => {
            let _ = sender.process_response(cx, matcher, conn, psn, response, memory);
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
    sender.after_packet_of_open(cx, conn);
    true
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

/// Where the bytes of a part go, if it neither completes its operation nor can be refused.
#[inline(always)]
fn predict_destination<'p, 'a>(
    cx: &mut Ctx<'_>,
    (sender, matcher, target): (&Sender<'_>, &mut Matcher<'_>, &RmaTarget<'_>),
    conn: ConnSlot,
    header: &Header,
    part: &'p Part<'a>,
) -> Option<PartPlace<'p, 'a>> {
    match part {
        Part::Segment(segment) => {
            let slot = matcher.predict_segment(cx, conn, segment, header.rnr_epoch)?;
            Some(PartPlace::Assembly(slot, segment))
        }
        // The last part is counted and may bring an event.
        Part::Write(write) if write.last => None,
        Part::Write(write) => {
            let at = target.resolve_write(write).ok()?;
            Some(PartPlace::Region(at, write))
        }
        Part::Response(response) => {
            let predicted = sender.predicts_response(cx, conn, response);
            predicted.then_some(PartPlace::Request(response))
        }
    }
}
