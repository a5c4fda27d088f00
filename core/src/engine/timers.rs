// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time: the clock of the engine as its callers tell it; one timer and one watch for each
//! connection.
//!
//! In: the time of a call, deadlines of connections. Out: connections with an expired deadline.
//! Bound: one timer for each connection; all operations are O(1).

use crate::Instant;
use crate::collections::slab::SlotIndex;
use crate::collections::time::{TICK_NANOS, Tick};
use crate::collections::wheel::{TimerSlot, Wheel};
use crate::peer::slots::{ConnSlot, PeerSlot};
use crate::peer::watch::Watch;
use crate::peer::{PING_PART, Silence};

/// A wake-up takes this long at the most on a host that has a core for the thread (50 µs).
const WAKE_TICKS: u32 = (50_000 / TICK_NANOS) as u32;
/// Proposals of one call; others come with later packets.
const PROPOSED_MAX: usize = 8;

/// A round trip below the least that is known. The caller reads its clock before it receives the
/// packets, and may stand still in between. The measurement is then too short, by less than the
/// time to the next reading. With that time added it is never too short.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProposedLeast {
    pub(super) conn: ConnSlot,
    pub(super) peer: PeerSlot,
    /// Ticks.
    pub(super) round_trip: u32,
}

/// The clock and the timers of an engine.
#[derive(Debug)]
pub(super) struct Timers<'s> {
    wheel: Wheel<'s, ConnSlot>,
    /// What the peers owe, by connection.
    watches: &'s mut [Watch],
    /// The latest time that any call brought.
    now: Instant,
    /// [`Self::now`] in the unit of packets and of the state of peers.
    tick: Tick,
    /// When the caller polled for packets before the present poll.
    last_poll: Tick,
    /// Round trips below the least that is known, measured at the present time.
    proposed: heapless::Vec<ProposedLeast, PROPOSED_MAX>,
    /// When the times that are kept in four bytes are aged next.
    age_at: Instant,
    /// How long a peer may be silent, and when that counts.
    silence: Silence,
}

impl<'s> Timers<'s> {
    /// No timer is armed.
    pub(super) fn new(
        slots: &'s mut [TimerSlot],
        watches: &'s mut [Watch],
        silence: Silence,
    ) -> Self {
        watches.fill(Watch::default());
        Self {
            wheel: Wheel::new(slots),
            watches,
            now: Instant::ZERO,
            tick: Tick::of(Instant::ZERO),
            last_poll: Tick::of(Instant::ZERO),
            proposed: heapless::Vec::new(),
            age_at: Instant::ZERO,
            silence,
        }
    }
}

impl Timers<'_> {
    /// The latest time that any call brought.
    #[inline(always)]
    pub(super) const fn now(&self) -> Instant {
        self.now
    }

    /// The latest time in the unit of packets.
    #[inline(always)]
    pub(super) const fn tick(&self) -> Tick {
        self.tick
    }

    /// Proposes a least round trip, which is recorded when the clock moves on.
    #[cold]
    pub(super) fn propose_least(&mut self, conn: ConnSlot, peer: PeerSlot, round_trip: u32) {
        // If the list is full, later packets bring the measurement again.
        let _ = self.proposed.push(ProposedLeast { conn, peer, round_trip });
    }

    /// Whether a least round trip is proposed.
    #[inline(always)]
    pub(super) fn has_proposed(&self) -> bool {
        !self.proposed.is_empty()
    }

    /// Takes a proposal, as it is at the later time `now`.
    pub(super) fn take_proposed(&mut self, now: Instant) -> Option<ProposedLeast> {
        let passed = Tick::of(now).since(self.tick);
        let proposed = self.proposed.pop()?;
        Some(ProposedLeast { round_trip: proposed.round_trip.saturating_add(passed), ..proposed })
    }

    /// Moves the clock to `now`, which is later than [`Self::now`].
    #[inline(always)]
    pub(super) fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.tick = Tick::of(now);
    }

    /// When the caller polled for packets before the present poll: packets that it finds now came
    /// after that, unless it had left them.
    #[inline(always)]
    pub(super) const fn last_poll(&self) -> Tick {
        self.last_poll
    }

    /// How long a packet that is found now may have waited, in ticks.
    #[inline(always)]
    pub(super) const fn wait(&self) -> u32 {
        self.tick.since(self.last_poll)
    }

    /// Records that the caller has slept until a packet woke it.
    pub(super) fn record_wake_up(&mut self) {
        let earliest = Tick::from_bits(self.tick.bits().wrapping_sub(WAKE_TICKS));
        self.last_poll = self.last_poll.max(earliest);
    }

    /// Records that the caller has polled for packets.
    #[inline(always)]
    pub(super) fn record_poll(&mut self) {
        self.last_poll = self.tick;
    }

    /// Keeps the time of the last poll near enough to `now` to compare with it.
    pub(super) fn age(&mut self, before: Instant, now: Instant) {
        self.last_poll = self.last_poll.aged(before, now);
    }

    /// Whether times that are kept in four bytes must be aged before the clock moves to `now`.
    #[inline(always)]
    pub(super) fn must_age(&self, now: Instant) -> bool {
        now >= self.age_at
    }

    /// Sets the next time of aging.
    pub(super) fn set_next_aging(&mut self, at: Instant) {
        self.age_at = at;
    }

    /// How long a peer may be silent, and when that counts.
    #[inline(always)]
    pub(super) const fn silence(&self) -> Silence {
        self.silence
    }

    /// How long after a call the engine counts as listening: a quarter of the peer timeout. After
    /// that time a peer that owes an answer gets a ping.
    pub(super) fn listening_nanos(&self) -> u64 {
        u64::from(self.silence.timeout / PING_PART) * TICK_NANOS
    }

    /// The deadline of a connection, if its timer is armed.
    #[inline(always)]
    pub(super) fn deadline(&self, conn: ConnSlot) -> Option<Instant> {
        self.wheel.deadline(conn)
    }

    /// Sets the deadline of a connection, in place of the one that it had.
    #[inline(always)]
    pub(super) fn arm(&mut self, conn: ConnSlot, deadline: Instant) {
        self.wheel.arm(conn, deadline, self.now);
    }

    /// Stops the timer of a connection that ends, and the watch over it.
    pub(super) fn disarm(&mut self, conn: ConnSlot) {
        self.wheel.disarm(conn);
        if let Some(watch) = self.watch(conn) {
            *watch = Watch::default();
        }
    }

    /// The watch over a connection.
    pub(super) fn watch(&mut self, conn: ConnSlot) -> Option<&mut Watch> {
        self.watches.get_mut(conn.number() as usize)
    }

    /// Whether a deadline may have expired.
    #[inline(always)]
    pub(super) fn may_expire(&self) -> bool {
        self.wheel.may_expire(self.now)
    }

    /// A connection with an expired deadline, disarmed; `None` if there is none left.
    #[inline(always)]
    pub(super) fn expire(&mut self) -> Option<ConnSlot> {
        self.wheel.expire(self.now)
    }

    /// A time that is not after the earliest deadline; `None` if no timer is armed.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.wheel.next_deadline()
    }
}
