// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deadlines of a connection: the next time that needs attention (`docs/PROTOCOL.md` §4.3, §4.5,
//! §5.6).
//!
//! In: the times of a connection. Out: the one deadline of its timer. The engine calls. All
//! operations are O(1).

use super::connection::{Connection, IDLE_NANOS};
use super::watch::CHECKS;
use crate::Congestion;
use crate::collections::time::{TICK_NANOS, Tick};

/// A peer that owes an answer gets a ping when this part of the peer timeout has passed without a
/// packet.
pub(crate) const PING_PART: u32 = 4;
// A ping that is answered brings the next check of the watch.
static_assertions::const_assert!(PING_PART >= CHECKS);
/// Interval of further pings, at most, as a part of the peer timeout: some 30 pings in all. One
/// ping that arrives, and its answer, suffice.
const PING_AGAIN_PART: u32 = 32;

/// [`IDLE_NANOS`] in ticks.
const IDLE_TICKS: u32 = (IDLE_NANOS / TICK_NANOS) as u32;

/// How long an engine bears the silence of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Silence {
    /// The peer time-out, in ticks.
    pub(crate) timeout: u32,
    /// Whether it counts on connections without work too, as between connected endpoints. Such a
    /// connection is not released.
    pub(crate) counts_when_idle: bool,
}

impl Silence {
    /// Whether a connection without work rests before a ping is due on it, once it was heard.
    #[inline(always)]
    pub(crate) const fn allows_rest(self) -> bool {
        self.timeout >= PING_PART * IDLE_TICKS
    }
}

impl Connection {
    /// Whether a packet of the peer is expected, so that its silence counts.
    #[inline]
    pub(crate) fn expects_packets(&self, silence: Silence) -> bool {
        silence.counts_when_idle || self.awaits_peer()
    }

    /// When a connection without work is released: later if parts of a failed operation may arrive.
    /// A peer that repeats them is heard within the peer time-out, or gives them up.
    pub(crate) fn idle_at(&self, silence: Silence) -> Tick {
        if self.knows_failed() { self.quiet_from().plus(silence.timeout) } else { self.rests_at() }
    }

    /// When a connection without work rests.
    pub(crate) fn rests_at(&self) -> Tick {
        self.quiet_from().plus_nanos(IDLE_NANOS)
    }

    fn quiet_from(&self) -> Tick {
        self.rx().newest_arrived().max(self.path().timer_from())
    }

    /// When this connection next needs attention, at the latest; not before `now`.
    pub(crate) fn deadline(&self, silence: Silence, policy: Congestion, now: Tick) -> Tick {
        let mut soonest = u32::MAX;
        let mut by = |at: Option<Tick>| {
            if let Some(at) = at {
                soonest = soonest.min(at.since(now));
            }
        };
        by(self.rx().ack_at());
        by(self.path().loss_at());
        by(self.hold_until());
        by(self.hello().repeat_at());
        by(self.path().round_ends());
        by(self.retransmit_at());
        if self.expects_packets(silence) {
            by(Some(self.rx().last_heard().plus(silence.timeout)));
            by(self.ping_at(silence));
            by(self.path().paced_until(policy, now).filter(|_| self.wants_to_send()));
        }
        if soonest < u32::MAX {
            return now.plus(soonest);
        }
        // A connection that could send, but for a packet that waits in the list, is looked at again
        // later.
        let idle = self.idle_at(silence);
        if idle.has_come(now) { now.plus_nanos(IDLE_NANOS) } else { idle }
    }

    /// When a ping is due although nothing is under way. Either the peer owes an answer that may
    /// take long, such as the rendezvous of a long message, or its silence counts always. The timer
    /// was restarted by the last ping, which may be lost. The next one follows after a time-out,
    /// later ones when the time since the first has doubled.
    pub(crate) fn ping_at(&self, silence: Silence) -> Option<Tick> {
        let waits = self.tx().all_acknowledged()
            && self.expects_packets(silence)
            && self.hello().repeat_at().is_none();
        let first = self.rx().last_heard().plus(silence.timeout / PING_PART);
        let again = || {
            let pause = self.path().timer_from().since(first).max(self.path().rtt().timeout(0));
            self.path().timer_from().plus(pause.min(silence.timeout / PING_AGAIN_PART))
        };
        waits.then(|| if first.has_come(self.path().timer_from()) { again() } else { first })
    }

    /// Whether the last packet that was sent is a ping, and the peer has not answered it.
    pub(crate) fn has_unanswered_ping(&self, silence: Silence) -> bool {
        let first = self.rx().last_heard().plus(silence.timeout / PING_PART);
        first.has_come(self.path().timer_from())
    }

    /// When the retransmission timer fires, if it runs.
    #[inline]
    pub(crate) fn retransmit_at(&self) -> Option<Tick> {
        (!self.tx().all_acknowledged()).then(|| self.path().retransmit_at(self.tx().first_psn()))
    }
}
