// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether a peer may send something new: is there a connection, do window and path bear another
//! packet, and does the operation whose turn it is wait for others (`docs/PROTOCOL.md` §7.5)?
//!
//! Answers go first, but for one packet in [`POSTED_EVERY`]: a peer that always has requests here
//! would wait in vain for what the application sends it, and it may have to, to make fewer.
//!
//! In: a peer's queues. Out: the operation to [compose](super::compose) from. Bound: one look at
//! the first operation of each queue.

use super::Engine;
use crate::Order;
use crate::operation::TxOp;
use crate::peer::Active;
use crate::slab::NIL;

/// One packet in so many is for what the application posted, though answers wait.
const POSTED_EVERY: u32 = 8;

impl Engine<'_> {
    /// The operation of which a record that was never sent may be sent now, if there is one.
    #[inline]
    pub(super) fn sendable(&self, active: u32) -> Option<u32> {
        let state = &self.actives[active];
        // Most looks find nothing that waits.
        if state.has_unsent() { self.sendable_of(state) } else { None }
    }

    /// The same, of a peer for which something waits.
    #[inline]
    pub(super) fn sendable_of(&self, state: &Active) -> Option<u32> {
        let number = self.next_op(state)?;
        let peer = &self.peers[state.peer];
        let may = peer.is_established()
            && state.next_psn.since(state.first_psn) <= u32::from(peer.window_less_one)
            && self.in_flight.has_room(&state.directory, state.first_psn, state.next_psn)
            && self.path_has_room(state);
        may.then_some(number)
    }

    /// Whether a record that was never sent may be sent now.
    #[inline]
    pub(super) fn may_send_new(&self, active: u32) -> bool {
        self.sendable(active).is_some()
    }

    /// Whether the path bears another packet.
    pub(super) fn path_has_room(&self, state: &Active) -> bool {
        let policy = self.config.congestion;
        state.congestion.allows(policy, state.in_flight(), state.pressure, self.tick())
    }

    /// The operation whose turn it is, if it need not wait for others.
    #[inline]
    pub(super) fn next_op(&self, state: &Active) -> Option<u32> {
        if state.responses.cursor != NIL {
            return Some(self.next_beside_answer(state));
        }
        let number = state.sends.cursor;
        (number != NIL && !self.must_wait(state, number)).then_some(number)
    }

    /// The same where an answer waits.
    #[inline(never)]
    fn next_beside_answer(&self, state: &Active) -> u32 {
        let (answer, number) = (state.responses.cursor, state.sends.cursor);
        let turn = number != NIL && state.next_psn.0.is_multiple_of(POSTED_EVERY);
        if turn && !self.must_wait(state, number) { number } else { answer }
    }

    /// Whether a posted operation, the first of those that are not all sent, waits for earlier ones
    /// to end, for a credit, or for the pause after receiver-not-ready (`docs/PROTOCOL.md` §7.5).
    #[inline]
    fn must_wait(&self, state: &Active, number: u32) -> bool {
        let op = &self.ops[number];
        if state.hold_until.is_some() && op.envelope().is_some() {
            return true;
        }
        op.gated && self.is_gated(state, number, op)
    }

    /// Of an operation that may have to wait for more than its turn.
    fn is_gated(&self, state: &Active, number: u32, op: &TxOp) -> bool {
        let lacks_credit = op.is_request() && state.free_credits(self.tick()) == 0;
        lacks_credit || self.waits_for_others(state, number, op)
    }

    /// Whether the application's next operation takes the next credit, if there is one.
    pub(super) fn wants_credit(&self, state: &Active) -> bool {
        let number = state.sends.cursor;
        if number == NIL {
            return false;
        }
        let op = &self.ops[number];
        op.is_request() && !self.waits_for_others(state, number, op)
    }

    /// Whether a posted operation waits for earlier ones.
    fn waits_for_others(&self, state: &Active, number: u32, op: &TxOp) -> bool {
        if op.sent > 0 {
            // Parts of a long read are asked for one after another.
            return op.is_request() && op.sent + op.missing != op.total;
        }
        if op.fence && state.sends.list.head() != number {
            return true;
        }
        let message = op.envelope().is_some();
        let order = self.config.order;
        let behind_reads = (message && order.contains(Order::SAR))
            || (op.is_request() && order.contains(Order::RAR))
            || (op.is_write() && order.contains(Order::WAR));
        let behind_sends = (op.is_request() && order.contains(Order::RAS))
            || (op.is_write() && order.contains(Order::WAS));
        (behind_reads && state.credits.asking > 0)
            || (behind_sends && state.accepted_msn.is_before(state.sent_msn))
    }
}
