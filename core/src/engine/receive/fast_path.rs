// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fast path: the two packets that nearly always arrive, from a peer in good order. One is the
//! next data packet, with one whole message for the first posted receive; the other is an
//! acknowledgment of packets that arrived in order.
//!
//! Header prediction (V. Jacobson, "4BSD Header Prediction", ACM CCR 20(2), 1990): one check tells
//! that nothing is out of the ordinary, and few steps remain. They are the steps of `ingest.rs`, in
//! its order (`core/tests/prediction.rs` compares both). A packet that is not as predicted takes
//! the general path, and has changed nothing before. [`Matcher::receive_run`] is the third part: it
//! accepts the messages of one packet in one loop.
//!
//! Each function works on several components at once: calls between them would cost more
//! instructions than the work. In: bytes from anywhere. Out: a message placed and a receive
//! completed, packets retired and their operations ended. Bound: constant for data, the
//! acknowledged packets for an acknowledgment.

use crate::collections::serial::Msn;
use crate::collections::slab::SlotIndex;
use crate::collections::time::Tick;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::receive::admit::record_packet;
use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::peer::slots::{ConnSlot, OpSlot, RecvSlot};
use crate::peer::{Connection, State};
use crate::wire::{Ack, Flags, Header, MessageRecord, plain, plain_ack, verify};
use crate::{Datagram, Memory, PeerAddress};

/// The effects of a data packet that is as predicted.
#[derive(Clone, Copy, Debug)]
struct Prediction {
    conn: ConnSlot,
    /// The receive that takes the message.
    recv: RecvSlot,
    /// The message that the peer will accept next.
    accepted: Msn,
    /// The send time of the packet that this one acknowledges, and the operation that ends with it.
    retired: Option<(Tick, OpSlot)>,
}

/// Whether the checksum of a datagram with this `header` is right, as far as its path needs one.
#[inline(always)]
pub(super) fn is_sound(cx: &Ctx<'_>, header: &Header, datagram: &Datagram<'_>) -> bool {
    verify(header, datagram.bytes, datagram.coverage, cx.config.checksum).is_ok()
}

/// The sender of a packet, if it is a peer in good order.
#[derive(Clone, Copy, Debug)]
pub(super) struct PredictedPeer {
    pub(super) conn: ConnSlot,
    /// The message that the peer will accept next.
    pub(super) accepted: Msn,
}

/// Processes `datagram` if it is the predicted data packet; else changes nothing and returns false.
#[inline]
pub(crate) fn ingest_predicted<M: Memory>(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    datagram: &Datagram<'_>,
    memory: &mut M,
) -> bool {
    let Some((header, message)) = plain(datagram.bytes) else { return false };
    let predicted = predict(cx, sender, matcher, header, &message, datagram.from);
    let Some(prediction) = predicted else { return false };
    if !is_sound(cx, header, datagram) {
        return false;
    }
    let Prediction { conn, recv, accepted, retired } = prediction;
    let now = cx.timers.tick();
    let state = &mut cx.table[conn];
    let times = (now, cx.timers.last_poll());
    record_packet(state, times, header, datagram.congestion_experienced, true);
    let advanced = accept_until(state, accepted);
    if let Some((sent_at, op)) = retired {
        sender.retire_predicted(state, now, header.ack_psn(), sent_at, op);
    }
    state.message_accepted();
    state.rx_mut().packet_processed(&mut cx.bits, header.psn(), None);
    state.rx_mut().owe_ack(now, header.flags().contains(Flags::ACK_REQUEST));
    state.return_credits();
    let ack_now = state.rx().ack_due_now();
    let has_events = !state.pending_events().is_empty();
    let waits = advanced && !state.sends().list().is_empty();
    if let Some((_, op)) = retired {
        sender.finish(cx, op);
    }
    if waits {
        sender.end_accepted(cx, matcher, conn);
    }
    matcher.receive_message(cx, recv, header.dst_cid(), &message, memory);
    if ack_now {
        cx.table.make_ready(conn);
    }
    if has_events {
        matcher.deliver_events(cx, conn);
    }
    sender.after_packet_of_open(cx, conn);
    true
}

/// Whether a data packet is as predicted, if its checksum is right.
#[inline(always)]
fn predict(
    cx: &Ctx<'_>,
    sender: &Sender<'_>,
    matcher: &Matcher<'_>,
    header: &Header,
    message: &MessageRecord<'_>,
    from: PeerAddress,
) -> Option<Prediction> {
    let PredictedPeer { conn, accepted } = predict_peer(cx, header, from)?;
    let state = &cx.table[conn];
    let envelope = &message.envelope;
    let is_next = header.psn() == state.rx().receive_window().next()
        && header.rnr_epoch == state.rx().rnr_epoch()
        && envelope.msn == state.rx().expected_msn()
        && state.out_of_order().is_empty();
    if !is_next {
        return None;
    }
    let recv = matcher.predict_match(cx, header.dst_cid(), envelope)?;
    let retired = if header.ack_psn() == state.tx().first_psn() {
        None
    } else {
        Some(sender.predict_end(state, header, accepted)?)
    };
    Some(Prediction { conn, recv, accepted, retired })
}

/// The sender of a packet, if it is a peer in good order, and the packet reports no error and is
/// the latest one.
#[inline(always)]
pub(super) fn predict_peer(
    cx: &Ctx<'_>,
    header: &Header,
    from: PeerAddress,
) -> Option<PredictedPeer> {
    let (_, peer) = cx.table.find(header.dst_cid())?;
    if peer.connection().is_none()
        || peer.state() != State::Established
        || !header.proves(peer.token())
        || !peer.address().is_same_host(&from)
    {
        return None;
    }
    let conn = peer.connection();
    let state = &cx.table[conn];
    let accepted = state.tx().accepted_msn().nearest(header.accepted_msn());
    let in_order = state.is_in_order()
        && header.err_count == state.errors().announced()
        && state.rx().newest_sent_at().has_come(Tick::from_bits(header.sent_at()))
        && !accepted.is_before(state.tx().accepted_msn())
        && !state.tx().next_msn().is_before(accepted);
    in_order.then_some(PredictedPeer { conn, accepted })
}

/// Processes `datagram` if it is the predicted acknowledgment; else changes nothing and returns
/// false.
#[inline]
pub(crate) fn ingest_predicted_ack(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    target: &mut RmaTarget<'_>,
    datagram: &Datagram<'_>,
) -> bool {
    let Some((header, ack)) = plain_ack(datagram.bytes) else { return false };
    let Some((conn, accepted)) = predict_ack(cx, header, datagram) else { return false };
    if !is_sound(cx, header, datagram) {
        return false;
    }
    let marked = datagram.congestion_experienced;
    apply_ack(cx, (sender, matcher, target), (conn, accepted), (header, ack), marked);
    true
}

/// Whether an acknowledgment is as predicted, if its checksum is right: its connection, and the
/// message that the peer will accept next.
#[inline(always)]
fn predict_ack(cx: &Ctx<'_>, header: &Header, datagram: &Datagram<'_>) -> Option<(ConnSlot, Msn)> {
    let PredictedPeer { conn, accepted } = predict_peer(cx, header, datagram.from)?;
    let state = &cx.table[conn];
    let acknowledged = header.ack_psn().since(state.tx().first_psn());
    // The answer to a probe may show that packets were lost.
    let predicted = acknowledged <= state.tx().under_way() && state.path().timeouts() == 0;
    predicted.then_some((conn, accepted))
}

/// Applies the predicted acknowledgment.
#[inline(always)]
fn apply_ack(
    cx: &mut Ctx<'_>,
    (sender, matcher, target): (&mut Sender<'_>, &mut Matcher<'_>, &mut RmaTarget<'_>),
    (conn, accepted): (ConnSlot, Msn),
    (header, ack): (&Header, &Ack),
    marked: bool,
) {
    let now = cx.timers.tick();
    record_packet(&mut cx.table[conn], (now, cx.timers.last_poll()), header, marked, true);
    cx.measure(conn, header, ack);
    let state = &mut cx.table[conn];
    let advanced = accept_until(state, accepted);
    let upto = header.ack_psn();
    if state.tx().first_psn().is_before(upto) {
        if let Some((sent_at, op)) = sender.predict_end(state, header, accepted) {
            sender.retire_predicted(state, now, upto, sent_at, op);
            sender.finish(cx, op);
        } else {
            let acked = sender.retire(cx, matcher, conn, upto, true);
            cx.table[conn].on_newly_acked(acked, now);
            target.count_reads(cx, sender);
        }
    }
    if advanced && !cx.table[conn].sends().list().is_empty() {
        sender.end_accepted(cx, matcher, conn);
    }
    sender.after_packet_of_open(cx, conn);
}

/// Records the message that the peer will accept next; returns whether it is a later one.
#[inline(always)]
fn accept_until(state: &mut Connection, accepted: Msn) -> bool {
    let advanced = state.tx().accepted_msn() != accepted;
    if advanced {
        state.tx_mut().messages_accepted(accepted);
    }
    advanced
}
