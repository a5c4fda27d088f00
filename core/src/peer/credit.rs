// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credit for requests (`docs/PROTOCOL.md` §8.2): how many the peer may have here, and this side
//! there.
//!
//! In: requests and their ends, and the peer's word on credit, of `engine/{serve,compose,pull,
//! response,ingest}.rs`. Out: whether another request may go. Bound: 16 each way.

use super::active::{Active, QUIET_NANOS};
use crate::serial::Psn;
use crate::time::{TICK_NANOS, Tick};

/// How long after hearing from a peer its last word on credit holds: while its own state of this
/// connection certainly lives.
const CREDIT_NANOS: u64 = QUIET_NANOS / 2;

/// As a responder and as one who asks: what the credits are at (`docs/PROTOCOL.md` §8.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Credits {
    /// How many requests the peer may have here, all of which have a slot kept for them.
    pub(crate) granted: u8,
    /// How many it has.
    pub(crate) serving: u8,
    /// How many requests the peer allows; as it last said.
    pub(crate) allowed: u8,
    /// Requests that the application posted and that are not answered in full.
    pub(crate) asking: u8,
    /// Parts of the peer's long messages that were asked for and have not ended: each has a slot.
    pub(crate) pulling: u16,
    /// The last request was for one of those.
    pub(crate) pulled_last: bool,
    /// Requests that are answered, while the peer may not know that we know.
    pub(crate) returning: u8,
    /// Those count no more when everything up to this packet has arrived.
    pub(crate) return_psn: Psn,
}

impl Default for Credits {
    fn default() -> Self {
        Self {
            granted: 1,
            serving: 0,
            allowed: 1,
            asking: 0,
            pulling: 0,
            pulled_last: false,
            returning: 0,
            return_psn: Psn(0),
        }
    }
}

impl Credits {
    /// A request that the application posted goes out.
    #[inline]
    pub(crate) fn ask(&mut self) {
        self.asking += 1;
        self.pulled_last = false;
    }

    /// A part of a long message is asked for.
    pub(crate) fn pull(&mut self) {
        self.pulling += 1;
        self.pulled_last = true;
    }
}

impl Active {
    /// How many more requests may be sent (`docs/PROTOCOL.md` §8.2).
    #[inline]
    pub(crate) fn free_credits(&self, now: Tick) -> u16 {
        let Credits { allowed, asking, pulling, returning, .. } = self.credits;
        let allowed = if self.is_in_touch(now) { allowed } else { 1 };
        u16::from(allowed).saturating_sub(pulling + u16::from(asking + returning))
    }

    /// Whether the peer's state of this connection certainly lives: it was heard a moment ago.
    #[inline(always)]
    pub(crate) fn is_in_touch(&self, now: Tick) -> bool {
        now.since(self.newest_arrived) < (CREDIT_NANOS / TICK_NANOS) as u32
    }

    /// Whether the peer should say with an acknowledgment what it grants, when it is asked for
    /// something now: its last word is the least, or will not hold until the answer comes. Else
    /// nobody would ask for more than one thing at a time, for the peer has no reason to say again
    /// what it granted long ago.
    #[inline]
    pub(crate) fn has_thin_credit(&self, now: Tick) -> bool {
        let lapses = self.rtt.smoothed() >= (CREDIT_NANOS / TICK_NANOS) as u32 / 2;
        lapses || self.credits.allowed == 1 || !self.is_in_touch(now)
    }

    /// Packets have arrived in order: credits whose return the peer learns with the next packet.
    #[inline]
    pub(crate) fn return_credits(&mut self) {
        let credits = &mut self.credits;
        if credits.returning > 0 && credits.return_psn.is_before(self.window.next()) {
            credits.returning = 0;
        }
    }
}
