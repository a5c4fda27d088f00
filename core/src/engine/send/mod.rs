// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sender: operations under way, and the packets that carry them.
//!
//! In: posted operations, acknowledgments, responses. Out: packets, ended operations. Bound: the
//! pools of operations and of packet records.

pub(super) mod ack;
pub(super) mod audit;
pub(super) mod datagram;
pub(super) mod eligibility;
pub(super) mod encode;
pub(super) mod ending;
pub(super) mod internal;
pub(super) mod loss;
pub(super) mod packetize;
pub(super) mod path_mtu;
mod pieces;
pub(super) mod post;
pub(super) mod response;
pub(super) mod retransmit;
pub(super) mod run;
mod searches;
#[cfg(test)]
mod test_peer;
pub(super) mod transmit;

use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::completions::Completions;
use crate::engine::ctx::Ctx;
use crate::engine::send::searches::Searches;
use crate::peer::Connection;
use crate::peer::credit::CREDIT_MAX;
use crate::peer::in_flight::InFlight;
use crate::peer::operation::{OpPool, POSTED};
use crate::peer::packet_record::TxPacket;
use crate::peer::slots::OpSlot;
use crate::{Completion, CompletionGroup, Context, DeferredId, Instant, OpId, PeerId, RegionId};

/// Reads that end by one packet, at the most: the peer has no more slots.
pub(super) const ENDED_READS_MAX: usize = 2 * CREDIT_MAX as usize;

/// Operations that send packets, and the records of packets under way.
#[derive(Debug)]
pub(super) struct Sender<'s> {
    ops: OpPool<'s>,
    in_flight: InFlight<'s>,
    /// Searches for the path MTU.
    searches: Searches,
    /// Slots of the pool for responses that are reserved for no peer.
    responders_spare: u32,
    /// Regions of reads that have ended, to be counted after the packet that has ended them.
    ended_reads: heapless::Vec<RegionId, ENDED_READS_MAX>,
    /// How many slots are for operations of the application: they come first.
    posted_slots: u32,
    /// Datagrams to be sent.
    datagrams: List<OpSlot>,
    /// The length of `datagrams`.
    datagrams_waiting: u32,
}

impl<'s> Sender<'s> {
    /// A sender without operations.
    pub(super) fn new(
        ops: OpPool<'s>,
        in_flight: InFlight<'s>,
        responders_spare: u32,
        posted_slots: u32,
    ) -> Self {
        let (searches, datagrams) = (Searches::default(), List::default());
        Self {
            ops,
            in_flight,
            searches,
            responders_spare,
            ended_reads: heapless::Vec::new(),
            posted_slots,
            datagrams,
            datagrams_waiting: 0,
        }
    }
}

impl Sender<'_> {
    /// The identifier of an operation.
    #[inline]
    pub(super) fn op_id(&self, op: OpSlot) -> OpId {
        op.id(self.ops.generation(op))
    }

    /// The slot of an operation, if `id` names one that exists.
    #[inline(always)]
    fn find(&self, id: OpId) -> Option<OpSlot> {
        let op = OpSlot::of(id);
        let (_, generation) = self.ops.tenant(op)?;
        (op.id(generation) == id).then_some(op)
    }

    /// Ends a posted operation, which is out of its queue, as its `outcome` says.
    #[inline(always)]
    pub(super) fn finish(&mut self, cx: &mut Ctx<'_>, op: OpSlot) {
        cx.completions.finish_send(&mut self.ops, &mut cx.stats, op);
    }

    /// Whether the application has posted an operation, rather than the engine.
    #[inline]
    fn is_posted(&self, op: OpSlot) -> bool {
        // [`POSTED`] is the first class.
        const { assert!(POSTED == 0) };
        op.number() < self.posted_slots
    }

    /// How many operations of the application have not ended, or were not polled.
    pub(super) fn posted_operations(&self) -> u32 {
        self.ops.used_in(POSTED)
    }

    /// See [`Engine::operation_of`](crate::Engine::operation_of).
    pub(super) fn operation_of(&self, context: Context, peer: Option<PeerId>) -> Option<OpId> {
        let is_meant = |&slot: &OpSlot| {
            let op = &self.ops[slot];
            !op.done && op.context == context && peer.is_none_or(|peer| op.peer == peer)
        };
        let mut posted = self.ops.used_slots().take_while(|&slot| self.is_posted(slot));
        posted.find(is_meant).map(|slot| self.op_id(slot))
    }

    /// See [`Engine::has_operation`](crate::Engine::has_operation).
    pub(super) fn has_operation(&self, id: OpId) -> bool {
        self.find(id).is_some()
    }

    /// How many more operations can be posted.
    pub(super) fn free_operations(&self) -> u32 {
        self.ops.free_in(POSTED)
    }

    /// See [`Engine::operations_left`](crate::Engine::operations_left).
    pub(super) fn operations_left(&self, completions: &Completions<'_>, peer: PeerId) -> u32 {
        completions.link_slots().sends_left(&self.ops, peer)
    }

    /// The next completion of an operation.
    #[inline]
    pub(super) fn poll(&mut self, completions: &mut Completions<'_>) -> Option<Completion> {
        completions.poll_send(&mut self.ops)
    }

    /// See [`Engine::sort_completions`](crate::Engine::sort_completions).
    pub(super) fn sort_finished(
        &mut self,
        completions: &mut Completions<'_>,
        group_of: &mut impl FnMut(PeerId) -> CompletionGroup,
    ) {
        completions.sort_sends(&mut self.ops, group_of);
    }

    /// The next completion of an operation of the group.
    pub(super) fn poll_of(
        &mut self,
        completions: &mut Completions<'_>,
        group: CompletionGroup,
    ) -> Option<Completion> {
        completions.poll_send_of(&mut self.ops, group)
    }

    /// See [`Engine::discard_completions`](crate::Engine::discard_completions).
    pub(super) fn discard(&mut self, completions: &mut Completions<'_>, peer: PeerId) {
        completions.discard_sends(&mut self.ops, peer);
    }

    /// The next end of a deferred operation, and whether it succeeded.
    pub(super) fn poll_deferred(
        &mut self,
        completions: &mut Completions<'_>,
    ) -> Option<(DeferredId, bool)> {
        completions.poll_deferred_send(&mut self.ops)
    }

    /// Whether the completion of a finished operation names `peer`.
    pub(super) fn has_finished_of(&mut self, completions: &Completions<'_>, peer: PeerId) -> bool {
        completions.names_in_sends(&mut self.ops, peer)
    }

    /// Keeps the times of the packets under way of a connection near enough to `now` to compare
    /// with it. Bound: those packets.
    pub(super) fn age_records(&mut self, state: &Connection, before: Instant, now: Instant) {
        for psn in state.tx().psns() {
            let aged = |record: &mut TxPacket| record.sent_at = record.sent_at.aged(before, now);
            state.tx().change_record(&mut self.in_flight, psn, aged);
            state.tx().set_checked(&mut self.in_flight, psn, None);
        }
    }

    /// A connection ends: gives its packet records back, and the responder slots that its credits
    /// reserved.
    pub(super) fn release_connection(&mut self, state: &mut Connection) {
        let reserved = core::mem::take(state.credits_mut()).reserved();
        self.responders_spare += u32::from(reserved) - 1;
        state.tx_mut().release(&mut self.in_flight);
    }
}
