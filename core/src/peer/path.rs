// SPDX-License-Identifier: MIT OR Apache-2.0
//! The network path to a peer: round trip, congestion window, receive-buffer occupancy, and the
//! timers that follow from them (`docs/PROTOCOL.md` §4.5, §4.6).
//!
//! In: packets sent, acknowledged and lost; measurements of acknowledgments. Out: whether another
//! packet may go, and when a timer fires. A connection has one path. All operations are O(1).

use super::{CongestionWindow, Rtt};
use crate::collections::mix::mix;
use crate::collections::serial::Psn;
use crate::collections::time::Tick;
use crate::peer::window::WINDOW_PACKETS;
use crate::{Congestion, Instant};

/// The interval in which a host empties its port, at the most (524 µs). If the application does
/// not poll, the progress thread takes over within a tenth of this.
const POLL_TICKS: u32 = 1 << 13;
/// A rendezvous read grows by one part for each of these in the round trip (131 µs): sixteen such
/// parts are 8 GB/s.
const PART_TICKS: u32 = 1 << 11;
/// Parts of a rendezvous read, at the most: [`READ_LEN_MAX`](crate::wire::READ_LEN_MAX) together.
const PARTS_MAX: u32 = 64;
/// Sixteen rendezvous reads of one part are 1 MiB.
const READ_AHEAD_SHIFT: u32 = 20;
/// Doublings of the time-out, at the most; a bound for the check that time-outs cannot overflow.
const BACKOFF_MAX: u8 = 16;

/// The network path to a peer.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Path {
    rtt: Rtt,
    congestion: CongestionWindow,
    /// `sent_at` of the packet sent last among those that have arrived.
    newest_acked: Tick,
    /// When the retransmission timer was last restarted.
    timer_from: Tick,
    /// When a loss may be certain.
    loss_at: Option<Tick>,
    /// How full the peer's storage for messages is, in units of 1/8.
    occupancy: u8,
    /// Time-outs in a row; the first stands for the tail loss probe.
    backoff: u8,
    /// A packet under way is to be sent again as a tail loss probe.
    tail_probe: bool,
    /// Packets without payload that are to be sent.
    extra: Extra,
    /// When a round of probes of the path MTU ends.
    round_ends: Option<Tick>,
}

bitflags::bitflags! {
    /// Packets without payload, which are rare.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub(crate) struct Extra: u8 {
        /// A ping: it asks whether the peer is there.
        const PING = 1 << 0;
        /// Probes of the path MTU.
        const PROBES = 1 << 1;
        /// A request for another source port.
        const PORT_REQUEST = 1 << 2;
    }
}

/// The rule by which packets are lost: see [`Path::loss_rule`]. A packet has a time that it [counts
/// from](super::packet_record::TxPacket::counts_from).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossRule {
    newest_acked: Tick,
    /// Ticks after which an overtaken packet is lost.
    delay: u32,
    /// Packets that count from this time, or from an earlier one, are lost.
    last: Tick,
}

impl LossRule {
    /// Whether a packet is lost.
    #[inline(always)]
    pub(crate) const fn is_lost(self, counts_from: Tick) -> bool {
        counts_from.has_come(self.last)
    }

    /// When a packet is lost; `None` if no packet has overtaken it.
    pub(crate) fn lost_at(self, counts_from: Tick) -> Option<Tick> {
        counts_from.has_come(self.newest_acked).then(|| counts_from.plus(self.delay))
    }
}

impl Path {
    /// A path that was measured before: `srtt` as [`Rtt::kept`] gave it.
    pub(crate) fn resumed(srtt: u16, now: Tick) -> Self {
        Self {
            rtt: Rtt::resumed(srtt),
            congestion: CongestionWindow::new(now),
            newest_acked: now,
            timer_from: now,
            ..Self::default()
        }
    }

    /// The round-trip estimate.
    #[inline(always)]
    pub(crate) const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The congestion window.
    #[inline(always)]
    pub(crate) const fn congestion(&self) -> &CongestionWindow {
        &self.congestion
    }

    /// How full the peer's storage for messages is, in units of 1/8.
    #[inline(always)]
    pub(crate) const fn occupancy(&self) -> u8 {
        self.occupancy
    }

    /// Records the occupancy that the peer reports.
    #[inline(always)]
    pub(crate) const fn set_occupancy(&mut self, occupancy: u8) {
        self.occupancy = occupancy;
    }

    /// Time-outs in a row.
    #[inline(always)]
    pub(crate) const fn timeouts(&self) -> u8 {
        self.backoff
    }

    /// Records one round trip.
    #[inline(always)]
    pub(crate) fn sample(&mut self, ticks: u32) {
        self.rtt.sample(ticks);
    }

    /// Records that a packet was late which counted as lost: the peer received it twice, or
    /// acknowledged it before it was sent again.
    pub(crate) fn saw_late_packet(&mut self) {
        self.rtt.saw_late_packet();
    }

    /// Records that a packet has arrived that was sent again.
    pub(crate) const fn saw_repeated_packet(&mut self) {
        self.rtt.saw_repeated_packet();
    }

    /// Packets may overtake earlier ones by a round trip from now on.
    pub(crate) const fn expect_reordering(&mut self) {
        self.rtt.expect_reordering();
    }

    /// Records the measurements of one acknowledgment, of a packet that was sent `age` ticks ago.
    /// Of the `round_trip`, up to `waits` may be time that packets waited for a host that did not
    /// poll. Congestion control counts the least delay of the network that is possible, time-outs
    /// count all of it.
    #[inline]
    pub(crate) fn measured(
        &mut self,
        age: u32,
        round_trip: u32,
        waits: u32,
        marks: u16,
        now: Tick,
    ) {
        self.rtt.sample(round_trip);
        self.congestion.measured(age, round_trip, waits, marks, &self.rtt, now);
    }

    /// Whether `round_trip` is below the least that is known.
    #[inline(always)]
    pub(crate) const fn is_below_least(&self, round_trip: u32) -> bool {
        self.rtt.is_below_least(round_trip)
    }

    /// Records that the round trip of the path is `ticks` at the most.
    pub(crate) fn lower_least(&mut self, ticks: u32) {
        self.rtt.lower_least(ticks);
    }

    /// How many packets may be under way to a peer with a port of `capacity` packets: that many
    /// for each [`POLL_TICKS`] of the least round trip, parts included, and at least that many;
    /// [`WINDOW_PACKETS`] at the most. A port is emptied in that time.
    #[inline(always)]
    pub(crate) fn window_limit(&self, capacity: u16) -> u32 {
        let capacity = u32::from(capacity).min(WINDOW_PACKETS);
        let packets = u64::from(capacity) * u64::from(self.rtt.least()) / u64::from(POLL_TICKS);
        (packets.min(u64::from(WINDOW_PACKETS)) as u32).max(capacity)
    }

    /// How many times [`RENDEZVOUS_READ_LEN_MAX`](crate::RENDEZVOUS_READ_LEN_MAX) a rendezvous read
    /// asks for: as many as [`PART_TICKS`] are in the least round trip. So the requests of a peer
    /// cover a long path; 4 MiB at the most.
    pub(crate) fn rendezvous_parts(&self) -> u64 {
        u64::from((self.rtt.least() / PART_TICKS).clamp(1, PARTS_MAX))
    }

    /// Bytes that may be under way when a read requests its next part: as many as the peer's
    /// rendezvous reads have together. They are 1 MiB at least and 64 MiB at the most.
    pub(crate) fn read_ahead(&self) -> u64 {
        self.rendezvous_parts() << READ_AHEAD_SHIFT
    }

    /// Whether another packet may go beside `in_flight` others.
    #[inline(always)]
    pub(crate) fn has_room(&self, policy: Congestion, in_flight: u32, now: Tick) -> bool {
        self.congestion.allows(policy, in_flight, self.occupancy, now)
    }

    /// How many packets may go beside `in_flight` others.
    pub(crate) fn room(&self, policy: Congestion, in_flight: u32, now: Tick) -> u32 {
        self.congestion.room(policy, in_flight, self.occupancy, now)
    }

    /// Whether the window is below one packet, and so a pace.
    #[inline(always)]
    pub(crate) const fn is_paced(&self) -> bool {
        self.congestion.is_pace()
    }

    /// Records that a data packet was sent.
    #[inline(always)]
    pub(crate) fn sent(&mut self, now: Tick) {
        self.timer_from = now;
        self.congestion.sent(&self.rtt, now);
    }

    /// Records the send time of a packet that has arrived.
    #[inline(always)]
    pub(crate) fn acked(&mut self, sent_at: Tick) {
        self.newest_acked = self.newest_acked.max(sent_at);
    }

    /// The rule by which packets are lost (RFC 8985 §6.2), as it is `now`.
    pub(crate) fn loss_rule(&self, now: Tick) -> LossRule {
        let delay = self.rtt.smoothed() + self.rtt.reorder_window();
        let overdue = Tick::from_bits(now.bits().wrapping_sub(delay));
        let newest_acked = self.newest_acked;
        let last = if overdue.has_come(newest_acked) { overdue } else { newest_acked };
        LossRule { newest_acked, delay, last }
    }

    /// Records that `packets` were newly acknowledged, with `in_flight` others under way.
    #[inline(always)]
    pub(crate) fn on_newly_acked(&mut self, packets: u32, in_flight: u32, now: Tick) {
        self.backoff = 0;
        self.tail_probe = false;
        self.timer_from = now;
        self.congestion.acknowledged(packets, in_flight, &self.rtt, now);
    }

    /// When loss detection is due; sets that time.
    pub(crate) const fn set_loss_timer(&mut self, at: Option<Tick>) {
        self.loss_at = at;
    }

    /// When loss detection is due, if it is.
    #[inline(always)]
    pub(crate) const fn loss_at(&self) -> Option<Tick> {
        self.loss_at
    }

    /// Records that packets were lost, the latest of them sent at `sent_at`.
    pub(crate) fn lost(&mut self, sent_at: Tick, now: Tick) {
        self.congestion.lost(sent_at, &self.rtt, now);
    }

    /// Records a time-out, after which a probe is to be sent: a packet once more, if that is
    /// `worthwhile` and it is the first time-out in a row; otherwise a ping. Returns how many
    /// time-outs there were in a row before.
    pub(crate) fn time_out(&mut self, worthwhile: bool, now: Tick) -> u8 {
        self.timer_from = now;
        let before = self.backoff;
        self.backoff = before.saturating_add(1);
        if before == 0 && worthwhile {
            self.tail_probe = true;
        } else {
            self.extra |= Extra::PING;
        }
        // Before the first measurement the time-out is a guess.
        if before > 0 && self.rtt.smoothed() > 0 {
            self.congestion.timed_out(before, now);
        }
        before
    }

    /// Whether a tail loss probe is to be sent.
    #[inline(always)]
    pub(crate) const fn has_tail_probe(&self) -> bool {
        self.tail_probe
    }

    /// The tail loss probe is sent, or another packet that is answered as well.
    #[inline(always)]
    pub(crate) const fn clear_tail_probe(&mut self) {
        self.tail_probe = false;
    }

    /// Whether a packet without payload is to be sent.
    #[inline(always)]
    pub(crate) const fn has_extra(&self) -> bool {
        !self.extra.is_empty()
    }

    /// The packets without payload that are to be sent.
    pub(crate) const fn extra(&self) -> Extra {
        self.extra
    }

    /// Sets whether packets without payload are to be sent.
    pub(crate) fn set_extra(&mut self, extra: Extra, wanted: bool) {
        self.extra.set(extra, wanted);
    }

    /// When a round of probes of the path MTU ends, if all of them were sent.
    #[inline(always)]
    pub(crate) const fn round_ends(&self) -> Option<Tick> {
        self.round_ends
    }

    /// Sets when a round of probes ends.
    pub(crate) const fn set_round_end(&mut self, at: Option<Tick>) {
        self.round_ends = at;
    }

    /// Whether a search for the path MTU is under way.
    #[inline]
    pub(crate) const fn is_searching(&self) -> bool {
        self.round_ends.is_some() || self.extra.contains(Extra::PROBES)
    }

    /// Records that the path is up, with packets of another size: time-outs begin anew.
    pub(crate) fn resized(&mut self, now: Tick) {
        self.backoff = 0;
        self.timer_from = now;
    }

    /// Restarts the retransmission timer.
    #[inline(always)]
    pub(crate) const fn restart_timer(&mut self, now: Tick) {
        self.timer_from = now;
    }

    /// When the retransmission timer was last restarted.
    #[inline(always)]
    pub(crate) const fn timer_from(&self) -> Tick {
        self.timer_from
    }

    /// When the retransmission timer fires, if it runs. From the first time-out on it is longer by
    /// up to a quarter, different for each `oldest` packet and each time-out. So senders that lost
    /// packets in one burst do not retransmit together.
    #[inline]
    pub(crate) fn retransmit_at(&self, oldest: Psn) -> Tick {
        let after = match self.backoff {
            0 => self.rtt.probe_timeout(),
            n => {
                let timeout = self.rtt.timeout(u32::from(n.min(BACKOFF_MAX) - 1));
                let salt = u64::from(oldest.0) << 8 | u64::from(n);
                timeout + timeout / 256 * (mix(salt) as u32 & 63)
            }
        };
        self.timer_from.plus(after)
    }

    /// When a packet that only the pace holds back may go; `None` if pace holds nothing back.
    pub(crate) fn paced_until(&self, policy: Congestion, now: Tick) -> Option<Tick> {
        self.congestion.paced_until(policy, now)
    }

    /// Ages the times of this path, as [`Tick::aged`] does.
    pub(crate) fn age(&mut self, before: Instant, now: Instant) {
        let aged = |at: &mut Tick| *at = at.aged(before, now);
        aged(&mut self.newest_acked);
        aged(&mut self.timer_from);
        self.loss_at.iter_mut().for_each(aged);
        self.round_ends.iter_mut().for_each(aged);
        self.congestion.age(before, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packets_of_a_port_fill_the_round_trip() {
        let limit = |least: u32, capacity: u16| {
            let mut path = Path::resumed(0, Tick::default());
            path.lower_least(least);
            path.window_limit(capacity)
        };
        assert_eq!(limit(100, 1_000), 1_000);
        assert_eq!(limit(POLL_TICKS, 1_000), 1_000);
        assert_eq!(limit(POLL_TICKS / 2 * 3, 1_000), 1_500);
        assert_eq!(limit(4 * POLL_TICKS, 1_000), 4_000);
        assert_eq!(limit(u32::MAX, 1_000), WINDOW_PACKETS);
        assert_eq!(limit(100, u16::MAX), WINDOW_PACKETS);
    }
}
