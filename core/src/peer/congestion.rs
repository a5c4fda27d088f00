// SPDX-License-Identifier: MIT OR Apache-2.0
//! The congestion window of a path (`docs/PROTOCOL.md` §4.6). It follows delay, receive-buffer
//! occupancy and congestion marks. Sources: Kumar et al., "Swift: Delay is Simple and Effective for
//! Congestion Control in the Datacenter" (SIGCOMM 2020), for the target; Wei et al., "FAST TCP"
//! (IEEE/ACM Trans. Netw. 14(6), 2006), for the way to it.
//!
//! In: acknowledged packets, delay samples, losses, marks. Out: how many packets may be under way,
//! and below one packet, when the next may go. All operations are O(1).

use super::Rtt;
use super::competition::{Competition, LONG_QUARTERS, ONE};
use crate::collections::time::{TICK_NANOS, Tick};
use crate::peer::window::WINDOW_PACKETS;
use crate::{Congestion, Instant};

mod drain;
mod target;

/// The window of a new connection, in packets.
const INITIAL: u32 = 16 * ONE;
/// Floor for reductions caused by delay alone. A peer that waits for a processor may seem to be a
/// slow network; a window below one packet would make it wait for timers as well.
const FLOOR: u32 = ONE;
/// The least window: one packet in 64 round trips.
const LEAST: u32 = ONE / 64;
/// The most: the largest window of a peer.
const MOST: u32 = WINDOW_PACKETS * ONE;
// It fits.
static_assertions::const_assert!(WINDOW_PACKETS as u64 * (ONE as u64) <= u32::MAX as u64);
/// On a long path, a loss beside a smaller delay than this part of the least round trip is the
/// link's.
const LOSS_PART: u32 = 16;
/// Most growth for each acknowledged packet, in units of the window: a quarter in a round trip. A
/// window below one packet may double with each.
const GROWTH_MAX: u32 = ONE / 4;
/// The unit of stored delays: 4 µs; the longest is 268 ms.
const DELAY_TICKS: u32 = 64;
/// 2^32 divided by the golden ratio: its multiples are spread evenly (Knuth, The Art of Computer
/// Programming, vol. 3, §6.4).
const DITHER: u32 = 0x9E37_79B1;
/// The longest gap between two packets.
const GAP_MAX_TICKS: u64 = 64_000_000 / TICK_NANOS;

/// The window of one peer.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct CongestionWindow {
    /// Packets that may be under way, in units of 2^-16.
    packets: u32,
    /// The least delay in the half of a round trip before the present one, and in the present one,
    /// in units of [`DELAY_TICKS`].
    delays: [u16; 2],
    /// When the present half of a round trip began.
    half_from: Tick,
    /// When it was last made smaller.
    reduced_at: Tick,
    /// Below one packet: when the next may go. Above, while it competes: the plateau of its growth;
    /// otherwise when it was last drained, or began to follow the delay.
    next_at: Tick,
    /// Congestion marks that the peer has counted.
    marks: u16,
    signs: Signs,
    /// Reductions in a row, without a delay below the target between them.
    reductions: u8,
    competition: Competition,
}

bitflags::bitflags! {
    /// Facts that the acknowledgments have shown.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    struct Signs: u8 {
        /// It doubles each round trip until the first sign of congestion (RFC 5681 §3.1).
        const STARTING = 1 << 0;
        /// A mark, or a loss beside a grown delay, has come since the window last grew or shrank.
        /// The network is slow, not the peer.
        const MARKED = 1 << 1;
        /// The latest delay is beyond the target: the window does not grow.
        const SLOW = 1 << 2;
        /// Others hold a queue that lasts: the window follows losses and marks, not the delay.
        const COMPETING = 1 << 3;
        /// A packet that was sent after the last reduction has been acknowledged: the delay shows
        /// the effect of that reduction.
        const ANSWERED = 1 << 4;
        /// It is small so that the queue drains, and returns to what the path holds.
        const DRAINING = 1 << 5;
        /// It has not drained the queue since its start.
        const FRESH = 1 << 6;
    }
}

impl Default for CongestionWindow {
    fn default() -> Self {
        Self::new(Tick::default())
    }
}

impl CongestionWindow {
    pub(crate) const fn new(now: Tick) -> Self {
        Self {
            packets: INITIAL,
            delays: [0; 2],
            half_from: now,
            reduced_at: now,
            next_at: now,
            marks: 0,
            signs: Signs::STARTING.union(Signs::ANSWERED).union(Signs::FRESH),
            reductions: 0,
            competition: Competition::NONE,
        }
    }

    /// Packets that may be under way, in units of 2^-16.
    pub(crate) const fn size(&self) -> u32 {
        self.packets
    }

    /// Whether another packet may go beside `in_flight` others. The receiver's `occupancy`, in
    /// eighths, takes that much of the window away.
    #[inline]
    pub(crate) fn allows(
        &self,
        policy: Congestion,
        in_flight: u32,
        occupancy: u8,
        now: Tick,
    ) -> bool {
        self.room(policy, in_flight, occupancy, now) > 0
    }

    /// How many packets may go beside `in_flight` others, otherwise as [`Self::allows`].
    pub(crate) fn room(&self, policy: Congestion, in_flight: u32, occupancy: u8, now: Tick) -> u32 {
        match policy {
            #[cfg(feature = "test-util")]
            Congestion::Off => u32::MAX,
            #[cfg(feature = "test-util")]
            Congestion::Fixed(packets) => u32::from(packets.max(1)).saturating_sub(in_flight),
            Congestion::Delay => {
                let packets = self.packets / 8 * (8 - u32::from(occupancy.min(7)));
                if packets >= ONE {
                    ((packets + self.dither()) / ONE).saturating_sub(in_flight)
                } else {
                    // Occupancy alone is no pace.
                    let may_go = !self.is_pace() || self.next_at.has_come(now);
                    u32::from(in_flight == 0 && may_go)
                }
            }
        }
    }

    /// What is added to the window before it is rounded down to whole packets: another number below
    /// [`ONE`] in each half of a round trip. So the mean of the packets is the window, and a stream
    /// of 1.9 packets does not get half of what one of 2.1 gets.
    const fn dither(&self) -> u32 {
        self.half_from.bits().wrapping_mul(DITHER) >> 16
    }

    /// When a packet that only the pace holds back may go; `None` if pace holds nothing back.
    pub(crate) fn paced_until(&self, policy: Congestion, now: Tick) -> Option<Tick> {
        let paced = policy == Congestion::Delay && self.packets < ONE;
        (paced && !self.next_at.has_come(now)).then_some(self.next_at)
    }

    /// A packet went out.
    pub(crate) fn sent(&mut self, rtt: &Rtt, now: Tick) {
        if self.packets < ONE {
            let gap =
                u64::from(rtt.smoothed()) * u64::from(ONE) / u64::from(self.packets.max(LEAST));
            self.next_at = now.plus(gap.min(GAP_MAX_TICKS) as u32);
        }
    }

    /// Records the `round_trip` of one acknowledgment, of which the network has at least what is
    /// left without `waits` for hosts, and the marks that the acknowledgment reports. The packet
    /// that it answers was sent `age` ticks ago.
    #[inline]
    pub(crate) fn measured(
        &mut self,
        age: u32,
        round_trip: u32,
        waits: u32,
        marks: u16,
        rtt: &Rtt,
        now: Tick,
    ) {
        let delay = round_trip.saturating_sub(waits);
        if now.since(self.reduced_at) >= age {
            self.signs.insert(Signs::ANSWERED);
        }
        self.signs.set(Signs::SLOW, delay >= target::MIN_TICKS && delay >= self.target(rtt));
        let delay = unit(delay);
        let [_, present] = self.delays;
        if self.signs.contains(Signs::STARTING | Signs::SLOW) {
            // A window that doubles must stop at once.
            self.delays = [delay; 2];
            self.half_from = now;
        } else if now.since(self.half_from) >= rtt.smoothed() / 2 {
            self.delays = [present, delay];
            self.half_from = now;
        } else if delay < present {
            self.delays[1] = delay;
        }
        if marks != self.marks {
            self.signs.insert(Signs::MARKED);
        }
        self.marks = marks;
    }

    /// The delay of the path, without queues that exist for less than a round trip: the "standing
    /// round trip" of Copa (Arun and Balakrishnan, NSDI 2018, §2.2).
    #[inline]
    fn delay(&self) -> u32 {
        let [before, present] = self.delays;
        u32::from(before.min(present)) * DELAY_TICKS
    }

    /// Whether the delay was below `target` in the present half of a round trip and in the one
    /// before. A single low sample does not show that a queue has drained.
    #[inline]
    fn is_drained(&self, target: u32) -> bool {
        let [before, present] = self.delays;
        u32::from(before.max(present)) * DELAY_TICKS < target
    }

    /// `packets` were acknowledged, with `in_flight` others still under way.
    #[inline]
    pub(crate) fn acknowledged(&mut self, packets: u32, in_flight: u32, rtt: &Rtt, now: Tick) {
        let delay = self.delay();
        // A window that was not used up says nothing about the path.
        let used = u64::from(in_flight + packets) * u64::from(ONE) >= u64::from(self.packets / 2);
        if self.signs.contains(Signs::COMPETING) {
            return self.compete(packets, used, rtt, now);
        }
        if self.signs.contains(Signs::DRAINING) && self.refill(packets, rtt) {
            return;
        }
        if self.signs.contains(Signs::SLOW) {
            let target = self.target(rtt);
            if delay >= target {
                self.shrink(target, rtt, now);
            }
            return;
        }
        if self.reductions > 0 && self.is_drained(self.target(rtt)) {
            self.reductions = 0;
        }
        if self.signs.contains(Signs::MARKED) || !used {
            self.signs.remove(Signs::MARKED);
            return;
        }
        let grown = if self.signs.contains(Signs::STARTING) {
            packets.saturating_mul(ONE)
        } else {
            packets.saturating_mul(self.growth(delay, rtt))
        };
        self.packets = self.packets.saturating_add(grown).min(MOST);
        if self.reductions > 0 && self.competition.is_over(self.packets) {
            self.reductions = 0;
        }
    }

    /// `packets` were acknowledged while others hold the queue; `used`: the window was used up. It
    /// ends when the queue is so short that the path has room.
    fn compete(&mut self, packets: u32, used: bool, rtt: &Rtt, now: Tick) {
        if self.delay().saturating_sub(rtt.least()) <= target::queue_allowance(rtt) / 2 {
            self.signs.remove(Signs::COMPETING);
            self.reductions = 0;
            if !self.is_pace() {
                self.next_at = now;
            }
        } else if self.signs.contains(Signs::MARKED) {
            self.shrink(0, rtt, now);
            self.signs.remove(Signs::MARKED);
        } else if used {
            let (window, plateau) = (self.packets, &mut self.next_at);
            let growth = self.competition.growth(window, rtt.smoothed(), plateau, now);
            let grown = u64::from(packets) * u64::from(growth) * u64::from(ONE)
                / u64::from(self.packets.max(ONE));
            self.packets = self.packets.saturating_add(grown as u32).min(MOST);
        }
    }

    /// Packets were lost, the latest of them sent at `sent_at`. This is a sign of congestion if the
    /// delay, or the round trip with the waits of the hosts, has grown, too. Otherwise it is a sign
    /// of a bad link. Packets that were sent before the last reduction caused that one, or would
    /// have.
    pub(crate) fn lost(&mut self, sent_at: Tick, rtt: &Rtt, now: Tick) {
        if sent_at.is_before(self.reduced_at) {
            return;
        }
        let least = rtt.least();
        let grown =
            target::half_way(self.packets, rtt).max(least.saturating_add(least / LOSS_PART));
        if self.delay().max(rtt.smoothed()) >= grown {
            self.signs.insert(Signs::MARKED);
            self.shrink(0, rtt, now);
        }
    }

    /// Nothing came back for long, `times` in a row. A competition ends with that.
    pub(crate) fn timed_out(&mut self, times: u8, now: Tick) {
        if times >= 2 {
            if self.signs.contains(Signs::COMPETING) && !self.is_pace() {
                // The time was a plateau until now.
                self.next_at = now;
            }
            self.packets = self.packets.min(ONE);
            self.signs.remove(Signs::STARTING | Signs::COMPETING | Signs::DRAINING);
            self.reductions = 0;
        }
    }

    /// Whether it is below one packet, and so a pace.
    pub(crate) const fn is_pace(&self) -> bool {
        self.packets < ONE
    }

    /// Packets that the window holds, rounded up.
    #[cfg(test)]
    const fn packets(&self) -> u32 {
        self.packets.div_ceil(ONE)
    }

    /// Ages the times, as [`Tick::aged`] does.
    pub(crate) fn age(&mut self, before: Instant, now: Instant) {
        self.reduced_at = self.reduced_at.aged(before, now);
        self.half_from = self.half_from.aged(before, now);
        self.next_at = self.next_at.aged(before, now);
    }

    /// Whether it is within its bounds.
    pub(crate) const fn is_sound(&self) -> bool {
        self.packets >= LEAST && self.packets <= MOST
    }

    /// Reduces the window, if an acknowledgment has shown the effect of the last reduction: in
    /// proportion to the excess over `target`, at most by half. Delay alone stops at [`FLOOR`];
    /// below it takes marks, or losses beside a grown delay. A window that competes shrinks by
    /// three tenths (RFC 9438 §4.6), for any delay.
    fn shrink(&mut self, target: u32, rtt: &Rtt, now: Tick) {
        if !self.signs.contains(Signs::ANSWERED) {
            return;
        }
        let drains = target > 0 && self.is_to_drain(rtt, now);
        let marked = self.signs.contains(Signs::MARKED);
        let least = if marked { LEAST } else { FLOOR.min(self.packets) };
        self.signs.remove(Signs::MARKED | Signs::STARTING | Signs::ANSWERED);
        self.reduced_at = now;
        if drains {
            return self.drain(rtt, now);
        }
        let cut = if self.signs.contains(Signs::COMPETING) {
            let plateau = self.competition.lost(self.packets, now);
            if !self.is_pace() {
                self.next_at = plateau;
            }
            self.packets / 10 * 3
        } else if self.others_hold_the_queue(rtt) {
            self.signs.insert(Signs::COMPETING);
            self.signs.remove(Signs::FRESH | Signs::DRAINING);
            if !self.is_pace() {
                self.next_at = now;
            }
            return;
        } else {
            // After a loss the target is 0: the cut is the same for any delay.
            let delay = self.delay().max(1);
            let excess = u64::from(delay.saturating_sub(target));
            let cut = u64::from(self.packets) * excess * 4 / (5 * u64::from(delay));
            (cut as u32).min(self.packets / 2)
        };
        let reduced = (self.packets - cut).max(least);
        if reduced < ONE && !self.is_pace() {
            // The time was a plateau until now.
            self.next_at = now;
        }
        self.packets = reduced;
    }

    /// Whether earlier reductions have not shortened the queue, so that another one would only lose
    /// bandwidth. A queue that is hardly too long may wait for senders that take longer to reduce.
    fn others_hold_the_queue(&mut self, rtt: &Rtt) -> bool {
        let [delay, least] = [self.delay(), rtt.least()].map(unit);
        let allowed = unit(self.target(rtt) - rtt.least());
        let count = self.reductions;
        let holds = self.competition.reduces(count, self.packets, delay, least, allowed);
        let counts = count == 0 || Competition::is_too_long(delay.saturating_sub(least), allowed);
        self.reductions = count.saturating_add(u8::from(counts));
        holds
    }

    /// The delay up to which the window grows.
    fn target(&self, rtt: &Rtt) -> u32 {
        target::delay(self.packets, rtt)
    }

    /// Growth for each acknowledged packet, in units of 2^-16 packets. In a round trip the window
    /// grows by four fifths of what would bring the delay to the target, at most by a quarter: as
    /// [`Self::shrink`] reduces it. So all senders come to rest where the delay is their target,
    /// whatever their round trips (FAST TCP).
    fn growth(&self, delay: u32, rtt: &Rtt) -> u32 {
        let below = u64::from(self.target(rtt).saturating_sub(delay));
        let part = below * u64::from(ONE) * 4 / (5 * u64::from(delay.max(1)));
        let (most, window) =
            if self.packets < ONE { (ONE, self.packets) } else { (GROWTH_MAX, ONE) };
        (part.min(u64::from(most)) * u64::from(window) / u64::from(ONE)) as u32
    }
}

/// A delay in the unit in which it is kept.
fn unit(ticks: u32) -> u16 {
    (ticks / DELAY_TICKS).min(u32::from(u16::MAX)) as u16
}

#[cfg(test)]
mod tests;
