// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rendezvous: long messages are announced, and read by their receiver (`docs/PROTOCOL.md` §6.5).
//!
//! In: announcements that a receive has matched. Out: requests for parts, in round-robin order over
//! all messages that are being read. The slots for these requests are a budget for the whole
//! endpoint, so that many senders at once share the receiver's link. A silent peer keeps its slots
//! until the peer timeout: Therefore a peer never holds more slots than remain free. The unnamed
//! peers of one host together do not either. A call that ends before it has looked at all messages
//! is followed by another one after [`LOOK_AGAIN_NANOS`]: no packet may come that brings it. So is
//! the end of a connection, which gives slots back, at once. Bound: [`READS_PER_CALL`] requests a
//! call.

use crate::collections::coverage::Covered;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::engine::send::post::packet_room;
use crate::peer::hosts::SharedPool;
use crate::peer::operation::{RendezvousState, TxKind, TxOp};
use crate::peer::slots::{ConnSlot, OpSlot, RecvSlot};
use crate::wire::{RENDEZVOUS_READ_LEN_MAX, full_segment, segment_overhead};
use crate::{Instant, OpError};

/// Messages that one call of [`Matcher::schedule_rendezvous`] looks at.
const READS_PER_CALL: u32 = 64;
/// Pause before the next look at messages that one call has not reached. Those before them may wait
/// for long, and cost a hundredth of a core at the most.
const LOOK_AGAIN_NANOS: u64 = 1_000_000;

/// The result of a message's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadStep {
    /// A part was requested, and there is more.
    More,
    /// Nothing could be requested now.
    Blocked,
    /// The message takes no more turns.
    Finished,
}

/// Bytes of a part but the last: as many full packets as [`RENDEZVOUS_READ_LEN_MAX`] allows, where
/// the peer's packets are as long as ours. A shorter packet between two parts would end a GSO batch
/// (`UDP_SEGMENT`), and each batch is a system call.
fn part_len_max(payload_max: usize) -> u64 {
    let room = packet_room(payload_max).saturating_sub(segment_overhead(false));
    let rest = RENDEZVOUS_READ_LEN_MAX.checked_rem(full_segment(room) as u32).unwrap_or(0);
    u64::from(RENDEZVOUS_READ_LEN_MAX - rest)
}

impl Matcher<'_> {
    /// A receive has matched the message that its sender calls `handle`, in connection `epoch`: it
    /// waits for its turn.
    pub(super) fn start_rendezvous(
        &mut self,
        cx: &mut Ctx<'_>,
        recv: RecvSlot,
        (handle, epoch): (u64, u16),
    ) {
        let op = &mut self.recvs[recv];
        let wanted = op.envelope.total.min(op.request.len);
        op.rendezvous =
            RendezvousState { handle, wanted, epoch, queued: true, ..RendezvousState::default() };
        self.rendezvous_queue.push_back(&mut self.recvs, recv);
        cx.stats.rendezvous += 1;
    }

    /// Requests parts of long messages, as far as budget and credit reach.
    pub(crate) fn schedule_rendezvous(&mut self, cx: &mut Ctx<'_>, sender: &mut Sender<'_>) {
        // The first message of those that were blocked since a part was requested.
        let mut blocked = None;
        let mut looks = 0..READS_PER_CALL;
        self.look_again_at = None;
        // bound: the looks
        while sender.free_rendezvous_reads() > 0 && blocked != Some(self.rendezvous_queue.head()) {
            if looks.next().is_none() {
                self.look_again_at = Some(cx.timers.now().after_nanos(LOOK_AGAIN_NANOS));
                return;
            }
            let Some(recv) = self.rendezvous_queue.pop_front(&mut self.recvs) else { return };
            self.recvs[recv].rendezvous.queued = false;
            let step = self.read_next(cx, sender, recv);
            if step != ReadStep::Finished {
                self.recvs[recv].rendezvous.queued = true;
                self.rendezvous_queue.push_back(&mut self.recvs, recv);
            }
            blocked = if step == ReadStep::Blocked { blocked.or(Some(recv)) } else { None };
        }
    }

    /// Slots or a connection are free that long messages may wait for: the next call looks at them,
    /// and no packet may come that brings it.
    pub(crate) fn look_again(&mut self, now: Instant) {
        if self.has_rendezvous() {
            self.look_again_at = Some(now);
        }
    }

    /// When the next call looks at messages that the last one has not reached.
    pub(crate) fn rendezvous_at(&self) -> Option<Instant> {
        self.look_again_at.filter(|_| self.has_rendezvous())
    }

    /// Gives a message its turn; a slot is free.
    fn read_next(&mut self, cx: &mut Ctx<'_>, sender: &mut Sender<'_>, recv: RecvSlot) -> ReadStep {
        let id = self.recvs[recv].peer;
        let RendezvousState { handle, wanted, asked, epoch, .. } = self.recvs[recv].rendezvous;
        let Some(peer) = cx.table.find_connected(id, epoch) else {
            // The connection has ended with more messages than end in one call.
            self.abort_rendezvous(cx, recv, false, OpError::Closed);
            return ReadStep::Finished;
        };
        let (slots, known) = (sender.free_rendezvous_reads(), cx.table[peer].connection());
        let has_share =
            known.is_none() || cx.table[known].credits().may_take_rendezvous_slot(slots);
        if !has_share || !cx.table.may_take(peer, SharedPool::RendezvousReads, slots) {
            return ReadStep::Blocked;
        }
        // From here on a connection without requests makes one. It may be new, and gets its timer
        // with the request.
        let Some(conn) = cx.table.allocate_connection(peer, cx.timers.tick(), false) else {
            return ReadStep::Blocked;
        };
        let state = &cx.table[conn];
        let left = wanted - asked;
        if left == 0 {
            // No byte is wanted: the sender is notified at once.
            let fin = TxOp { peer: id, kind: TxKind::Fin { handle }, ..TxOp::default() };
            if !sender.queue_rendezvous(cx, conn, fin) {
                return ReadStep::Blocked;
            }
            cx.completions.finish_recv(&mut self.recvs, recv);
            return ReadStep::Finished;
        }
        let free = state.free_credits(cx.timers.tick());
        // The last credit alternates with the operations that the application posted.
        let yields =
            free == 1 && state.credits().is_rendezvous_last() && sender.wants_credit(cx, conn);
        if free == 0 || yields {
            cx.stats.credit_waits += 1;
            return ReadStep::Blocked;
        }
        let parts = state.path().rendezvous_parts();
        let len = left.min(parts * part_len_max(cx.payload_max(peer)));
        let covered = Covered::default();
        let kind = TxKind::RendezvousRead { recv, handle, offset: asked, covered };
        let op = TxOp { peer: id, kind, total: len, missing: len, ..TxOp::default() };
        if !sender.queue_rendezvous(cx, conn, op) {
            return ReadStep::Blocked;
        }
        cx.table[conn].credits_mut().read_rendezvous();
        let state = &mut self.recvs[recv].rendezvous;
        state.asked += len;
        state.open += 1;
        if left > len { ReadStep::More } else { ReadStep::Finished }
    }

    /// A part has arrived, or failed. With the last one the receive is complete, and the slot of
    /// the request notifies the sender.
    pub(crate) fn finish_rendezvous_read(
        &mut self,
        cx: &mut Ctx<'_>,
        sender: &mut Sender<'_>,
        conn: ConnSlot,
        (request, recv): (OpSlot, RecvSlot),
    ) {
        cx.table[conn].credits_mut().rendezvous_read_ended();
        let op = &mut self.recvs[recv];
        op.rendezvous.open -= 1;
        if let Err(error) = sender.outcome(request) {
            op.outcome = Err(error);
            // The bytes that were not requested are not wanted any more.
            op.rendezvous.asked = op.rendezvous.wanted;
            if op.rendezvous.queued {
                op.rendezvous.queued = false;
                self.rendezvous_queue.remove(&mut self.recvs, recv);
            }
        }
        let RendezvousState { handle, wanted, asked, open, .. } = self.recvs[recv].rendezvous;
        if asked < wanted || open > 0 {
            sender.release_rendezvous(cx, conn, request);
            return;
        }
        cx.completions.finish_recv(&mut self.recvs, recv);
        sender.reuse_as_fin(cx, conn, request, handle);
    }

    /// The connection has ended while the message of receive `recv` was being read; `open` says
    /// whether one of its requests ends with it.
    pub(crate) fn abort_rendezvous(
        &mut self,
        cx: &mut Ctx<'_>,
        recv: RecvSlot,
        open: bool,
        error: OpError,
    ) {
        let op = &mut self.recvs[recv];
        op.rendezvous.open -= u32::from(open);
        op.rendezvous.asked = op.rendezvous.wanted;
        if op.rendezvous.wanted > 0 {
            op.outcome = Err(error);
        }
        if core::mem::take(&mut op.rendezvous.queued) {
            self.rendezvous_queue.remove(&mut self.recvs, recv);
        }
        if self.recvs[recv].rendezvous.open == 0 {
            cx.completions.finish_recv(&mut self.recvs, recv);
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
            assert!(
                (packets + 1) * full > u64::from(RENDEZVOUS_READ_LEN_MAX),
                "{payload_max}: one more"
            );
        }
        assert_eq!(part_len_max(0), u64::from(RENDEZVOUS_READ_LEN_MAX), "no packet at all");
    }
}
