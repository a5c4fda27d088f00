// SPDX-License-Identifier: MIT OR Apache-2.0
//! Slots of finished operations that are free again, with the shares that they were of.
//!
//! In: slots that are in no list. Out: their pools, with a slot more. Bound: all operations are
//! O(1).

use crate::engine::completions::Completions;
use crate::peer::operation::{OpPool, POSTED, RECVS, RecvKind, RecvPool};
use crate::peer::slots::{OpSlot, RecvSlot};

impl Completions<'_> {
    /// Frees an operation of the initiator.
    #[inline(always)]
    pub(super) fn release_send(&mut self, ops: &mut OpPool<'_>, slot: OpSlot) {
        self.link_slots.send_given_back(ops[slot].peer);
        ops.release_in(POSTED, slot);
    }

    /// Frees a receive, a slice or an event.
    pub(crate) fn release_recv(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot) {
        if let RecvKind::Event(Some(host)) = recvs[slot].kind {
            self.event_hosts.given_back(host, 1);
        }
        self.link_slots.recv_given_back(recvs, slot);
        recvs.release(slot);
    }

    /// Frees a posted receive of one message.
    #[inline(always)]
    pub(super) fn release_usual(&mut self, recvs: &mut RecvPool<'_>, slot: RecvSlot) {
        self.link_slots.usual_given_back(recvs[slot].request.from);
        recvs.release_in(RECVS, slot);
    }
}
