// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections of connected endpoints that have changed, until the owner asks.
//!
//! In: peers. Out: the same, in order. Called by the connection table. Bound: [`CHANGED_MAX`]
//! changes are known one by one; of more it is known that there were some.

use crate::{LinkState, PeerId};

/// Changed connections that are known one by one.
const CHANGED_MAX: usize = 128;

/// Connections that have opened or ended since the owner asked.
#[derive(Debug, Default)]
pub(super) struct ChangedLinks {
    changes: heapless::Deque<(PeerId, LinkState), CHANGED_MAX>,
    /// Some found no room.
    has_missed: bool,
}

impl ChangedLinks {
    pub(super) fn push(&mut self, peer: PeerId, state: LinkState) {
        self.has_missed |= self.changes.push_back((peer, state)).is_err();
    }

    pub(super) fn pop(&mut self) -> Option<(PeerId, LinkState)> {
        let missed = || {
            let has_missed = core::mem::take(&mut self.has_missed);
            has_missed.then_some((PeerId::NONE, LinkState::Opening))
        };
        self.changes.pop_front().or_else(missed)
    }
}
