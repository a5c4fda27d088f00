// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of operations: [`EndRule`] has the condition, and this file ends those that meet it
//! (`docs/PROTOCOL.md` §7.5, §8.3).
//!
//! In: an acknowledged packet, accepted messages, an answered request. Out: operations that leave
//! their queue and end. Bound: the operations of a packet, or those posted to one peer.

use crate::collections::list::List;
use crate::collections::serial::Msn;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::Connection;
use crate::peer::operation::{TxKind, TxOp};
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ConnSlot, OpSlot, PeerSlot};

/// The condition under which operations of a connection end.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndRule {
    /// The next message that the peer will accept.
    accepted: Msn,
    /// Every error that the peer has announced has arrived.
    all_errors: bool,
}

/// The answer of an [`EndRule`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    /// The operation lacks something.
    Open,
    /// An operation of the application ends.
    Posted,
    /// An internal operation ends.
    Internal,
}

impl EndRule {
    /// The rule in the present state of a connection.
    #[inline(always)]
    pub(super) fn of(state: &Connection) -> Self {
        Self { accepted: state.tx().accepted_msn(), all_errors: state.may_complete() }
    }

    /// The rule after the peer has accepted the messages before `accepted`.
    #[inline(always)]
    pub(super) const fn once_accepted(self, accepted: Msn) -> Self {
        Self { accepted, ..self }
    }

    /// Whether an operation ends when `left` more of its packets are acknowledged. All of it must
    /// be sent and acknowledged, a message accepted, and a request answered. An operation that the
    /// application posted waits for announced errors, too: one of them may be its own.
    #[inline(always)]
    pub(super) fn apply(self, op: &TxOp, left: u32) -> End {
        if !op.all_sent || op.in_flight != left {
            return End::Open;
        }
        let (answered, posted) = match &op.kind {
            TxKind::Message(envelope) => (envelope.msn.is_before(self.accepted), true),
            TxKind::Rendezvous(_) => (op.answered, true),
            TxKind::Read { .. } | TxKind::Write { .. } | TxKind::Atomic { .. } => {
                (op.answered || !op.is_request(), true)
            }
            TxKind::RendezvousRead { .. } => (op.answered, false),
            TxKind::Response { .. } | TxKind::Error { .. } | TxKind::Fin { .. } => (true, false),
        };
        match (answered, posted) {
            (true, true) if self.all_errors => End::Posted,
            (true, false) => End::Internal,
            _ => End::Open,
        }
    }
}

impl Sender<'_> {
    /// Credits the operations of an acknowledged packet to `peer`. `runs`: they may end in runs.
    #[inline(always)]
    pub(super) fn credit_ops(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        (conn, peer): (ConnSlot, PeerSlot),
        packet: &TxPacket,
        runs: bool,
    ) {
        if packet.len == 1 || packet.flags.contains(TxFlags::PART) {
            if let Some(slot) = self.op_of_attempt(packet, peer) {
                self.credit_op(cx, matcher, conn, slot, 1);
            }
            return;
        }
        let rest = if runs { self.end_run(cx, conn, packet) } else { Some(*packet) };
        if let Some(rest) = rest {
            self.each_whole(&rest, peer, |sender, slot| {
                sender.credit_op(cx, matcher, conn, slot, 1);
            });
        }
    }

    /// As many `packets` of an operation are acknowledged.
    #[inline(always)]
    pub(super) fn credit_op(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        slot: OpSlot,
        packets: u32,
    ) {
        let op = &mut self.ops[slot];
        // A peer that lies about superseded packets may acknowledge one too many: then its own
        // operation ends with the connection.
        op.in_flight = op.in_flight.wrapping_sub(packets);
        let end = EndRule::of(&cx.table[conn]).apply(op, 0);
        self.end(cx, matcher, conn, slot, end);
    }

    /// Ends the messages at the front of an acknowledged packet in one loop, while each lacks
    /// nothing else. [`Self::credit_op`] has the same effect, one message at a time. The messages
    /// are neighbours in their queue, and stay neighbours as they end. Returns the rest of the
    /// packet. Bound: the operations of one packet.
    // Not inlined: the loop needs all registers.
    #[inline(never)]
    fn end_run(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, packet: &TxPacket) -> Option<TxPacket> {
        let state = &mut cx.table[conn];
        let rule = EndRule::of(state);
        let first = OpSlot::of(packet.op);
        if !self.ops.is_used(first)
            || packet.op != first.id(self.ops.generation(first))
            || self.ops[first].peer.slot() != state.peer().number()
        {
            return None;
        }
        let first_serial = self.ops[first].serial;
        let (mut last, mut next, mut count, mut passed) = (OpSlot::NONE, first, 0, 0);
        while next.is_some() {
            let op = &mut self.ops[next];
            passed = op.serial.wrapping_sub(first_serial);
            let ends = matches!(op.kind, TxKind::Message(_))
                && passed < u32::from(packet.len)
                && op.rnr_epoch == packet.rnr_epoch
                && rule.apply(op, 1) == End::Posted
                && op.signal
                && op.outcome.is_ok();
            if !ends {
                break;
            }
            op.in_flight = 0;
            op.done = true;
            (last, next) = (next, op.links.next());
            count += 1;
        }
        if count > 0 {
            let (queue, run) = (state.sends_mut(), (first, last));
            cx.completions.finish_send_run(&mut self.ops, &mut cx.stats, queue, run, count);
        }
        let left =
            u32::from(packet.len).checked_sub(passed).filter(|&left| left > 0 && next.is_some())?;
        Some(TxPacket { op: self.op_id(next), len: left as u16, ..*packet })
    }

    /// Ends accepted messages, which may have been acknowledged before. Bound: operations up to the
    /// first message that is not accepted.
    #[inline]
    pub(crate) fn end_accepted(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
    ) {
        let mut slot = cx.table[conn].sends().list().head();
        while slot.is_some() {
            let next = List::next(&mut self.ops, slot);
            let accepted = cx.table[conn].tx().accepted_msn();
            let envelope = self.ops[slot].envelope();
            if envelope.is_some_and(|envelope| !envelope.msn.is_before(accepted)) {
                return;
            }
            self.try_finish(cx, matcher, conn, slot);
            slot = next;
        }
    }

    /// Ends the operations that waited for announced errors, all of which have arrived. Bound:
    /// operations posted to one peer.
    pub(super) fn finish_after_errors(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
    ) {
        // No end of an operation changes the rule for the others.
        let rule = EndRule::of(&cx.table[conn]);
        let mut slot = cx.table[conn].sends().list().head();
        while slot.is_some() {
            let op = &self.ops[slot];
            let (next, end) = (op.links.next(), rule.apply(op, 0));
            if end != End::Open {
                self.end(cx, matcher, conn, slot, end);
            }
            slot = next;
        }
    }

    /// Ends an operation if it lacks nothing.
    pub(super) fn try_finish(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        slot: OpSlot,
    ) {
        let end = EndRule::of(&cx.table[conn]).apply(&self.ops[slot], 0);
        self.end(cx, matcher, conn, slot, end);
    }

    /// Ends an operation as the rule says.
    #[inline(always)]
    fn end(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        slot: OpSlot,
        end: End,
    ) {
        let state = &mut cx.table[conn];
        debug_assert!(end == End::Open || (end == End::Posted) == self.is_posted(slot));
        match end {
            End::Open => {}
            End::Posted => {
                state.sends_mut().remove(&mut self.ops, slot);
                self.finish(cx, slot);
            }
            End::Internal => {
                state.responses_mut().remove(&mut self.ops, slot);
                self.finish_internal(cx, matcher, conn, slot);
            }
        }
    }
}
