// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is due with a peer, and when: the acknowledgment that it is owed, and the time of whatever
//! comes next (`docs/PROTOCOL.md` §4.3, §4.5, §5.6).
//!
//! In: packets that came and went. Out: whether an acknowledgment goes out now, and the one
//! deadline that the peer has in the timer wheel. The engine calls. All operations are O(1).

use super::active::{AckDue, Active, QUIET_NANOS};
use crate::rng::mix;
use crate::time::{TICK_NANOS, Tick};
use crate::{Congestion, Instant};

/// An acknowledgment may wait this long for a packet to ride on.
const ACK_DELAY_NANOS: u64 = 10_000;
/// After so many packets without an acknowledgment, one goes out at once.
const ACK_EVERY_PACKETS: u8 = 16;
/// The longest that a peer in trouble waits to start anew; a bound for the check that time-outs
/// cannot overflow.
const BACKOFF_MAX: u8 = 16;

/// A peer that owes an answer is asked whether it is there when this part of the death time has
/// passed in silence.
pub(crate) const PING_PART: u32 = 4;
/// As long as it does not answer it is asked again, at the latest after this part of the death
/// time: some 30 times on the whole, of which one that arrives, and its answer, suffice.
const PING_AGAIN_PART: u32 = 32;

impl Active {
    /// When a peer that has no work gives this state back.
    pub(crate) fn quiet_at(&self) -> Tick {
        self.newest_arrived.max(self.timer_from).plus_nanos(QUIET_NANOS)
    }

    /// A data packet arrived and was taken in: it wants an acknowledgment.
    #[inline]
    pub(crate) fn owe_ack(&mut self, now: Tick, at_once: bool) {
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        self.ack_whole |= at_once;
        if at_once || self.unacknowledged >= ACK_EVERY_PACKETS || self.window.has_holes() {
            self.ack_due = AckDue::Now;
        } else if self.ack_due == AckDue::Not {
            self.ack_due = AckDue::At(now.plus_nanos(ACK_DELAY_NANOS));
        }
    }

    /// Whether an acknowledgment is due now that no other packet can carry.
    #[inline]
    pub(crate) fn owes_whole_ack(&self) -> bool {
        self.ack_due == AckDue::Now
            && (self.ack_whole || self.duplicates_seen || self.window.has_holes())
    }

    /// A packet went out. It told the peer the cumulative number; more than that takes an
    /// acknowledgment of its own, which `whole` says this was.
    #[inline]
    pub(crate) fn acknowledged(&mut self, whole: bool) {
        if whole {
            self.duplicates_seen = false;
            self.ack_whole = false;
        } else if self.owes_whole_ack() || self.window.has_holes() {
            return;
        }
        self.ack_due = AckDue::Not;
        self.unacknowledged = 0;
    }

    /// Time goes on from `before`, when all times here compared rightly, to `now`: so that they
    /// compare rightly with that. Of the time between, `unheard` nanoseconds count for no silence.
    pub(crate) fn age(&mut self, before: Instant, now: Instant, unheard: u64) {
        let aged = |at: &mut Tick| *at = at.aged(before, now);
        aged(&mut self.newest_arrived);
        aged(&mut self.newest_acked);
        aged(&mut self.timer_from);
        let listened = self.silent_since.plus((unheard / TICK_NANOS) as u32);
        self.silent_since = listened.aged(before.after_nanos(unheard), now);
        for at in [&mut self.loss_at, &mut self.hold_until, &mut self.hello_at] {
            at.iter_mut().for_each(aged);
        }
        if let AckDue::At(at) = &mut self.ack_due {
            aged(at);
        }
        self.congestion.age(before, now);
    }

    /// When this peer next needs attention, whatever happens, where `death` is the death time in
    /// ticks; not before `now`.
    pub(crate) fn deadline(&self, death: u32, policy: Congestion, now: Tick) -> Tick {
        let mut soonest = u32::MAX;
        let mut by = |at: Tick| soonest = soonest.min(at.since(now));
        if let AckDue::At(at) = self.ack_due {
            by(at);
        }
        for at in [self.loss_at, self.hold_until, self.hello_at].into_iter().flatten() {
            by(at);
        }
        if let Some(at) = self.retransmit_at() {
            by(at);
        }
        if self.awaits_peer() {
            by(self.silent_since.plus(death));
            if let Some(at) = self.ping_at(death) {
                by(at);
            }
            if let Some(at) = self.congestion.paced_until(policy, now)
                && self.wants_to_send()
            {
                by(at);
            }
        }
        if soonest < u32::MAX {
            return now.plus(soonest);
        }
        // One that could go but for a packet that waits in line is looked at again later.
        let quiet = self.quiet_at();
        if quiet.has_come(now) { now.plus_nanos(QUIET_NANOS) } else { quiet }
    }

    /// When to ask whether the peer is still there, though nothing is under way: while it owes an
    /// answer that may take its time, such as the pull of a long message. The timer was restarted
    /// when it was last asked, which may be lost: it is asked again after a time-out, and from then
    /// on when as much time has passed again as since it was asked first.
    pub(crate) fn ping_at(&self, death: u32) -> Option<Tick> {
        let waits = self.all_acknowledged() && self.awaits_peer() && self.hello_at.is_none();
        let first = self.silent_since.plus(death / PING_PART);
        let again = || {
            let pause = self.timer_from.since(first).max(self.rtt.timeout(0));
            self.timer_from.plus(pause.min(death / PING_AGAIN_PART))
        };
        waits.then(|| if first.has_come(self.timer_from) { again() } else { first })
    }

    /// When the retransmission timer fires, if it runs. From the first time-out on with up to a
    /// quarter more, different from peer to peer and from time to time: senders that a burst made
    /// lose packets together do not come back together.
    pub(crate) fn retransmit_at(&self) -> Option<Tick> {
        let after = match self.backoff {
            0 => self.rtt.probe_timeout(),
            n => {
                let timeout = self.rtt.timeout(u32::from(n.min(BACKOFF_MAX) - 1));
                let salt = u64::from(self.first_psn.0) << 8 | u64::from(n);
                timeout + timeout / 256 * (mix(salt) as u32 & 63)
            }
        };
        (!self.all_acknowledged()).then(|| self.timer_from.plus(after))
    }
}
