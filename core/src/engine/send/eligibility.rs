// SPDX-License-Identifier: MIT OR Apache-2.0
//! Eligibility of new records: connection, window and path allow another packet, and the next
//! operation does not wait for others (`docs/PROTOCOL.md` §7.5).
//!
//! Responses go first, but for one packet in [`POSTED_EVERY`]. Otherwise a peer with constant
//! requests would wait for ever for the application's own operations, which it may need to make
//! fewer requests.
//!
//! In: the queues of a connection. Out: the operation to make packets of. Bound: the first
//! operation of each queue.

use crate::Order;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::send::Sender;
use crate::engine::send::post::packet_room;
use crate::peer::Connection;
use crate::peer::operation::TxOp;
use crate::peer::slots::{ConnSlot, OpSlot};

/// One packet in so many is for operations of the application while responses wait.
const POSTED_EVERY: u32 = 8;
/// With fewer connections than this, idle timers are not deferred: the next packet usually arrives
/// before the timer fires.
const MANY_CONNECTIONS: u32 = 16;

impl Sender<'_> {
    /// Whether the waiting records fill a packet.
    #[inline]
    pub(super) fn has_full_packet(&self, cx: &Ctx<'_>, state: &Connection) -> bool {
        state.pending() as usize >= packet_room(cx.payload_max(state.peer()))
    }

    /// Makes a connection ready if it may send something.
    #[inline]
    pub(crate) fn schedule_if_sendable(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        if self.may_send_new(cx, conn) || self.may_retransmit(cx, conn) {
            cx.table.make_ready(conn);
        }
    }

    /// The operation of which a new record may be sent now, or none.
    #[inline]
    pub(super) fn next_sendable(&self, cx: &Ctx<'_>, conn: ConnSlot) -> OpSlot {
        let state = &cx.table[conn];
        // Mostly nothing waits.
        if state.has_unsent() { self.next_sendable_of(cx, state) } else { OpSlot::NONE }
    }

    /// The operation of which a new record may be sent now, or none, for a connection with unsent
    /// operations.
    #[inline]
    pub(super) fn next_sendable_of(&self, cx: &Ctx<'_>, state: &Connection) -> OpSlot {
        let slot = self.next_op(cx, state);
        if slot.is_none() {
            return slot;
        }
        let peer = &cx.table[state.peer()];
        let may = peer.is_established()
            && state.tx().under_way() < state.path().window_limit(peer.port_packets())
            && state.tx().has_room(&self.in_flight)
            && self.path_has_room(cx, state);
        if may { slot } else { OpSlot::NONE }
    }

    /// How many packets with new records may surely be sent now, beside what the operations allow.
    pub(super) fn new_packets_max(&self, cx: &Ctx<'_>, state: &Connection) -> u32 {
        let capacity = cx.table[state.peer()].port_packets();
        let window = state.path().window_limit(capacity).saturating_sub(state.tx().under_way());
        let policy = cx.config.congestion;
        let path = state.path().room(policy, state.tx().in_flight(), cx.timers.tick());
        window.min(path).min(state.tx().room(&self.in_flight))
    }

    /// Whether a new record may be sent now.
    #[inline]
    pub(crate) fn may_send_new(&self, cx: &Ctx<'_>, conn: ConnSlot) -> bool {
        self.next_sendable(cx, conn).is_some()
    }

    /// Whether the path allows another packet.
    pub(super) fn path_has_room(&self, cx: &Ctx<'_>, state: &Connection) -> bool {
        let policy = cx.config.congestion;
        state.path().has_room(policy, state.tx().in_flight(), cx.timers.tick())
    }

    /// The next operation, or none if it waits for others.
    #[inline]
    pub(super) fn next_op(&self, cx: &Ctx<'_>, state: &Connection) -> OpSlot {
        if state.responses().cursor().is_some() {
            return self.next_beside_response(cx, state);
        }
        let slot = state.sends().cursor();
        let waits = slot.is_some() && self.is_blocked(cx, state, slot);
        if waits { OpSlot::NONE } else { slot }
    }

    /// The next operation of a connection on which a response waits.
    #[inline(never)]
    fn next_beside_response(&self, cx: &Ctx<'_>, state: &Connection) -> OpSlot {
        let (response, slot) = (state.responses().cursor(), state.sends().cursor());
        let is_posted_first =
            slot.is_some() && state.tx().next_psn().0.is_multiple_of(POSTED_EVERY);
        if is_posted_first && !self.is_blocked(cx, state, slot) { slot } else { response }
    }

    /// Whether a posted operation waits for earlier ones to end, for a credit, or for the pause
    /// after receiver-not-ready (`docs/PROTOCOL.md` §7.5). It is the first of those that are not
    /// all sent.
    #[inline]
    fn is_blocked(&self, cx: &Ctx<'_>, state: &Connection, slot: OpSlot) -> bool {
        let op = &self.ops[slot];
        if state.hold_until().is_some() && op.envelope().is_some() {
            return true;
        }
        op.has_ordering_deps && self.is_blocked_by_deps(cx, state, slot, op)
    }

    /// Whether an operation with ordering constraints or a credit requirement is blocked.
    fn is_blocked_by_deps(
        &self,
        cx: &Ctx<'_>,
        state: &Connection,
        slot: OpSlot,
        op: &TxOp,
    ) -> bool {
        let lacks_credit = op.is_request() && state.free_credits(cx.timers.tick()) == 0;
        lacks_credit || self.waits_for_earlier(cx, state, slot, op)
    }

    /// Whether the next operation of the application takes the next credit, if there is one.
    pub(crate) fn wants_credit(&self, cx: &Ctx<'_>, conn: ConnSlot) -> bool {
        let state = &cx.table[conn];
        let slot = state.sends().cursor();
        if slot.is_none() {
            return false;
        }
        let op = &self.ops[slot];
        op.is_request() && !self.waits_for_earlier(cx, state, slot, op)
    }

    /// Whether a posted operation waits for earlier ones.
    fn waits_for_earlier(&self, cx: &Ctx<'_>, state: &Connection, slot: OpSlot, op: &TxOp) -> bool {
        if op.sent > 0 {
            // The next part of a long read is requested when the bytes under way fit the path.
            let under_way = op.sent.saturating_sub(op.arrived());
            return op.is_request() && under_way > state.path().read_ahead();
        }
        if op.fence && state.sends().list().head() != slot {
            return true;
        }
        let message = op.envelope().is_some();
        let order = cx.config.order;
        let behind_reads = (message && order.contains(Order::SAR))
            || (op.is_request() && order.contains(Order::RAR))
            || (op.is_write() && order.contains(Order::WAR));
        let behind_sends = (op.is_request() && order.contains(Order::RAS))
            || (op.is_write() && order.contains(Order::WAS));
        (behind_reads && state.credits().is_asking())
            || (behind_sends && state.tx().accepted_msn().is_before(state.tx().sent_msn()))
    }

    /// Lets a connection send the records that waited for a packet. The packet may have ended the
    /// connection.
    #[inline]
    pub(crate) fn after_packet(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        if cx.table.is_open(conn) {
            self.after_packet_of_open(cx, conn);
        }
    }

    /// Lets a connection send the records that waited for a packet, and arms its timer.
    #[inline(always)]
    pub(crate) fn after_packet_of_open(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        if cx.table.open_connections() >= MANY_CONNECTIONS {
            let state = &cx.table[conn];
            if state.is_idle() && cx.timers.silence().allows_rest() {
                // The timer would fire for nothing, with the connection out of the caches again. A
                // ping may be due before its release, but not before it rests.
                return cx.timers.arm(conn, state.rests_at().instant(cx.timers.now()));
            }
        }
        if self.may_send_new(cx, conn) {
            cx.table.make_ready(conn);
        }
        cx.arm(conn);
    }
}
