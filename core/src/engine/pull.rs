// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages are pulled by their receiver (`docs/PROTOCOL.md` §6.5).
//!
//! In: announcements that a receive has matched. Out: requests for parts, in turn over all messages
//! that are being pulled, within a budget for the whole endpoint (the slots for pulls): many
//! senders at once share the receiver's link instead of overrunning it. Who has fallen silent keeps
//! its slots until the death time: so nobody asks with more of them than are left. Bound:
//! [`PULLS_PER_CALL`] turns a call.

use super::Engine;
use super::post::packet_room;
use crate::operation::{PULLS, PullState, TxKind, TxOp};
use crate::wire::{FinRecord, PULL_LEN_MAX, full_segment, segment_overhead};
use crate::{OpError, OpId};

/// Turns that one call of [`Engine::schedule_pulls`] gives.
const PULLS_PER_CALL: u32 = 64;

/// How a turn of a message that is pulled has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    /// A part was asked for, and there is more.
    More,
    /// Nothing could be asked for now.
    InVain,
    /// It takes no more turns.
    Over,
}

/// Bytes of a part but the last: as many full packets as [`PULL_LEN_MAX`] allows, taking the peer's
/// for as long as ours. A shorter packet between two parts would end a train of packets
/// (`UDP_SEGMENT`), and each train is a system call.
fn part_len_max(payload_max: usize) -> u64 {
    let room = packet_room(payload_max).saturating_sub(segment_overhead(false));
    let rest = PULL_LEN_MAX.checked_rem(full_segment(room) as u32).unwrap_or(0);
    u64::from(PULL_LEN_MAX - rest)
}

impl Engine<'_> {
    /// A receive has matched a message that the peer calls `handle`: it waits for its turn to pull.
    pub(super) fn begin_pull(&mut self, recv: u32, handle: u64) {
        let op = &mut self.recvs[recv];
        let wanted = op.envelope.total.min(op.request.len);
        op.pull = PullState { handle, wanted, queued: true, ..PullState::default() };
        self.pulling.push_back(&mut self.recvs, recv);
        self.stats.rendezvous += 1;
    }

    /// Asks for parts of long messages, as far as budget and credit reach.
    pub(super) fn schedule_pulls(&mut self) {
        // The first message that waits, of those that did since one was asked for.
        let mut waits = None;
        for _ in 0..PULLS_PER_CALL {
            if self.ops.free_in(PULLS) == 0 || waits == Some(self.pulling.head()) {
                return;
            }
            let Some(recv) = self.pulling.pop_front(&mut self.recvs) else { return };
            self.recvs[recv].pull.queued = false;
            let turn = self.pull(recv);
            if turn != Turn::Over {
                self.recvs[recv].pull.queued = true;
                self.pulling.push_back(&mut self.recvs, recv);
            }
            waits = if turn == Turn::InVain { waits.or(Some(recv)) } else { None };
        }
    }

    /// Gives a message its turn; a slot is free.
    fn pull(&mut self, recv: u32) -> Turn {
        let id = self.recvs[recv].peer;
        let PullState { handle, wanted, asked, .. } = self.recvs[recv].pull;
        let Some(number) = self.peer_number(id) else {
            // Not reached: a pull ends with the connection.
            self.recvs[recv].outcome = Err(OpError::Closed);
            self.finish_recv(recv);
            return Turn::Over;
        };
        let Some(active) = self.activate(number, self.now, false) else { return Turn::InVain };
        let state = &self.actives[active];
        // Who has none may always: its state may be new, and has a timer only with what it asks.
        if u32::from(state.credits.pulling) >= self.ops.free_in(PULLS) {
            return Turn::InVain;
        }
        let left = wanted - asked;
        if left == 0 {
            // Nothing of it is wanted: the sender need only be told.
            let fin = TxOp { peer: id, kind: TxKind::Fin { handle }, ..TxOp::default() };
            let Some(number) = self.ops.alloc_in(PULLS, fin) else { return Turn::InVain };
            self.queue_own(active, number);
            self.finish_recv(recv);
            return Turn::Over;
        }
        let free = state.free_credits(self.tick());
        // The last one in turn with what the application posted.
        if free == 0 || (free == 1 && state.credits.pulled_last && self.wants_credit(state)) {
            self.stats.credit_waits += 1;
            return Turn::InVain;
        }
        let len = left.min(part_len_max(self.payload_max(number)));
        let kind = TxKind::Pull { recv, handle, offset: asked };
        let op = TxOp { peer: id, kind, total: len, missing: len, ..TxOp::default() };
        let Some(number) = self.ops.alloc_in(PULLS, op) else { return Turn::InVain };
        self.actives[active].credits.pull();
        let pull = &mut self.recvs[recv].pull;
        pull.asked += len;
        pull.open += 1;
        self.queue_own(active, number);
        if left > len { Turn::More } else { Turn::Over }
    }

    /// Files an operation of the engine's own; it goes out as soon as the window lets it.
    pub(super) fn queue_own(&mut self, active: u32, number: u32) {
        self.queue_op(active, number);
        self.make_ready(active);
        self.arm(active, self.now);
    }

    /// A part has arrived: with the last one the receive is complete, and the sender is told, by
    /// the slot that asked for it.
    pub(super) fn end_pull(&mut self, active: u32, number: u32, recv: u32) {
        self.actives[active].credits.pulling -= 1;
        let failed = self.ops[number].outcome;
        let op = &mut self.recvs[recv];
        op.pull.open -= 1;
        if let Err(error) = failed {
            op.outcome = Err(error);
            // What was not asked for is not wanted any more.
            op.pull.asked = op.pull.wanted;
            if op.pull.queued {
                op.pull.queued = false;
                self.pulling.remove(&mut self.recvs, recv);
            }
        }
        let PullState { handle, wanted, asked, open, .. } = self.recvs[recv].pull;
        if asked < wanted || open > 0 {
            self.ops.release(number);
            return;
        }
        self.finish_recv(recv);
        let peer = self.ops[number].peer;
        self.ops[number] = TxOp { peer, kind: TxKind::Fin { handle }, ..TxOp::default() };
        self.queue_own(active, number);
    }

    /// The peer has pulled what it wants of a message of ours.
    pub(super) fn take_in_fin(&mut self, active: u32, fin: &FinRecord) {
        let Some(number) = self.announced(active, fin.handle) else {
            self.stats.records_discarded += 1;
            return;
        };
        self.ops[number].answered = true;
        self.try_finish(active, number);
    }

    /// The message of ours that a peer calls `handle`, if it was announced to that peer.
    pub(super) fn announced(&self, active: u32, handle: u64) -> Option<u32> {
        let id = OpId::from_bits(u32::try_from(handle).ok()?);
        let number = id.slot();
        let known = self.ops.is_used(number) && self.op_id(number) == id;
        let op = known.then(|| &self.ops[number])?;
        let peer = self.peer_id(self.actives[active].peer);
        let ours = op.peer == peer && op.all_sent && !op.done && !op.answered;
        (ours && matches!(op.kind, TxKind::Rendezvous(_))).then_some(number)
    }

    /// The connection has ended while receive `recv` was being pulled; `open` says whether one of
    /// its requests ends with it.
    pub(super) fn abandon_pull(&mut self, recv: u32, open: bool, error: OpError) {
        let op = &mut self.recvs[recv];
        op.pull.open -= u32::from(open);
        op.pull.asked = op.pull.wanted;
        if op.pull.wanted > 0 {
            op.outcome = Err(error);
        }
        if core::mem::take(&mut op.pull.queued) {
            self.pulling.remove(&mut self.recvs, recv);
        }
        if self.recvs[recv].pull.open == 0 {
            self.finish_recv(recv);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_packets() {
        for (payload_max, packets, full) in [
            (256, 341, 192),
            (1452, 48, 1344),
            (1472, 46, 1408),
            (8972, 7, 8896),
            (65_527, 1, 65_408),
        ] {
            assert_eq!(part_len_max(payload_max), packets * full, "{payload_max}");
            assert!((packets + 1) * full > u64::from(PULL_LEN_MAX), "{payload_max}: one more");
        }
        assert_eq!(part_len_max(0), u64::from(PULL_LEN_MAX), "no packet at all");
    }
}
