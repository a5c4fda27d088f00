// SPDX-License-Identifier: MIT OR Apache-2.0
//! A queue of operations of one connection, with a cursor to the next one to be sent.
//!
//! In: operations as they are posted, sent and ended. Out: their order. The engine's sender calls.
//! All operations are O(1).

use crate::collections::list::{Links, List};
use crate::collections::slab::SlotIndex;
use crate::peer::operation::OpPool;
use crate::peer::slots::OpSlot;

/// Operations of one connection, in the order of transmission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Queue {
    list: List<OpSlot>,
    /// The first operation that is not all sent, or none.
    cursor: OpSlot,
    /// The serial of the next operation.
    serial: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self { list: List::default(), cursor: OpSlot::NONE, serial: 0 }
    }
}

impl Queue {
    /// Puts an operation at the end.
    #[inline]
    pub(crate) fn push(&mut self, ops: &mut OpPool<'_>, slot: OpSlot) {
        let op = &mut ops[slot];
        (op.serial, op.links) = (self.next_serial(), self.list.links_behind());
        self.append(ops, slot);
    }

    /// The position of the operation that is appended next.
    #[inline(always)]
    pub(crate) fn next_serial(&mut self) -> u32 {
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        serial
    }

    /// Puts an operation at the end; its position is [`Self::next_serial`], and its links are those
    /// behind the last one of [`Self::list`].
    #[inline(always)]
    pub(crate) fn append(&mut self, ops: &mut OpPool<'_>, slot: OpSlot) {
        self.list.push_linked(ops, slot);
        if self.cursor.is_none() {
            self.cursor = slot;
        }
    }

    /// The operations.
    #[inline(always)]
    pub(crate) const fn list(&self) -> &List<OpSlot> {
        &self.list
    }

    /// Takes out an operation that ends.
    #[inline(always)]
    pub(crate) fn remove(&mut self, ops: &mut OpPool<'_>, slot: OpSlot) {
        self.list.remove(ops, slot);
    }

    /// Takes out an operation that had these `links`, and has them no longer.
    #[inline(always)]
    pub(crate) fn remove_linked(&mut self, ops: &mut OpPool<'_>, links: Links<OpSlot>) {
        self.list.remove_linked(ops, links);
    }

    /// Takes out the first operation, as the connection ends.
    pub(crate) fn take_first(&mut self, ops: &mut OpPool<'_>) -> Option<OpSlot> {
        self.list.pop_front(ops)
    }

    /// Moves the neighbours from `run.0` to `run.1`, which end, to the end of `to`.
    #[inline(always)]
    pub(crate) fn move_run(
        &mut self,
        ops: &mut OpPool<'_>,
        run: (OpSlot, OpSlot),
        to: &mut List<OpSlot>,
    ) {
        self.list.move_run(ops, run, to);
    }

    /// Moves all operations to the end of `to`, as the connection ends.
    pub(crate) fn move_all(&mut self, ops: &mut OpPool<'_>, to: &mut List<OpSlot>) {
        self.list.move_all(ops, to);
    }

    /// The first operation that is not all sent, or none.
    #[inline(always)]
    pub(crate) const fn cursor(&self) -> OpSlot {
        self.cursor
    }

    /// Moves the cursor to the first operation that is not all sent.
    #[inline(always)]
    pub(crate) fn move_cursor(&mut self, slot: OpSlot) {
        self.cursor = slot;
    }
}
