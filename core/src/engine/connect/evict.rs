// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eviction: peers without a connection make room for new ones. A server meets more clients in its
//! life than its table has slots.
//!
//! In: a table that is crowded, or full. Out: a slot in quarantine, free after that. A peer is
//! evicted if its connection has ended or was never proven, and the application never inserted it.
//! No unread completion or stored message may refer to it. Bounds: the number of slots that the
//! caller gives, and [`CANDIDATES`] times the finished operations and stored messages.

use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::slots::PeerSlot;

/// Slots that the hello of a new peer looks at; the next search continues there.
pub(crate) const EVICT_STEPS: u32 = 64;
/// Evictable peers for which one call searches references.
const CANDIDATES: u32 = 4;

/// Evicts one peer, if there is an evictable one among the next `steps` slots.
#[cold]
pub(crate) fn evict_peer(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    steps: u32,
) {
    let mut candidates = CANDIDATES;
    let slots = cx.table.peers.capacity();
    for _ in 0..steps.min(slots) {
        let slot = PeerSlot::from_number(cx.table.evict_cursor);
        cx.table.evict_cursor = (cx.table.evict_cursor + 1) % slots;
        if !cx.table.peers.is_used(slot) || !cx.table.peers[slot].is_evictable() {
            continue;
        }
        let peer = cx.table.peer_id(slot);
        let is_referenced = sender.has_finished_of(&cx.completions, peer)
            || matcher.refers_to(&cx.completions, peer);
        if !is_referenced {
            log::debug!("peer {}: forgotten", cx.table.peers[slot].address());
            return cx.table.forget(slot, cx.timers.tick());
        }
        candidates -= 1;
        if candidates == 0 {
            return;
        }
    }
}
