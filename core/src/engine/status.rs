// SPDX-License-Identifier: MIT OR Apache-2.0
//! A. What can be asked of an engine that changes nothing: when it wants to be called, what it has
//! to give, how much is going on. Bound: O(1), but for [`Engine::is_settled`].

use super::Engine;
use crate::operation::{POSTED, RECVS};
use crate::{Instant, Stats, Tally};

impl Engine<'_> {
    /// When [`Self::advance`] should be called next: not after the earliest timer, and after the
    /// last call's time. `None`: no timer runs.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }

    /// What was counted since the engine was made.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How many operations have ended since the engine was made.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether [`Self::transmit`] may have a packet to give.
    #[must_use]
    #[inline]
    pub fn wants_transmit(&self) -> bool {
        !self.ready.is_empty() || self.has_answer()
    }

    /// Whether [`Self::poll_send_completion`] has a completion to give.
    #[must_use]
    pub fn has_send_completion(&self) -> bool {
        !self.sends_done.is_empty()
    }

    /// Whether [`Self::poll_recv_completion`] has a completion to give.
    #[must_use]
    pub fn has_recv_completion(&self) -> bool {
        !self.recvs_done.is_empty()
    }

    /// Whether every message posted so far is acknowledged and accepted, and nothing waits to be
    /// sent: an endpoint that closes now leaves nobody waiting.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.wheel_owners().all(|active| !self.actives[active].has_work())
            && self.pulling.is_empty()
            && !self.wants_transmit()
    }

    /// Messages that are stored for want of a receive, or of an earlier message.
    #[must_use]
    pub fn stored_messages(&self) -> u32 {
        self.unexpected.used()
    }

    /// Receives that wait for a message, or for the rest of one.
    #[must_use]
    pub fn posted_receives(&self) -> u32 {
        self.recvs.used_in(RECVS)
    }

    /// Operations of the application that have not ended, or whose end was not polled.
    #[must_use]
    pub fn posted_operations(&self) -> u32 {
        self.ops.used_in(POSTED)
    }

    /// How many more operations can be posted.
    #[must_use]
    pub fn free_operations(&self) -> u32 {
        self.ops.free_in(POSTED)
    }

    /// Peers that have traffic, or had until a moment ago.
    #[must_use]
    pub fn active_peers(&self) -> u32 {
        self.actives.used()
    }

    fn wheel_owners(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.actives.capacity()).filter(|&number| self.actives.is_used(number))
    }
}
