// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eviction: peers and connections make room for new ones. A server meets more clients in its life
//! than its table has slots.
//!
//! In: a table that is crowded or full, or a host that has its share of it. Out: a slot in
//! quarantine, free after that, or a free connection. A peer is evicted if its connection has ended
//! or was never proven, and the application never inserted it. For a host with its share, a peer
//! there that rests makes room, too. No unread completion or stored message may refer to it.
//! Bounds: the number of slots that the caller gives, and [`CANDIDATES`] times the finished
//! operations and stored messages.

use crate::OpError;
use crate::api::hosts::Host;
use crate::collections::slab::SlotIndex;
use crate::engine::connect::teardown::{end_connection, notify_close, release_connection};
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::Schedule;
use crate::peer::slots::{ConnSlot, PeerSlot};

/// Slots that the hello of a new peer looks at; the next search continues there.
pub(crate) const EVICT_STEPS: u32 = 64;
/// Evictable peers for which one call searches references.
const CANDIDATES: u32 = 4;

/// Evicts one peer, if there is an evictable one among the next `steps` slots; otherwise one of
/// `host` with a connection that rests. That one is notified: its next operation makes another
/// connection.
#[cold]
pub(crate) fn evict_peer(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    host: Option<Host>,
    steps: u32,
) {
    if !cx.ending.is_empty() {
        // Operations name their peers until they end.
        return;
    }
    let mut candidates = CANDIDATES;
    let slots = cx.table.peers.capacity();
    let mut resting = None;
    for _ in 0..steps.min(slots) {
        let slot = PeerSlot::from_number(cx.table.evict_cursor);
        cx.table.evict_cursor = (cx.table.evict_cursor + 1) % slots;
        if !cx.table.peers.is_used(slot) || !cx.table.peers[slot].is_resting() {
            continue;
        }
        let is_over = cx.table.peers[slot].is_evictable();
        let is_of_host = Some(cx.table.peers[slot].host()) == host;
        if !is_over && (!is_of_host || resting.is_some()) {
            continue;
        }
        let peer = cx.table.peer_id(slot);
        let is_referenced = sender.has_finished_of(&cx.completions, peer)
            || matcher.refers_to(&cx.completions, peer);
        if is_referenced {
            candidates -= 1;
            if candidates == 0 {
                break;
            }
        } else if is_over {
            return forget(cx, slot);
        } else {
            resting = Some(slot);
        }
    }
    // Without its notification the next operation of the peer would fail.
    if let Some(slot) = resting
        && cx.table.has_room_for_notice()
    {
        notify_close(cx, slot);
        end_connection(cx, sender, matcher, slot, OpError::Closed);
        forget(cx, slot);
    }
}

fn forget(cx: &mut Ctx<'_>, slot: PeerSlot) {
    log::debug!("peer {}: forgotten", cx.table.peers[slot].address());
    cx.table.forget(slot, cx.timers.tick());
}

/// Makes room for the connection of an unnamed peer whose host has its share: takes that of another
/// unnamed peer there. That is an idle one; otherwise one that ends. It rests, but parts of a
/// failed operation may arrive, which would pass for good ones after a release; or its peer has
/// made no progress between two checks of the watch. The search looks at [`EVICT_STEPS`] slots.
pub(crate) fn evict_connection(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    peer: PeerSlot,
) {
    let Some(host) = cx.table.crowded_host(peer) else { return };
    let slots = cx.table.connections.capacity();
    let (mut stuck, mut failed) = (None, None);
    let now = cx.timers.tick();
    for _ in 0..EVICT_STEPS.min(slots) {
        let conn = ConnSlot::from_number(cx.table.connection_cursor);
        cx.table.connection_cursor = (cx.table.connection_cursor + 1) % slots;
        if !cx.table.is_open(conn) || cx.table.sharing_host(conn) != Some(host) {
            continue;
        }
        let state = &cx.table.connections[conn];
        if state.is_idle() && state.schedule() == Schedule::Idle {
            if !state.knows_failed() {
                cx.stats.connections_idle += 1;
                return release_connection(cx, sender, conn);
            }
            if state.rests_at().has_come(now) {
                failed = Some(state.peer());
            }
        } else if stuck.is_none() && is_stuck(cx, sender, matcher, conn) {
            stuck = Some(cx.table.connections[conn].peer());
        }
    }
    // Without its notification the next operation of the peer would fail.
    if let Some(peer) = failed.filter(|_| cx.table.has_room_for_notice()) {
        notify_close(cx, peer);
        end_connection(cx, sender, matcher, peer, OpError::Closed);
    } else if let Some(peer) = stuck {
        log::info!("peer {}: no progress", cx.table.peers[peer].address());
        end_connection(cx, sender, matcher, peer, OpError::TimedOut);
    }
}

/// Whether a peer owes something, and has made no progress with it between two checks of the watch
/// and up to now. Bound: the operations and messages under way with the peer.
fn is_stuck(
    cx: &mut Ctx<'_>,
    sender: &Sender<'_>,
    matcher: &mut Matcher<'_>,
    conn: ConnSlot,
) -> bool {
    let state = &cx.table.connections[conn];
    let (order, requests) = (state.owed_in_order(), sender.owed_answers(state));
    let Some(watch) = cx.timers.watch(conn) else { return false };
    watch.is_stuck(order, requests) || (!watch.is_excused() && matcher.has_resting_assembly(state))
}
