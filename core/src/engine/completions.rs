// SPDX-License-Identifier: MIT OR Apache-2.0
//! G. Completions: the one place where an operation ends. A finished operation keeps its slot until
//! its completion is polled. Therefore completions cannot overflow, and an application that does
//! not poll runs out of slots to post with.

mod groups;
mod release;

use crate::api::completion_group::PerGroup;
use crate::api::hosts::{Host, HostSlots};
use crate::collections::list::{Links, List};
use crate::collections::slab::SlotIndex;
use crate::engine::link_slots::LinkSlots;
use crate::engine::violation::length;
use crate::peer::operation::{Deferred, OpPool, RecvKind, RecvPool};
use crate::peer::queue::Queue;
use crate::peer::slots::{OpSlot, RecvSlot};
use crate::{
    Completion, DeferredId, OpCounters, OpError, OpKind, PeerId, RecvId, Stats, TargetCounters,
};
use core::hash::{Hash, Hasher};

/// Where operations end: the lists of finished operations, and the counters of ended ones.
///
/// The lists run through the slots of the operations. The callers bring the pools.
#[derive(Debug, Default)]
pub(super) struct Completions<'s> {
    /// Finished operations of the initiator, to be polled.
    sends: List<OpSlot>,
    /// Finished receives and remote writes, to be polled.
    recvs: List<RecvSlot>,
    /// Finished deferred operations, to be polled with
    /// [`Engine::poll_deferred`](crate::Engine::poll_deferred).
    deferred_sends: List<OpSlot>,
    deferred_recvs: List<RecvSlot>,
    counters: OpCounters,
    /// Events of remote writes of unnamed peers, by host.
    event_hosts: HostSlots,
    /// Finished operations of the initiator that were sorted.
    group_sends: PerGroup<List<OpSlot>>,
    /// Finished receives and remote writes that were sorted.
    group_recvs: PerGroup<List<RecvSlot>>,
    /// The slots of each connected endpoint.
    link_slots: LinkSlots<'s>,
}

impl<'s> Completions<'s> {
    /// Nothing has ended. `link_slots` has the shares of connected endpoints.
    pub(super) fn new(link_slots: LinkSlots<'s>) -> Self {
        Self { link_slots, ..Self::default() }
    }

    /// The slots of each connected endpoint.
    #[inline(always)]
    pub(super) const fn link_slots(&self) -> &LinkSlots<'s> {
        &self.link_slots
    }

    /// See [`Self::link_slots`].
    #[inline(always)]
    pub(super) const fn link_slots_mut(&mut self) -> &mut LinkSlots<'s> {
        &mut self.link_slots
    }

    /// Whether an unnamed peer may have another event of a remote write, where `free` slots are
    /// left.
    pub(super) fn has_event_share(&mut self, host: Option<Host>, free: u32) -> bool {
        host.is_none_or(|host| self.event_hosts.has_share(host, free))
    }

    /// A peer has an event more.
    pub(super) fn event_taken(&mut self, host: Option<Host>) {
        if let Some(host) = host {
            self.event_hosts.taken(host, 1);
        }
    }

    /// The operations that have ended so far.
    pub(super) const fn counters(&self) -> &OpCounters {
        &self.counters
    }

    /// The accesses of peers that were served, to be counted.
    pub(super) const fn target_counters(&mut self) -> &mut TargetCounters {
        &mut self.counters.target
    }

    /// Whether a finished operation of the initiator waits to be polled.
    pub(super) fn has_send(&self) -> bool {
        !self.sends.is_empty()
    }

    /// Whether a finished receive or remote write waits to be polled.
    pub(super) fn has_recv(&self) -> bool {
        !self.recvs.is_empty()
    }

    /// Whether the completion of a finished operation names `peer`. Bound: finished operations.
    pub(super) fn names_in_sends(&self, ops: &mut OpPool<'_>, peer: PeerId) -> bool {
        [self.sends, self.deferred_sends]
            .into_iter()
            .chain(self.group_sends.0)
            .any(|list| list.any(ops, |ops, slot| ops[slot].peer == peer))
    }

    /// Whether the completion of a finished receive names `peer`. Bound: finished receives.
    pub(super) fn names_in_recvs(&self, recvs: &mut RecvPool<'_>, peer: PeerId) -> bool {
        [self.recvs, self.deferred_recvs]
            .into_iter()
            .chain(self.group_recvs.0)
            .any(|list| list.any(recvs, |recvs, slot| recvs[slot].peer == peer))
    }

    /// How many operations of the initiator have ended and were not polled. Bound: those.
    pub(super) fn finished_sends(&self, ops: &mut OpPool<'_>) -> u32 {
        let lists = [self.sends, self.deferred_sends].into_iter().chain(self.group_sends.0);
        lists.map(|list| length(list, ops)).sum()
    }

    /// How many receives have ended and were not polled. Bound: those.
    pub(super) fn finished_recvs(&self, recvs: &mut RecvPool<'_>) -> u32 {
        let lists = [self.recvs, self.deferred_recvs].into_iter().chain(self.group_recvs.0);
        lists.map(|list| length(list, recvs)).sum()
    }

    /// Hashes the state, for tests.
    pub(super) fn digest(&self, hasher: &mut impl Hasher) {
        self.counters.hash(hasher);
        (self.sends, self.recvs).hash(hasher);
        (self.deferred_sends, self.deferred_recvs).hash(hasher);
        (&self.group_sends, &self.group_recvs).hash(hasher);
    }

    /// The next operation of the initiator that has ended, in the order of the ends.
    #[inline]
    pub(super) fn poll_send(&mut self, ops: &mut OpPool<'_>) -> Option<Completion> {
        if self.sends.is_empty() { None } else { self.take_send_completion(ops) }
    }

    /// The next receive or remote write that has ended, in the order of the ends.
    #[inline]
    pub(super) fn poll_recv(&mut self, recvs: &mut RecvPool<'_>) -> Option<Completion> {
        if self.recvs.is_empty() { None } else { self.take_recv_completion(recvs) }
    }

    /// Frees the finished operations of the initiator with `peer`. Deferred ones are polled, and
    /// not signalled.
    pub(super) fn discard_sends(&mut self, ops: &mut OpPool<'_>, peer: PeerId) {
        self.deferred_sends.for_each(ops, |ops, slot| {
            if ops[slot].peer == peer {
                ops[slot].deferred = Deferred::Discarded;
            }
        });
        self.discard_listed_sends(ops, peer);
        self.for_sends_of_groups(|all| all.discard_listed_sends(ops, peer));
    }

    fn discard_listed_sends(&mut self, ops: &mut OpPool<'_>, peer: PeerId) {
        let mut kept = List::default();
        // bound: finished operations
        while let Some(slot) = self.sends.pop_front(ops) {
            if ops[slot].peer == peer {
                self.release_send(ops, slot);
            } else {
                kept.push_back(ops, slot);
            }
        }
        self.sends = kept;
    }

    /// Frees the finished receives and remote writes of `peer`, and those that name it. Deferred
    /// ones are polled, and not signalled.
    pub(super) fn discard_recvs(
        &mut self,
        recvs: &mut RecvPool<'_>,
        peer: PeerId,
        mut each: impl FnMut(RecvId),
    ) {
        self.deferred_recvs.for_each(recvs, |recvs, slot| {
            let op = &mut recvs[slot];
            if op.peer == peer || op.request.from == Some(peer) {
                op.deferred = Deferred::Discarded;
            }
        });
        self.discard_listed_recvs(recvs, peer, &mut each);
        self.for_recvs_of_groups(|all| all.discard_listed_recvs(recvs, peer, &mut each));
    }

    fn discard_listed_recvs(
        &mut self,
        recvs: &mut RecvPool<'_>,
        peer: PeerId,
        mut each: impl FnMut(RecvId),
    ) {
        let mut kept = List::default();
        // bound: finished receives
        while let Some(slot) = self.recvs.pop_front(recvs) {
            let op = &recvs[slot];
            if op.peer == peer || op.request.from == Some(peer) {
                self.recv_completion(recvs, slot).slice.map(&mut each);
                self.release_recv(recvs, slot);
            } else {
                kept.push_back(recvs, slot);
            }
        }
        self.recvs = kept;
    }

    /// The next deferred operation of the initiator that has ended, and whether it succeeded.
    pub(super) fn poll_deferred_send(
        &mut self,
        ops: &mut OpPool<'_>,
    ) -> Option<(DeferredId, bool)> {
        let slot = self.deferred_sends.pop_front(ops)?;
        let id = slot.id(ops.generation(slot));
        let op = &ops[slot];
        let success = op.outcome.is_ok();
        if op.deferred.signals(success) {
            self.sends.push_back(ops, slot);
        } else {
            self.release_send(ops, slot);
        }
        Some((DeferredId::Op(id), success))
    }

    /// The next deferred receive that has ended, and whether it succeeded.
    pub(super) fn poll_deferred_recv(
        &mut self,
        recvs: &mut RecvPool<'_>,
    ) -> Option<(DeferredId, bool)> {
        let slot = self.deferred_recvs.pop_front(recvs)?;
        let id = slot.id(recvs.generation(slot));
        let op = &recvs[slot];
        let success = op.outcome.is_ok();
        if op.deferred.signals(success) {
            self.recvs.push_back(recvs, slot);
        } else {
            self.release_recv(recvs, slot);
        }
        Some((DeferredId::Recv(id), success))
    }

    /// Ends `count` messages, from `run.0` to `run.1` in `queue`, with success and a signal each.
    #[inline(always)]
    pub(super) fn finish_send_run(
        &mut self,
        ops: &mut OpPool<'_>,
        stats: &mut Stats,
        queue: &mut Queue,
        run: (OpSlot, OpSlot),
        count: u64,
    ) {
        queue.move_run(ops, run, &mut self.sends);
        stats.messages_sent += count;
        self.counters.sends.done += count;
    }

    /// Ends `count` receives, from `run.0` to `run.1` in `queue`, with success and a signal each.
    #[inline(always)]
    pub(super) fn finish_recv_run(
        &mut self,
        recvs: &mut RecvPool<'_>,
        queue: &mut List<RecvSlot>,
        run: (RecvSlot, RecvSlot),
        count: u64,
    ) {
        queue.move_run(recvs, run, &mut self.recvs);
        self.counters.receives.done += count;
    }

    #[inline(always)]
    pub(super) fn take_send_completion(&mut self, ops: &mut OpPool<'_>) -> Option<Completion> {
        let slot = self.sends.pop_front(ops)?;
        let op = &ops[slot];
        let envelope = op.envelope();
        let completion = Completion {
            context: op.context,
            kind: op.op_kind(),
            peer: op.peer,
            len: op.total,
            overflow: 0,
            tag: envelope.and_then(|envelope| envelope.tag).unwrap_or(0),
            data: envelope.and_then(|envelope| envelope.data),
            slice: None,
            ends_buffer: false,
            outcome: op.outcome,
        };
        self.release_send(ops, slot);
        Some(completion)
    }

    /// The completion of a receive that is not a whole message in a buffer of its own.
    #[cold]
    #[inline(never)]
    fn take_unusual(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot) -> Completion {
        let completion = self.recv_completion(recvs, slot);
        self.release_recv(recvs, slot);
        completion
    }

    #[inline(always)]
    pub(super) fn take_recv_completion(&mut self, recvs: &mut RecvPool<'_>) -> Option<Completion> {
        let slot = self.recvs.pop_front(recvs)?;
        let op = &recvs[slot];
        if op.kind != RecvKind::One || op.outcome.is_err() {
            return Some(self.take_unusual(recvs, slot));
        }
        // A whole message in a buffer of its own: the usual case.
        let completion = Completion {
            context: op.request.context,
            kind: OpKind::Recv { tagged: op.request.tag.is_some() },
            peer: op.peer,
            len: op.envelope.total.min(op.request.len),
            overflow: 0,
            tag: op.envelope.tag.unwrap_or(0),
            data: op.envelope.data,
            slice: None,
            ends_buffer: false,
            outcome: Ok(()),
        };
        debug_assert_eq!(completion, self.recv_completion(recvs, slot));
        self.release_usual(recvs, slot);
        Some(completion)
    }

    /// The completion of a receive of any kind, or of a remote write.
    fn recv_completion(&self, recvs: &RecvPool<'_>, slot: RecvSlot) -> Completion {
        let op = &recvs[slot];
        let total = op.envelope.total;
        let event = matches!(op.kind, RecvKind::Event(_));
        let placed = match op.outcome {
            Ok(()) if event || op.kind == RecvKind::Peek => total,
            Ok(()) | Err(OpError::Truncated) => total.min(op.request.len),
            Err(_) => 0,
        };
        let tagged = op.request.tag.is_some();
        let named = op.request.from.filter(|_| op.peer.is_none());
        Completion {
            context: op.request.context,
            kind: if event { OpKind::RemoteWrite } else { OpKind::Recv { tagged } },
            peer: named.unwrap_or(op.peer),
            len: placed,
            overflow: if op.outcome == Err(OpError::Truncated) { total - placed } else { 0 },
            tag: op.envelope.tag.unwrap_or(0),
            data: op.envelope.data,
            slice: matches!(op.kind, RecvKind::Slice { .. } | RecvKind::Shared)
                .then(|| slot.id(recvs.generation(slot))),
            ends_buffer: matches!(
                op.kind,
                RecvKind::Slice { last: true, .. } | RecvKind::MultiRecv(_)
            ),
            outcome: op.outcome,
        }
    }

    /// Ends a posted operation, which is out of its queue, as its `outcome` says.
    #[inline(always)]
    pub(super) fn finish_send(&mut self, ops: &mut OpPool<'_>, stats: &mut Stats, slot: OpSlot) {
        let op = &mut ops[slot];
        op.done = true;
        let message = op.envelope().is_some();
        stats.messages_sent += u64::from(message && op.outcome.is_ok());
        self.counters.count(op.op_kind(), op.is_request(), op.outcome.is_ok());
        if op.signal {
            op.links = self.sends.links_behind();
            self.sends.push_linked(ops, slot);
        } else {
            self.finish_suppressed_send(ops, slot);
        }
    }

    /// The links of the next receive that [`Self::finish_linked`] ends.
    #[inline(always)]
    pub(super) fn recv_links(&self) -> Links<RecvSlot> {
        self.recvs.links_behind()
    }

    /// Ends a receive of one message that succeeded, has a signal, and the links that
    /// [`Self::recv_links`] gave; otherwise as [`Self::finish_one`].
    #[inline(always)]
    pub(super) fn finish_linked(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot) {
        self.counters.receives.done += 1;
        self.recvs.push_linked(recvs, slot);
    }

    /// Ends a receive of one message. [`Self::finish_recv`] has the same effect for it, and ends
    /// all other kinds.
    #[inline(never)]
    pub(super) fn finish_one(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot) {
        let op = &recvs[slot];
        let tagged = op.request.tag.is_some();
        self.counters.count(OpKind::Recv { tagged }, false, op.outcome.is_ok());
        if op.request.signal {
            self.recvs.push_back(recvs, slot);
        } else {
            self.finish_suppressed_recv(recvs, slot);
        }
    }

    /// Ends a receive, which is out of its queue, as its `outcome` says.
    #[inline]
    pub(super) fn finish_recv(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot) {
        let op = &recvs[slot];
        // Received messages are counted (fi_endpoint(3), FI_RECV). An event is the peer's
        // operation: it is counted where it is served. A peek is not counted: each message would
        // count twice, and a peek that finds none would be a failure to the counter's waiters. A
        // peek that drops its message is not counted either, claimed or not. libfabric's common
        // receive queue (util_srx) does the same. The providers tcp and psm3 count the drop of a
        // claimed message only.
        if !matches!(op.kind, RecvKind::Event(_) | RecvKind::Peek) {
            let tagged = op.request.tag.is_some();
            self.counters.count(OpKind::Recv { tagged }, false, op.outcome.is_ok());
        }
        if let RecvKind::Slice { of, .. } = op.kind {
            self.finish_slice(recvs, slot, of);
        } else if op.request.signal {
            self.recvs.push_back(recvs, slot);
        } else {
            self.finish_suppressed_recv(recvs, slot);
        }
    }

    /// Ends a posted operation without a signal, which is counted already.
    #[inline]
    fn finish_suppressed_send(&mut self, ops: &mut OpPool<'_>, slot: OpSlot) {
        let op = &ops[slot];
        match (op.deferred, op.outcome) {
            (Deferred::No, Ok(())) => self.release_send(ops, slot),
            (Deferred::No, Err(_)) => self.sends.push_back(ops, slot),
            (deferred, outcome) => self.finish_deferred_send(ops, slot, deferred, outcome),
        }
    }

    #[cold]
    fn finish_deferred_send(
        &mut self,
        ops: &mut OpPool<'_>,
        slot: OpSlot,
        deferred: Deferred,
        outcome: Result<(), OpError>,
    ) {
        if deferred == Deferred::Suppressed {
            let op = &ops[slot];
            self.counters.uncount(op.op_kind(), op.is_request(), outcome.is_ok());
        }
        self.deferred_sends.push_back(ops, slot);
    }

    /// Ends a receive without a signal, which is counted already.
    #[inline]
    fn finish_suppressed_recv(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot) {
        let op = &recvs[slot];
        match (op.deferred, op.outcome) {
            (Deferred::No, Ok(())) => self.release_recv(recvs, slot),
            (Deferred::No, Err(_)) => self.recvs.push_back(recvs, slot),
            (deferred, outcome) => self.finish_deferred_recv(recvs, slot, deferred, outcome),
        }
    }

    #[cold]
    fn finish_deferred_recv(
        &mut self,
        recvs: &mut RecvPool<'_>,
        slot: RecvSlot,
        deferred: Deferred,
        outcome: Result<(), OpError>,
    ) {
        if deferred == Deferred::Suppressed {
            let tagged = recvs[slot].request.tag.is_some();
            self.counters.uncount(OpKind::Recv { tagged }, false, outcome.is_ok());
        }
        self.deferred_recvs.push_back(recvs, slot);
    }

    /// Ends a slice of a multi-receive buffer, as its `outcome` says.
    #[cold]
    fn finish_slice(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot, of: RecvSlot) {
        let RecvKind::MultiRecv(mut multi) = recvs[of].kind else { return };
        let last = multi.end_slice();
        let cancelled = recvs[of].outcome.is_err();
        recvs[of].kind = RecvKind::MultiRecv(multi);
        recvs[slot].kind = RecvKind::Slice { of: RecvSlot::NONE, last: last && !cancelled };
        let part = &recvs[slot];
        if part.request.signal || part.outcome.is_err() || (last && !cancelled) {
            self.recvs.push_back(recvs, slot);
        } else {
            self.release_recv(recvs, slot);
        }
        match (last, cancelled) {
            (true, true) => self.finish_recv(recvs, of),
            (true, false) => self.release_recv(recvs, of),
            _ => {}
        }
    }
}
