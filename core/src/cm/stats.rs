// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of an agent since it was made.

use crate::DropReason;

/// Statistics of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AgentStats {
    /// Packets ingested, of any kind and quality.
    pub packets_received: u64,
    /// Packets transmitted.
    pub packets_sent: u64,
    /// Packets transmitted again because nothing was received.
    pub repetitions: u64,
    /// Requests answered with a cookie.
    pub cookies_sent: u64,
    /// Requests refused because no endpoint listens.
    pub refused: u64,
    /// Requests refused because the backlog was full.
    pub busy: u64,
    /// Requests received.
    pub requested: u64,
    /// Requests accepted, and the acceptance confirmed.
    pub established: u64,
    /// Requests of this side that were accepted.
    pub connected: u64,
    /// Answers that were dropped because as many wait as there is room for.
    pub replies_dropped: u64,
    dropped: [u64; DropReason::COUNT],
}

impl AgentStats {
    /// The number of packets dropped for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped.get(reason as usize).copied().unwrap_or(0)
    }

    pub(super) fn count_drop(&mut self, reason: DropReason) {
        if let Some(count) = self.dropped.get_mut(reason as usize) {
            *count += 1;
        }
    }
}
