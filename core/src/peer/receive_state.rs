// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiver's half of a connection (`docs/PROTOCOL.md` §4.2, §4.3, §6.4): the receive window,
//! the acknowledgment that it owes, the next message, and the peer's clock.
//!
//! In: packets and messages as they arrive. Out: the state that headers and acknowledgments carry.
//! The engine's receiver calls. All operations are O(1).

use super::credit::CREDIT_NANOS;
use crate::Instant;
use crate::api::hosts::Host;
use crate::collections::serial::{Msn, Psn};
use crate::collections::time::{TICK_NANOS, Tick};
use crate::peer::window::{BitsPool, ReceiveWindow};
use crate::wire::SACK_WORDS_MAX;

/// Delay of an acknowledgment, to be carried by another packet.
const ACK_DELAY_NANOS: u64 = 10_000;
/// The unit of stored waits: 1 µs; the longest is 67 ms.
const WAIT_TICKS: u32 = 16;
/// Packets that the bitmap of one acknowledgment reports.
const SACK_PACKETS: u32 = 64 * SACK_WORDS_MAX as u32;
/// After so many packets without an acknowledgment, one is sent at once.
const ACK_EVERY_PACKETS: u8 = 16;

/// Window, acknowledgment and message number of a receiver.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct ReceiveState {
    receive_window: ReceiveWindow,
    /// The first packet that arrived after a missing one and that no acknowledgment has reported.
    unreported_from: Psn,
    /// When a delayed acknowledgment is owed, unless a packet carries it before. None while one is
    /// owed now.
    ack_at: Option<Tick>,
    /// The next message to be accepted.
    expected_msn: Msn,
    /// The `sent_at` of the latest packet, and when it arrived.
    newest_sent_at: Tick,
    newest_arrived: Tick,
    /// The time of the last packet of the peer, while one is expected.
    last_heard: Tick,
    received: u32,
    /// How long the latest packet may have waited, in units of [`WAIT_TICKS`].
    newest_waited: u16,
    congestion_marks: u16,
    /// How many packets from there on are to be reported; 0: none.
    unreported: u16,
    /// An acknowledgment is owed now.
    ack_now: bool,
    /// Data packets since the last acknowledgment.
    unacknowledged: u8,
    /// A duplicate has arrived since the last acknowledgment.
    duplicates_seen: bool,
    /// The peer needs an acknowledgment packet: to measure the round trip, or to learn its credit.
    ack_whole: bool,
    /// Messages from `expected_msn` on are discarded until the sender starts over.
    not_ready: bool,
    rnr_epoch: u8,
}

impl ReceiveState {
    /// Nothing has arrived; `psn` and `msn` are the next numbers.
    pub(super) fn new(psn: Psn, msn: Msn, rnr_epoch: u8, now: Tick) -> Self {
        Self {
            receive_window: ReceiveWindow::new(psn),
            expected_msn: msn,
            rnr_epoch,
            newest_arrived: now,
            last_heard: now,
            ..Self::default()
        }
    }

    /// Sets the numbers for a new connection, in which the peer counts from `base`.
    pub(crate) fn restart(&mut self, base: Psn) {
        self.rebase(base);
        self.expected_msn = Msn(0);
        self.rnr_epoch = 0;
        self.not_ready = false;
        self.received = 0;
    }

    /// The peer counts packets from `base`; nothing was received yet.
    pub(crate) fn rebase(&mut self, base: Psn) {
        self.receive_window = ReceiveWindow::new(base);
    }
}

// Packets, and the clock of the peer.
impl ReceiveState {
    /// Which packets have arrived.
    #[inline(always)]
    pub(crate) const fn receive_window(&self) -> &ReceiveWindow {
        &self.receive_window
    }

    /// Records that data packet `psn`, which is fresh, was processed. Pages that it takes count for
    /// `host`.
    #[inline]
    pub(crate) fn packet_processed(
        &mut self,
        pool: &mut BitsPool<'_>,
        psn: Psn,
        host: Option<Host>,
    ) {
        self.receive_window.insert(pool, psn, host);
        if self.receive_window.has_holes() {
            self.report(psn);
        }
    }

    /// Adds a packet to the range that acknowledgments must report.
    #[inline(never)]
    fn report(&mut self, psn: Psn) {
        let (from, end) = (self.unreported_from, self.unreported_end());
        let (from, end) = match self.unreported {
            0 => (psn, psn.plus(1)),
            _ if psn.is_before(from) => (psn, end),
            _ if psn.is_before(end) => return,
            _ => (from, psn.plus(1)),
        };
        // A window has no more packets; a range that is cut is reported when its packets are sent
        // again.
        self.unreported = end.since(from).min(u32::from(u16::MAX)) as u16;
        self.unreported_from = from;
    }

    /// The end of the packets to be reported.
    fn unreported_end(&self) -> Psn {
        self.unreported_from.plus(self.unreported.into())
    }

    /// Gives back the pages of the window.
    pub(crate) fn release(&mut self, pool: &mut BitsPool<'_>) {
        self.receive_window.release(pool);
    }

    /// Packets that have arrived, modulo 2^32.
    #[inline(always)]
    pub(crate) const fn received(&self) -> u32 {
        self.received
    }

    /// Packets that arrived with a congestion mark, modulo 2^16.
    #[inline]
    pub(crate) const fn congestion_marks(&self) -> u16 {
        self.congestion_marks
    }

    /// The `sent_at` of the latest packet.
    #[inline(always)]
    pub(crate) const fn newest_sent_at(&self) -> Tick {
        self.newest_sent_at
    }

    /// When the latest packet arrived.
    #[inline(always)]
    pub(crate) const fn newest_arrived(&self) -> Tick {
        self.newest_arrived
    }

    /// The time of the last packet of the peer, while one is expected.
    #[inline(always)]
    pub(crate) const fn last_heard(&self) -> Tick {
        self.last_heard
    }

    /// Counts the silence of the peer from `now`, when a packet arrived or begins to be expected.
    #[inline(always)]
    pub(crate) fn count_silence_from(&mut self, now: Tick) {
        self.last_heard = now;
    }

    /// Counts a packet, with or without a congestion mark.
    #[inline(always)]
    pub(crate) fn packet_arrived(&mut self, marked: bool) {
        self.congestion_marks = self.congestion_marks.wrapping_add(u16::from(marked));
        self.received = self.received.wrapping_add(1);
    }

    /// How long the latest packet may have waited before it was processed, in ticks.
    #[inline(always)]
    pub(crate) const fn newest_waited(&self) -> u32 {
        self.newest_waited as u32 * WAIT_TICKS
    }

    /// Records that the latest packet, sent at `sent_at`, was processed. It may have `waited`.
    #[inline(always)]
    pub(crate) fn newest_packet_arrived(&mut self, sent_at: Tick, now: Tick, waited: u32) {
        self.newest_sent_at = sent_at;
        self.newest_arrived = now;
        self.newest_waited = (waited / WAIT_TICKS).min(u32::from(u16::MAX)) as u16;
    }

    /// Whether the peer's own connection certainly exists: it was heard a moment ago.
    #[inline(always)]
    pub(crate) fn heard_recently(&self, now: Tick) -> bool {
        now.since(self.newest_arrived) < (CREDIT_NANOS / TICK_NANOS) as u32
    }

    /// Ages all times here, which compare correctly with `before`, so that they compare correctly
    /// with `now`. Of the time between, `unheard` nanoseconds do not count as silence.
    pub(super) fn age(&mut self, before: Instant, now: Instant, unheard: u64) {
        self.newest_arrived = self.newest_arrived.aged(before, now);
        let listened = self.last_heard.plus((unheard / TICK_NANOS) as u32);
        self.last_heard = listened.aged(before.after_nanos(unheard), now);
        self.ack_at = self.ack_at.map(|at| at.aged(before, now));
    }
}

// Messages.
impl ReceiveState {
    /// The next message to be accepted.
    #[inline(always)]
    pub(crate) const fn expected_msn(&self) -> Msn {
        self.expected_msn
    }

    /// Whether messages are discarded until the sender starts over.
    #[inline(always)]
    pub(crate) const fn is_not_ready(&self) -> bool {
        self.not_ready
    }

    /// The sender's attempt that is accepted.
    #[inline(always)]
    pub(crate) const fn rnr_epoch(&self) -> u8 {
        self.rnr_epoch
    }

    /// Records that the next message was accepted.
    #[inline(always)]
    pub(crate) fn message_accepted(&mut self) {
        self.expected_msn = self.expected_msn.plus(1);
    }

    /// Records that the messages before `end` were accepted.
    #[inline(always)]
    pub(crate) fn messages_accepted(&mut self, end: Msn) {
        self.expected_msn = end;
    }

    /// Refuses the next message, and all later ones until the sender starts over.
    pub(crate) fn start_rnr(&mut self) {
        self.not_ready = true;
    }

    /// The sender has seen the refusal, and starts over with attempt `rnr_epoch`.
    pub(crate) fn sender_started_over(&mut self, rnr_epoch: u8) {
        self.not_ready = false;
        self.rnr_epoch = rnr_epoch;
    }
}

// Acknowledgments.
impl ReceiveState {
    /// Records a data packet that was processed: it must be acknowledged.
    #[inline]
    pub(crate) fn owe_ack(&mut self, now: Tick, at_once: bool) {
        self.unacknowledged = self.unacknowledged.saturating_add(1);
        self.ack_whole |= at_once;
        if at_once || self.unacknowledged >= ACK_EVERY_PACKETS || self.receive_window.has_holes() {
            self.owe_ack_now();
        } else if !self.is_ack_due() {
            self.ack_at = Some(now.plus_nanos(ACK_DELAY_NANOS));
        }
    }

    /// An acknowledgment goes out at once, with any packet.
    #[inline]
    pub(crate) fn owe_ack_now(&mut self) {
        self.ack_now = true;
        self.ack_at = None;
    }

    /// An acknowledgment packet goes out at once.
    pub(crate) fn owe_whole_ack_now(&mut self) {
        self.owe_ack_now();
        self.ack_whole = true;
    }

    /// Records the arrival of a duplicate, which the next header reports. The acknowledgment of
    /// the first one may be lost.
    pub(crate) fn duplicate_arrived(&mut self, psn: Psn) {
        self.duplicates_seen = true;
        if !psn.is_before(self.receive_window.next()) {
            self.report(psn);
        }
    }

    /// Whether a duplicate has arrived since the last acknowledgment.
    #[inline(always)]
    pub(crate) const fn duplicates_seen(&self) -> bool {
        self.duplicates_seen
    }

    /// Whether an acknowledgment is owed, now or later.
    #[inline]
    pub(crate) const fn is_ack_due(&self) -> bool {
        self.ack_now || self.ack_at.is_some()
    }

    /// Whether an acknowledgment is owed now.
    #[inline(always)]
    pub(crate) const fn ack_due_now(&self) -> bool {
        self.ack_now
    }

    /// When a delayed acknowledgment is due.
    #[inline]
    pub(super) const fn ack_at(&self) -> Option<Tick> {
        self.ack_at
    }

    /// Ends the delay of an acknowledgment if its time has come. Returns whether it has.
    pub(crate) fn end_ack_delay(&mut self, now: Tick) -> bool {
        let ends = self.ack_at.is_some_and(|at| at.has_come(now));
        if ends {
            self.owe_ack_now();
        }
        ends
    }

    /// Whether an acknowledgment is due now that no other packet can carry.
    #[inline]
    pub(crate) fn owes_whole_ack(&self) -> bool {
        self.ack_now && (self.ack_whole || self.duplicates_seen || self.receive_window.has_holes())
    }

    /// The word of the bitmap that the next selective acknowledgment begins with. It reports the
    /// first packets that none has reported; where it can, it ends with the highest packet, so that
    /// each packet is reported several times.
    pub(crate) fn sack_offset(&self) -> u32 {
        let base = self.receive_window.next().plus(1);
        let span = self.receive_window.end().since(base);
        if !self.receive_window.has_holes() || span <= SACK_PACKETS {
            return 0;
        }
        let is_current = base.is_before(self.unreported_from);
        let first = if is_current { self.unreported_from.since(base) } else { 0 };
        let last = (span - SACK_PACKETS).div_ceil(64);
        if self.unreported == 0 { last } else { last.min(first / 64) }
    }

    /// Records that a selective acknowledgment was sent, from word `offset` of the bitmap on.
    /// Packets for which it had no room are reported by the next one, at once.
    pub(crate) fn sack_sent(&mut self, offset: u32) {
        self.acknowledged(true);
        if !self.receive_window.has_holes() {
            self.unreported = 0;
            return;
        }
        let reported_to = self.receive_window.next().plus(1 + 64 * offset + SACK_PACKETS);
        let end = self.unreported_end();
        if self.unreported > 0 && reported_to.is_before(end) {
            self.unreported = end.since(reported_to) as u16;
            self.unreported_from = reported_to;
            self.owe_whole_ack_now();
        } else {
            self.unreported = 0;
        }
    }

    /// Records that a packet was sent, with the cumulative number in it. A selective acknowledgment
    /// needs an acknowledgment packet, which `whole` says this was.
    #[inline]
    pub(crate) fn acknowledged(&mut self, whole: bool) {
        if whole {
            self.duplicates_seen = false;
            self.ack_whole = false;
        } else if self.owes_whole_ack() || self.receive_window.has_holes() {
            return;
        }
        self.ack_now = false;
        self.ack_at = None;
        self.unacknowledged = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::slots::Slots;
    use crate::peer::window::{Admission, WINDOW_PACKETS};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec;

    /// Acknowledgments that report a window once.
    const ACKS_MAX: u32 = WINDOW_PACKETS.div_ceil(SACK_PACKETS) + 1;

    proptest! {
        #[test]
        fn every_packet_behind_a_hole_is_reported(
            base: u32,
            reach in prop::sample::select(vec![100, 2 * SACK_PACKETS, WINDOW_PACKETS - 1]),
            arrivals in prop::collection::vec((1..WINDOW_PACKETS, any::<bool>()), 1..60),
        ) {
            let slots = Slots::with_room(5).unwrap();
            let mut pool = BitsPool::new(slots);
            let mut state = ReceiveState::new(Psn(base), Msn(0), 0, Tick::default());
            let mut reported = BTreeSet::new();
            // The packet with distance 0 never arrives.
            let mut arrived = BTreeSet::new();
            for (distance, acknowledge) in arrivals {
                let distance = 1 + distance % reach;
                let psn = Psn(base).plus(distance);
                if state.receive_window().admission(&pool, psn, || None) == Admission::Fresh {
                    state.packet_processed(&mut pool, psn, None);
                    arrived.insert(distance);
                } else {
                    reported.remove(&distance);
                    state.duplicate_arrived(psn);
                }
                state.owe_ack(Tick::default(), false);
                let mut acks = 0;
                while acknowledge && state.ack_due_now() {
                    prop_assert!(acks < ACKS_MAX, "acknowledgments end");
                    acks += 1;
                    let first = 1 + 64 * state.sack_offset();
                    reported.extend(arrived.range(first..first + SACK_PACKETS));
                    state.sack_sent(state.sack_offset());
                }
                prop_assert!(!acknowledge || arrived == reported);
            }
        }
    }
}
