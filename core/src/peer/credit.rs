// SPDX-License-Identifier: MIT OR Apache-2.0
//! Credit for requests (`docs/PROTOCOL.md` §8.2): how many requests the peer may have here, and
//! this side there.
//!
//! In: requests and their ends, and the grants of the peer. Out: the counts that decide whether
//! another request may go. Bound: 16 each way.

use crate::collections::serial::Psn;

/// The most requests that one peer is granted at once.
pub(crate) const CREDIT_MAX: u8 = 16;
/// The unit of the upper half of [`Credits::reserved`].
const LENT: u8 = CREDIT_MAX;

/// How long a grant of the peer holds after its last packet: while its own connection certainly
/// exists.
pub(crate) const CREDIT_NANOS: u64 = 10_000_000;

/// Credits as a responder and as an initiator (`docs/PROTOCOL.md` §8.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Credits {
    /// Answered requests are returned when everything up to this packet has arrived.
    return_psn: Psn,
    /// Requests for bytes of the peer's long messages that have not ended; each has a slot.
    rendezvous_reads: u8,
    /// Slots of these, and of the ends of long messages that the peer has not acknowledged.
    rendezvous_slots: u8,
    /// Slots that are reserved for requests of the peer, beyond the first: the lower half counts
    /// those that it is granted, the upper half those that are lent to one packet.
    reserved: u8,
    /// How many requests the peer has here.
    serving: u8,
    /// How many requests the peer allows, by its last grant.
    allowed: u8,
    /// Requests of the application that are not answered in full.
    asking: u8,
    /// Answered requests, while the peer may not know of the arrival of its answers.
    returning: u8,
    /// The last request was a rendezvous read.
    rendezvous_last: bool,
}

impl Default for Credits {
    fn default() -> Self {
        Self {
            return_psn: Psn(0),
            rendezvous_reads: 0,
            rendezvous_slots: 0,
            reserved: 0,
            serving: 0,
            allowed: 1,
            asking: 0,
            returning: 0,
            rendezvous_last: false,
        }
    }
}

// The responder.
impl Credits {
    /// How many requests the peer may have here.
    #[inline(always)]
    pub(crate) const fn granted(&self) -> u8 {
        1 + self.reserved % LENT
    }

    /// Slots that are reserved for requests of the peer.
    #[inline(always)]
    pub(crate) const fn reserved(&self) -> u8 {
        self.granted() + self.reserved / LENT
    }

    /// How many requests the peer has here.
    #[inline(always)]
    pub(crate) const fn serving(&self) -> u8 {
        self.serving
    }

    /// Lets the peer have `more` requests here, [`CREDIT_MAX`] in all at the most.
    pub(crate) fn grant(&mut self, more: u8) {
        self.reserved += more;
    }

    /// Lends `more` slots to one packet of the peer: less than [`CREDIT_MAX`].
    pub(crate) fn lend(&mut self, more: u8) {
        self.reserved += more * LENT;
    }

    /// The slots that are lent and that no request needs any more, beyond those of the grant.
    #[inline]
    pub(crate) fn take_back(&mut self) -> u8 {
        let needed = self.serving.saturating_sub(self.granted());
        let spare = (self.reserved / LENT).saturating_sub(needed);
        self.reserved -= spare * LENT;
        spare
    }

    /// Counts a request of the peer.
    pub(crate) fn serve(&mut self) {
        self.serving += 1;
    }

    /// Records that the response to a request of the peer ended.
    pub(crate) fn served(&mut self) {
        self.serving -= 1;
    }

    /// Records that all responses ended.
    pub(crate) fn all_served(&mut self) {
        self.serving = 0;
    }
}

// The initiator.
impl Credits {
    /// Records the grant of the peer: at least one request is always allowed.
    #[inline]
    pub(crate) fn allow(&mut self, requests: u8) {
        self.allowed = requests.max(1);
    }

    /// The peer may have taken its credit back; an acknowledgment grants it again.
    #[inline]
    pub(crate) fn lapse(&mut self) {
        self.allowed = 1;
    }

    /// How many more requests may be sent; `holds`: the grant of the peer has not lapsed.
    #[inline]
    pub(super) fn free(&self, holds: bool) -> u16 {
        let allowed = if holds { self.allowed } else { 1 };
        let taken = u16::from(self.rendezvous_reads) + u16::from(self.asking + self.returning);
        u16::from(allowed).saturating_sub(taken)
    }

    /// Whether the last grant of the peer is the least.
    #[inline]
    pub(super) const fn is_least(&self) -> bool {
        self.allowed == 1
    }

    /// Whether requests of the application are not answered in full.
    #[inline]
    pub(crate) const fn is_asking(&self) -> bool {
        self.asking > 0
    }

    /// Requests of the application that are not answered in full.
    pub(crate) const fn asking(&self) -> u8 {
        self.asking
    }

    /// Requests for bytes of the peer's long messages that have not ended.
    pub(crate) const fn rendezvous_reads(&self) -> u8 {
        self.rendezvous_reads
    }

    /// Slots of these, and of the ends of long messages.
    pub(crate) const fn rendezvous_slots(&self) -> u8 {
        self.rendezvous_slots
    }

    /// Whether there is one more, where `free` are left: not more than those, nor more than can be
    /// counted.
    pub(crate) fn may_take_rendezvous_slot(&self, free: u32) -> bool {
        self.rendezvous_slots < u8::MAX && u32::from(self.rendezvous_slots) < free
    }

    /// Counts a slot for a rendezvous read or the end of a long message.
    pub(crate) fn take_rendezvous_slot(&mut self) {
        self.rendezvous_slots += 1;
    }

    /// Records that such a slot was given back.
    pub(crate) fn rendezvous_slot_given_back(&mut self) {
        self.rendezvous_slots -= 1;
    }

    /// Whether the last request was a rendezvous read.
    pub(crate) const fn is_rendezvous_last(&self) -> bool {
        self.rendezvous_last
    }

    /// Counts a request of the application.
    #[inline]
    pub(crate) fn ask(&mut self) {
        self.asking += 1;
        self.rendezvous_last = false;
    }

    /// Counts a rendezvous read.
    pub(crate) fn read_rendezvous(&mut self) {
        self.rendezvous_reads += 1;
        self.rendezvous_last = true;
    }

    /// Records that a rendezvous read ended.
    pub(crate) fn rendezvous_read_ended(&mut self) {
        self.rendezvous_reads -= 1;
    }

    /// Records that a request was answered in full, `posted` by the application or not. Its credit
    /// returns when everything up to packet `psn` has arrived.
    pub(crate) fn answered(&mut self, posted: bool, psn: Psn) {
        self.asking -= u8::from(posted);
        self.returning += 1;
        self.return_psn = psn;
    }

    /// Returns credits: everything before packet `next` has arrived, and the next packet tells the
    /// peer so.
    #[inline]
    pub(super) fn return_before(&mut self, next: Psn) {
        if self.returning > 0 && self.return_psn.is_before(next) {
            self.returning = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_that_were_lent_come_back_though_requests_never_pause() {
        for granted_later in [0, 15] {
            let mut credits = Credits::default();
            credits.lend(15);
            (0..16).for_each(|_| credits.serve());
            credits.grant(granted_later);
            let mut back = 0;
            for ended in 1..=16 {
                credits.served();
                back += credits.take_back();
                let needed = (16 - ended).max(1 + granted_later);
                assert!(credits.reserved() >= needed, "after {ended}");
                if granted_later > 0 {
                    credits.serve();
                }
            }
            assert_eq!((back, credits.reserved()), (15, 1 + granted_later));
        }
    }
}
