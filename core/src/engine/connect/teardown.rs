// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a connection: everything that depends on it ends too (`docs/PROTOCOL.md` §5.5).
//!
//! In: the reason. Out: completions in error, slots given back. Bound: [`ENDED_PER_CALL`] and the
//! bounds of `matching::ended`; the next progress calls end the rest.

use crate::collections::slab::SlotIndex;
use crate::engine::connect::packet::StatelessPacket;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::hosts::SharedPool;
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::{LinkState, OpError, Transmit};

/// Members of each list that one call ends.
const ENDED_PER_CALL: u32 = 64;

/// Messages that were arriving that end with their connection at once. They cost more than others.
const MESSAGES_AT_ONCE: u32 = 16;

/// Ends the connection to a peer, if there is one: everything that depends on it ends with `error`.
pub(crate) fn end_connection(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    slot: PeerSlot,
    error: OpError,
) {
    let peer = &mut cx.table.peers[slot];
    let conn = peer.connection();
    if peer.close() {
        cx.stats.connections_ended += 1;
        cx.stats.peers_failed += u64::from(error != OpError::Closed);
        if cx.config.named_peers_only {
            cx.table.note_link(slot, LinkState::Ended);
        }
    }
    matcher.abort_announced(cx, cx.table.peer_id(slot), error);
    if conn.is_none() {
        return;
    }
    matcher.abort_arriving(cx, conn, error);
    sender.abort_internal(cx, matcher, conn, error);
    sender.abort_posted(cx, conn, error);
    release_connection(cx, sender, conn);
    matcher.look_again(cx.timers.now());
    end_ending(cx, sender, matcher, MESSAGES_AT_ONCE);
}

/// Ends some of what is left of ended connections. Bound: [`ENDED_PER_CALL`] messages, events and
/// operations each.
#[cold]
pub(crate) fn end_some(cx: &mut Ctx<'_>, sender: &mut Sender<'_>, matcher: &mut Matcher<'_>) {
    end_ending(cx, sender, matcher, ENDED_PER_CALL);
}

/// Ends all that is left of ended connections. Bound: the slots of the pools.
pub(crate) fn end_all(cx: &mut Ctx<'_>, sender: &mut Sender<'_>, matcher: &mut Matcher<'_>) {
    while !cx.ending.is_empty() {
        end_some(cx, sender, matcher);
    }
}

/// Ends up to `messages` messages that were arriving, and [`ENDED_PER_CALL`] events and operations
/// each.
fn end_ending(cx: &mut Ctx<'_>, sender: &mut Sender<'_>, matcher: &mut Matcher<'_>, messages: u32) {
    let mut left = 0..messages;
    while left.next().is_some() && matcher.end_next_message(cx) {}
    left = 0..ENDED_PER_CALL;
    while left.next().is_some() && matcher.drop_next_event(cx) {}
    left = 0..ENDED_PER_CALL;
    while left.next().is_some() && sender.end_next_op(cx) {}
}

/// Gives a connection back to its pool, with the slots that were reserved for it. The state that
/// matters later is saved with the peer.
pub(crate) fn release_connection(cx: &mut Ctx<'_>, sender: &mut Sender<'_>, conn: ConnSlot) {
    cx.table.unschedule(conn);
    cx.timers.disarm(conn);
    let state = &mut cx.table.connections[conn];
    sender.abort_search(state, conn);
    let peer = &mut cx.table.peers[state.peer()];
    state.save(peer);
    let credit = u32::from(state.credits().reserved()) - 1;
    sender.release_connection(state);
    state.rx_mut().release(&mut cx.bits);
    cx.table.give_share_back(conn, SharedPool::Credits, credit);
    cx.table.release_connection(conn);
}

/// The next packet outside of the stream of a connection; while the engine closes, the notification
/// of the next peer that needs one.
#[cold]
pub(crate) fn transmit_stateless(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    packet: &mut [u8],
) -> Option<Transmit> {
    let mut sent = cx.transmit_stateless(packet);
    if sent.is_none() {
        sent = transmit_close(cx, sender, matcher, packet);
    }
    cx.table.stateless_taken();
    sent
}

/// The notification of the next peer that needs one, while the engine closes.
fn transmit_close(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    packet: &mut [u8],
) -> Option<Transmit> {
    let mut next = cx.table.closing?;
    // bound: peers in the table
    while next < cx.table.peers.capacity() {
        let slot = PeerSlot::from_number(next);
        next += 1;
        cx.table.closing = Some(next);
        if cx.table.peers.is_used(slot) && cx.table.peers[slot].is_connected() {
            notify_close(cx, slot);
            end_connection(cx, sender, matcher, slot, OpError::Closed);
            return cx.transmit_stateless(packet);
        }
    }
    cx.table.closing = None;
    None
}

/// Queues the notification that the connection to a peer ends here, with everything received.
pub(crate) fn notify_close(cx: &mut Ctx<'_>, slot: PeerSlot) {
    let peer = &mut cx.table.peers[slot];
    if !peer.is_connected() {
        return;
    }
    if peer.connection().is_some() {
        cx.table.connections[peer.connection()].save(peer);
    }
    let close = StatelessPacket::close(peer);
    cx.table.queue_stateless(close);
}
