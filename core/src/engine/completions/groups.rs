// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finished operations by group of peers: a group has completion queues of its own.
//!
//! In: finished operations in the order of their ends, and a function that names the group of a
//! peer. Out: the completions of one group, in that order. An engine that never sorts has one list
//! of each kind. Therefore the functions that end an operation know of no group. Bound: an
//! operation is moved once; the groups.

use crate::engine::completions::Completions;
use crate::peer::operation::{OpPool, RecvPool};
use crate::{Completion, CompletionGroup, PeerId};
use core::mem::swap;

impl Completions<'_> {
    /// Moves the finished operations of the initiator to their groups.
    pub(crate) fn sort_sends(
        &mut self,
        ops: &mut OpPool<'_>,
        group_of: &mut impl FnMut(PeerId) -> CompletionGroup,
    ) {
        // bound: operations that have finished since the last call
        while let Some(slot) = self.sends.pop_front(ops) {
            let group = group_of(ops[slot].peer);
            self.group_sends[group].push_back(ops, slot);
        }
    }

    /// Moves the finished receives and remote writes to their groups. A receive that names a peer
    /// belongs to that peer's group, in error too.
    pub(crate) fn sort_recvs(
        &mut self,
        recvs: &mut RecvPool<'_>,
        group_of: &mut impl FnMut(PeerId) -> CompletionGroup,
    ) {
        // bound: operations that have finished since the last call
        while let Some(slot) = self.recvs.pop_front(recvs) {
            let op = &recvs[slot];
            let group = group_of(op.request.from.unwrap_or(op.peer));
            self.group_recvs[group].push_back(recvs, slot);
        }
    }

    /// Whether a finished operation of the group's initiators waits to be polled.
    pub(crate) fn has_send_of(&self, group: CompletionGroup) -> bool {
        !self.group_sends[group].is_empty()
    }

    /// Whether a finished receive or remote write of the group waits to be polled.
    pub(crate) fn has_recv_of(&self, group: CompletionGroup) -> bool {
        !self.group_recvs[group].is_empty()
    }

    /// As [`Self::poll_send`], of one group.
    pub(crate) fn poll_send_of(
        &mut self,
        ops: &mut OpPool<'_>,
        group: CompletionGroup,
    ) -> Option<Completion> {
        self.with_sends_of(group, |all| all.poll_send(ops))
    }

    /// As [`Self::poll_recv`], of one group.
    pub(crate) fn poll_recv_of(
        &mut self,
        recvs: &mut RecvPool<'_>,
        group: CompletionGroup,
    ) -> Option<Completion> {
        self.with_recvs_of(group, |all| all.poll_recv(recvs))
    }

    /// Calls `each` with the list of every group in the place of the unsorted one.
    pub(super) fn for_sends_of_groups(&mut self, mut each: impl FnMut(&mut Self)) {
        for group in CompletionGroup::all() {
            if self.has_send_of(group) {
                self.with_sends_of(group, &mut each);
            }
        }
    }

    /// See [`Self::for_sends_of_groups`].
    pub(super) fn for_recvs_of_groups(&mut self, mut each: impl FnMut(&mut Self)) {
        for group in CompletionGroup::all() {
            if self.has_recv_of(group) {
                self.with_recvs_of(group, &mut each);
            }
        }
    }

    fn with_sends_of<R>(&mut self, group: CompletionGroup, with: impl FnOnce(&mut Self) -> R) -> R {
        swap(&mut self.sends, &mut self.group_sends[group]);
        let result = with(self);
        swap(&mut self.sends, &mut self.group_sends[group]);
        result
    }

    fn with_recvs_of<R>(&mut self, group: CompletionGroup, with: impl FnOnce(&mut Self) -> R) -> R {
        swap(&mut self.recvs, &mut self.group_recvs[group]);
        let result = with(self);
        swap(&mut self.recvs, &mut self.group_recvs[group]);
        result
    }
}
