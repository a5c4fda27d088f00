// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that every component works with: connections, timers, completions, statistics, and
//! settings. A component borrows it as one argument.
//!
//! In: a component's call. Out: the timer of a connection, armed in time. Bound: O(1).

use crate::collections::coverage::Coverage;
use crate::collections::secret::{Secret, Use};
use crate::engine::completions::Completions;
use crate::engine::connect::ConnectionTable;
use crate::engine::ending::Ending;
use crate::engine::timers::Timers;
use crate::peer::ERA_PART;
use crate::peer::port_requests::PortRequests;
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::peer::window::BitsPool;
use crate::{Config, Destination, Instant, PathAdvice, PeerAddress, PortLimits, Stats};

/// A timer that fires this soon need not be looked at: less than the delay of an acknowledgment.
pub(super) const TIMER_SLACK_NANOS: u64 = 8_000;

/// Advice that waits for the port; more comes again.
pub(super) const ADVICE_MAX: usize = 16;

/// The identity of an engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// From the kernel's generator, and never used before. Everything that others must not guess
    /// follows from it: incarnations, tokens, cookies, packet numbers, keys of regions.
    pub key: u128,
}

impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Identity")
    }
}

/// Components that all others use, and settings. The fields are separate components with private
/// state of their own.
#[derive(Debug)]
pub(super) struct Ctx<'s> {
    pub(super) table: ConnectionTable<'s>,
    /// Pages of wide receive windows.
    pub(super) bits: BitsPool<'s>,
    pub(super) timers: Timers<'s>,
    pub(super) completions: Completions<'s>,
    pub(super) stats: Stats,
    pub(super) secret: Secret,
    /// Whether the parts of a message or a response cover it.
    pub(super) coverage: Coverage,
    /// The first packet number of each connection, where a test chooses it.
    #[cfg(feature = "test-util")]
    pub(super) first_psn: Option<crate::Psn>,
    pub(super) config: Config,
    pub(super) limits: PortLimits,
    /// Requests to peers for other source ports.
    pub(super) port_requests: PortRequests,
    /// What is left of ended connections.
    pub(super) ending: Ending,
    /// Advice that waits for the port.
    pub(super) advice: heapless::Vec<(Destination, PathAdvice), ADVICE_MAX>,
}

impl Ctx<'_> {
    /// The incarnation of this engine that the peer at an address sees. It tells nothing about
    /// those that other peers see.
    pub(super) fn incarnation(&self, of: &PeerAddress) -> u64 {
        self.secret.of(Use::Incarnation, of.words()).max(1)
    }

    /// The largest packet for a peer, in bytes.
    #[inline]
    pub(super) fn payload_max(&self, peer: PeerSlot) -> usize {
        self.table[peer].payload_max(self.limits.payload_max)
    }

    /// The largest packet for a peer on a path that passes every size, in bytes.
    pub(super) fn full_size(&self, peer: PeerSlot) -> u16 {
        self.table[peer].full_size(self.limits.payload_max)
    }

    /// The era, by which short paths age: [`ERA_PART`] of them in the time after which longer
    /// packets are tried again. Modulo 256.
    pub(super) fn era(&self) -> u8 {
        let nanos = u64::try_from(self.config.path_retry.as_nanos()).unwrap_or(u64::MAX);
        (self.timers.now().as_nanos() / (nanos / ERA_PART).max(1)) as u8
    }

    /// Advises the port about the path to the peer of a connection.
    #[cold]
    pub(super) fn advise(&mut self, conn: ConnSlot, advice: PathAdvice) {
        let slot = self.table[conn].peer();
        let address = self.table[slot].address();
        let to = Destination { peer: self.table.peer_id(slot), address };
        // If the list is full, the peer asks again.
        let _ = self.advice.push((to, advice));
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
        let deadline = self.table[conn].deadline(timers.silence(), policy, timers.tick());
        let deadline = deadline.instant(timers.now());
        if armed.is_none_or(|armed| deadline < armed) {
            timers.arm(conn, deadline);
        }
    }
}
