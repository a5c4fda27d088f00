// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that every component works with, in one place, so that a component borrows it as one
//! argument: connections, timers, completions, statistics, and the engine's settings.
//!
//! In: a component's call. Out: the timer of a connection, armed in time. Bound: O(1).

use crate::collections::rng::Rng;
use crate::engine::completions::Completions;
use crate::engine::connect::ConnectionTable;
use crate::engine::timers::Timers;
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::peer::window::BitsPool;
use crate::{Config, Instant, PortLimits, Stats};

/// A timer that fires this soon need not be looked at: less than the delay of an acknowledgment.
pub(super) const TIMER_SLACK_NANOS: u64 = 8_000;

/// The identity of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Random, not 0, never used before: tells this endpoint from an earlier one at the same
    /// address.
    pub incarnation: u64,
    /// Random: seeds sequence bases, jitter and cookies.
    pub seed: u64,
}

/// Components that all others use, and settings. The fields are separate components with private
/// state of their own.
#[derive(Debug)]
pub(super) struct Ctx<'s> {
    pub(super) table: ConnectionTable<'s>,
    /// Pages of wide receive windows.
    pub(super) bits: BitsPool<'s>,
    pub(super) timers: Timers<'s>,
    pub(super) completions: Completions,
    pub(super) stats: Stats,
    pub(super) rng: Rng,
    pub(super) config: Config,
    pub(super) identity: Identity,
    pub(super) limits: PortLimits,
}

impl Ctx<'_> {
    /// The largest packet for a peer, in bytes.
    #[inline]
    pub(super) fn payload_max(&self, peer: PeerSlot) -> usize {
        self.table[peer].payload_max(self.limits.payload_max)
    }

    /// An acknowledgment of its own goes out to a peer at once.
    pub(super) fn owe_ack_now(&mut self, conn: ConnSlot) {
        self.table[conn].rx_mut().owe_whole_ack_now();
        self.table.make_ready(conn);
    }

    /// Arms the timer of a connection for its next deadline, within [`TIMER_SLACK_NANOS`]. A timer
    /// that fires too early is corrected when it fires.
    #[inline]
    pub(super) fn arm(&mut self, conn: ConnSlot) {
        let armed = self.timers.deadline(conn);
        let latest = self.timers.now().after_nanos(TIMER_SLACK_NANOS);
        if armed.is_none_or(|armed| armed > latest) {
            self.arm_anew(conn, armed);
        }
    }

    fn arm_anew(&mut self, conn: ConnSlot, armed: Option<Instant>) {
        let timers = &mut self.timers;
        let policy = self.config.congestion;
        let deadline = self.table[conn].deadline(timers.peer_timeout(), policy, timers.tick());
        let deadline = deadline.instant(timers.now());
        if armed.is_none_or(|armed| deadline < armed) {
            timers.arm(conn, deadline);
        }
    }
}
