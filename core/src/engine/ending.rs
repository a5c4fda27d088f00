// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is left of ended connections: operations, messages that were arriving, and events, until
//! they end too (`docs/PROTOCOL.md` §5.5).
//!
//! In: the lists of a connection, in constant time. Out: their members, with the reason of the end.
//! Callers: `connect::teardown` fills the lists and ends a few members at once; the next progress
//! calls end the others. Bound: the slots of the pools.
//!
//! The first member of each connection has the reason as a mark. The members behind it end for the
//! same reason.

use crate::OpError;
use crate::collections::list::List;
use crate::collections::slab::{Slab, SlotIndex};
use crate::peer::operation::{Assembly, OpPool, RecvPool};
use crate::peer::queue::Queue;
use crate::peer::slots::{AssemblySlot, OpSlot, RecvSlot};

/// See the module.
#[derive(Debug, Hash)]
pub(super) struct Ending {
    /// Operations of the application.
    ops: List<OpSlot>,
    /// Messages that were arriving.
    assemblies: List<AssemblySlot>,
    /// Events of remote writes behind a missing packet.
    events: List<RecvSlot>,
    /// The reasons of the members that were taken last.
    op_error: OpError,
    assembly_error: OpError,
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            ops: List::default(),
            assemblies: List::default(),
            events: List::default(),
            op_error: OpError::Closed,
            assembly_error: OpError::Closed,
        }
    }
}

impl Ending {
    /// Whether nothing is left.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        // Empty lists have no slot as their head, all of whose bits are set: one test for three.
        let Self { ops, assemblies, events, .. } = self;
        let heads = ops.head().number() & assemblies.head().number() & events.head().number();
        heads == OpSlot::NONE.number()
    }

    /// Whether operations are left. An answer to one of them must not be taken for one of its
    /// peer's next connection.
    pub(super) fn has_ops(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Takes all operations of a connection.
    pub(super) fn add_ops(&mut self, pool: &mut OpPool<'_>, queue: &mut Queue, error: OpError) {
        let first = queue.list().head();
        if first.is_some() {
            (pool[first].done, pool[first].outcome) = (true, Err(error));
            queue.move_all(pool, &mut self.ops);
        }
    }

    /// Takes all messages of a connection that were arriving.
    pub(super) fn add_assemblies(
        &mut self,
        pool: &mut Slab<'_, Assembly, AssemblySlot>,
        list: &mut List<AssemblySlot>,
        error: OpError,
    ) {
        if list.head().is_some() {
            pool[list.head()].ended = Some(error);
            list.move_all(pool, &mut self.assemblies);
        }
    }

    /// Takes all events of a connection.
    pub(super) fn add_events(&mut self, pool: &mut RecvPool<'_>, list: &mut List<RecvSlot>) {
        list.move_all(pool, &mut self.events);
    }

    /// The next operation, with its outcome.
    pub(super) fn next_op(&mut self, pool: &mut OpPool<'_>) -> Option<OpSlot> {
        let slot = self.ops.pop_front(pool)?;
        let op = &mut pool[slot];
        match op.outcome {
            Err(error) if op.done => self.op_error = error,
            _ => op.outcome = Err(self.op_error),
        }
        Some(slot)
    }

    /// The next message, and the reason.
    pub(super) fn next_assembly(
        &mut self,
        pool: &mut Slab<'_, Assembly, AssemblySlot>,
    ) -> Option<(AssemblySlot, OpError)> {
        let slot = self.assemblies.pop_front(pool)?;
        self.assembly_error = pool[slot].ended.unwrap_or(self.assembly_error);
        Some((slot, self.assembly_error))
    }

    /// The next event.
    pub(super) fn next_event(&mut self, pool: &mut RecvPool<'_>) -> Option<RecvSlot> {
        self.events.pop_front(pool)
    }

    /// The lists, for audits.
    pub(super) const fn lists(&self) -> (List<OpSlot>, List<AssemblySlot>, List<RecvSlot>) {
        (self.ops, self.assemblies, self.events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::slots::Slots;
    use crate::peer::operation::{Assembly, TxOp};
    use std::vec::Vec;

    const EACH: u32 = 3;

    #[test]
    fn operations_end_for_the_reason_of_their_connection() {
        let reasons = [OpError::TimedOut, OpError::Closed];
        let storage = Slots::with_room(reasons.len() * EACH as usize).unwrap();
        let mut pool = OpPool::with_classes(storage, [2 * EACH, 0, 0]).unwrap();
        let mut ending = Ending::default();
        ending.add_ops(&mut pool, &mut Queue::default(), OpError::Reset);
        assert!(ending.is_empty());
        let mut expected = Vec::new();
        for reason in reasons {
            let mut queue = Queue::default();
            for _ in 0..EACH {
                let slot = pool.alloc_in(0, TxOp::default()).unwrap();
                queue.push(&mut pool, slot);
                expected.push((slot, Err(reason)));
            }
            // An operation may have failed for a reason of its own, and wait for an answer.
            let second = pool[queue.list().head()].links.next();
            pool[second].outcome = Err(OpError::Unsupported);
            ending.add_ops(&mut pool, &mut queue, reason);
        }
        assert!(ending.has_ops() && !ending.is_empty());
        let mut ended = Vec::new();
        while let Some(slot) = ending.next_op(&mut pool) {
            ended.push((slot, pool[slot].outcome));
        }
        assert_eq!(ended, expected);
        assert!(ending.is_empty());
    }

    #[test]
    fn messages_end_for_the_reason_of_their_connection() {
        let reasons = [OpError::Reset, OpError::TimedOut];
        let storage = Slots::with_room(reasons.len() * EACH as usize).unwrap();
        let mut pool: Slab<'_, Assembly, AssemblySlot> = Slab::new(storage);
        let mut ending = Ending::default();
        let mut expected = Vec::new();
        for reason in reasons {
            let mut list = List::default();
            for _ in 0..EACH {
                let slot = pool.alloc(Assembly::default()).unwrap();
                list.push_back(&mut pool, slot);
                expected.push((slot, reason));
            }
            ending.add_assemblies(&mut pool, &mut list, reason);
            assert!(list.is_empty());
        }
        assert!(!ending.is_empty() && !ending.has_ops());
        let ended: Vec<_> = core::iter::from_fn(|| ending.next_assembly(&mut pool)).collect();
        assert_eq!(ended, expected);
    }
}
