// SPDX-License-Identifier: MIT OR Apache-2.0
//! When the progress thread takes an endpoint over, and when it hands it back.
//!
//! In: what the thread observes of an endpoint, with the time. Out: the mode, and the time of the
//! next observation. A function of its arguments: no clock, no system call.
//!
//! ```text
//!               1. idle, or back from a pause; 2. nothing moved for REST_AFTER
//!   monitoring ───────────────────────────────────────────────────────────────▶ taken over
//!       ▲       3. the application drives, at `turns_needed` turns in series        │
//!       └───────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! *Monitoring*, the port is disarmed: packets pay for no wake-up. The thread observes by timer,
//! after [`CHECK_MIN`] at first, then after twice the time up to [`CHECK_MAX`], or up to
//! [`CHECK_QUIET`] while nothing moves. The application *drives* while its looks are less than
//! [`APP_IDLE_LIMIT`] apart, or while a thread of it sleeps in a wait call.
//!
//! *Taken over*, packets wake the thread, and no timer of this module runs. The application's own
//! looks still move packets. An application that pauses again soon after the thread handed the
//! endpoint back must then drive for twice as many turns, up to [`TURNS_MAX`]: the turns cost about
//! as much as the time that the next pause would.
//!
//! An endpoint at rest is taken over too, so that it needs no timer.

use std::time::Duration;

use ofi_xdp_core::Instant;

use crate::runtime::progress::Observation;
use crate::sys::limits::{ANNOUNCED_IDLE_MAX, APP_IDLE_LIMIT};

/// Shortest time between two observations, the first after a hand-back.
const CHECK_MIN: Duration = Duration::from_micros(250);
/// Longest time between two observations of an application that drives while packets move.
const CHECK_MAX: Duration = Duration::from_millis(1);
/// Longest time between two observations while nothing moves, and of a sleeper that may have missed
/// a wake-up.
const CHECK_QUIET: Duration = Duration::from_millis(5);
/// Time without a packet after which an endpoint needs no observation.
const REST_AFTER: Duration = Duration::from_millis(100);
/// Time after a hand-back in which a pause counts as a relapse.
const RELAPSE_LIMIT: Duration = Duration::from_millis(100);
/// Most turns in series for a hand-back.
const TURNS_MAX: u32 = 32;

/// Who drives an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The application does; the thread observes.
    Monitoring,
    /// The thread does, and the application when it looks.
    TakenOver,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Takeover {
    mode: Mode,
    /// Packets and series at the last observation.
    packets: u64,
    pauses: u32,
    /// The last observation with new packets.
    moved_at: Instant,
    /// Time until the next observation while monitoring.
    interval: Duration,
    /// Turns in series at which the application drove, and how many lead to a hand-back.
    turns: u32,
    turns_needed: u32,
    handed_back_at: Instant,
}

impl Takeover {
    /// A new endpoint at `now`.
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            mode: Mode::Monitoring,
            packets: 0,
            pauses: 0,
            moved_at: now,
            interval: CHECK_MIN,
            turns: 0,
            turns_needed: 1,
            handed_back_at: Instant::ZERO,
        }
    }

    /// Who drives the endpoint.
    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    /// The time of the next observation after one at `now`. Taken over, sleepers are observed until
    /// the endpoint rests.
    pub(crate) fn next(&self, now: Instant, sleeps: bool) -> Option<Instant> {
        match self.mode {
            Mode::Monitoring => Some(now.after(self.interval)),
            Mode::TakenOver => (sleeps && !self.rests(now)).then(|| now.after(CHECK_QUIET)),
        }
    }

    fn rests(&self, now: Instant) -> bool {
        now.since(self.moved_at) >= REST_AFTER
    }

    /// Decides, after an observation at `now`.
    pub(crate) fn update(&mut self, now: Instant, seen: &Observation) -> Mode {
        let moved = std::mem::replace(&mut self.packets, seen.packets) != seen.packets;
        let paused = std::mem::replace(&mut self.pauses, seen.looks.pauses) != seen.looks.pauses;
        if moved {
            self.moved_at = now;
        }
        match self.mode {
            Mode::Monitoring => self.monitor(now, seen, moved, paused),
            Mode::TakenOver => self.count_turn(now, seen),
        }
        self.mode
    }

    fn monitor(&mut self, now: Instant, seen: &Observation, moved: bool, paused: bool) {
        let idle = now.since(seen.looks.last);
        let drives = if seen.sleeps {
            true
        } else if seen.announced {
            !seen.overdue && idle < ANNOUNCED_IDLE_MAX
        } else {
            idle < APP_IDLE_LIMIT && (!paused || seen.is_polling(now))
        };
        if !drives {
            let relapse = now.since(self.handed_back_at) < RELAPSE_LIMIT;
            self.turns_needed =
                if relapse { self.turns_needed.saturating_mul(2).min(TURNS_MAX) } else { 1 };
            self.take_over();
        } else if self.rests(now) {
            self.take_over();
        } else {
            let longest = if moved { CHECK_MAX } else { CHECK_QUIET };
            self.interval = (self.interval * 2).min(longest);
        }
    }

    const fn take_over(&mut self) {
        self.mode = Mode::TakenOver;
        self.turns = 0;
    }

    fn count_turn(&mut self, now: Instant, seen: &Observation) {
        let waits = seen.sleeps || (seen.announced && !seen.overdue);
        self.turns = if waits || seen.is_polling(now) { self.turns + 1 } else { 0 };
        if self.turns >= self.turns_needed && !self.rests(now) {
            self.mode = Mode::Monitoring;
            self.handed_back_at = now;
            self.interval = CHECK_MIN;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::progress::AppLooks;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    /// An application that looked `ago` before the observation.
    fn looked(ago_us: u64, series: u32, pauses: u32) -> impl Fn(Instant, u64) -> Observation {
        move |now, packets| Observation {
            looks: AppLooks {
                last: Instant::from_nanos(now.as_nanos() - ago_us * 1000),
                series,
                pauses,
            },
            sleeps: false,
            announced: false,
            overdue: false,
            packets,
        }
    }

    fn sleeping(now: Instant, packets: u64) -> Observation {
        Observation { sleeps: true, ..looked(3000, 1, 0)(now, packets) }
    }

    fn announced(overdue: bool, ago_us: u64) -> impl Fn(Instant, u64) -> Observation {
        move |now, packets| Observation {
            announced: true,
            overdue,
            ..looked(ago_us, 1, 0)(now, packets)
        }
    }

    #[test]
    fn an_application_that_does_not_drive_is_taken_over() {
        type Look = Box<dyn Fn(Instant, u64) -> Observation>;
        let cases: [(&str, Look, Mode); 9] = [
            ("polls", Box::new(looked(0, 1000, 0)), Mode::Monitoring),
            ("looked a moment ago", Box::new(looked(49, 1, 0)), Mode::Monitoring),
            ("idle", Box::new(looked(50, 1000, 0)), Mode::TakenOver),
            ("back from a pause", Box::new(looked(0, 1, 1)), Mode::TakenOver),
            ("polls since a pause", Box::new(looked(0, 16, 1)), Mode::Monitoring),
            ("sleeps in a wait call", Box::new(sleeping), Mode::Monitoring),
            ("announced, nothing waits", Box::new(announced(false, 99_000)), Mode::Monitoring),
            ("announced, packets wait", Box::new(announced(true, 1000)), Mode::TakenOver),
            ("announced long ago", Box::new(announced(false, 100_000)), Mode::TakenOver),
        ];
        for (name, look, mode) in cases {
            let mut takeover = Takeover::new(START);
            let now = START.after(CHECK_MIN);
            assert_eq!(takeover.update(now, &look(now, 1)), mode, "{name}");
        }
    }

    #[test]
    fn one_that_drives_is_observed_less_and_less() {
        let polls = looked(0, 1000, 0);
        let mut takeover = Takeover::new(START);
        let mut now = START;
        let mut packets = 0;
        let mut observe = |takeover: &mut Takeover, moves: u64| {
            packets += moves;
            now = takeover.next(now, false).unwrap();
            takeover.update(now, &polls(now, packets));
            takeover.interval
        };
        let intervals: Vec<_> = (0..3).map(|_| observe(&mut takeover, 1).as_micros()).collect();
        assert_eq!(intervals, [500, 1000, 1000], "packets move");
        let intervals: Vec<_> = (0..4).map(|_| observe(&mut takeover, 0).as_micros()).collect();
        assert_eq!(intervals, [2000, 4000, 5000, 5000], "nothing moves");
        let observations = (0..100).take_while(|_| {
            observe(&mut takeover, 0);
            takeover.mode() == Mode::Monitoring
        });
        assert!(observations.count() < 20, "an endpoint at rest needs no observation");
        assert_eq!(takeover.next(START, false), None);
        assert_eq!(takeover.turns_needed, 1, "rest is no pause");
    }

    #[test]
    fn a_pause_soon_after_a_hand_back_doubles_the_turns() {
        let (polls, idle) = (looked(0, 16, 0), looked(50, 1, 0));
        let mut takeover = Takeover::new(START);
        let mut now = START;
        for (round, needed) in [1, 2, 4, 8, 16, 32, 32].into_iter().enumerate() {
            now = now.after(CHECK_MIN);
            assert_eq!(takeover.update(now, &idle(now, 0)), Mode::TakenOver, "round {round}");
            for turn in 1..=needed {
                assert_eq!(takeover.mode(), Mode::TakenOver, "round {round}, turn {turn}");
                takeover.update(now, &polls(now, (round as u64) << 8 | turn));
            }
            assert_eq!(takeover.mode(), Mode::Monitoring, "round {round}");
        }
        now = now.after(RELAPSE_LIMIT);
        takeover.update(now, &idle(now, 0));
        assert_eq!(takeover.turns_needed, 1, "the pause was long after the hand-back");
    }

    #[test]
    fn one_turn_without_the_application_begins_the_count_again() {
        let (polls, lazy) = (looked(0, 16, 0), looked(0, 15, 0));
        let mut takeover = Takeover::new(START);
        takeover.update(START, &looked(50, 1, 0)(START, 0));
        takeover.turns_needed = 2;
        for look in [&polls as &dyn Fn(Instant, u64) -> Observation, &lazy, &polls] {
            assert_eq!(takeover.update(START, &look(START, 1)), Mode::TakenOver);
        }
        assert_eq!(takeover.update(START, &polls(START, 1)), Mode::Monitoring);
    }

    #[test]
    fn a_sleeper_is_handed_back_to_and_observed_until_the_endpoint_rests() {
        let mut takeover = Takeover::new(START);
        takeover.update(START, &looked(50, 1, 0)(START, 0));
        takeover.turns_needed = 2;
        takeover.update(START, &sleeping(START, 1));
        assert_eq!(takeover.mode(), Mode::TakenOver);
        assert_eq!(takeover.next(START, true), Some(START.after(CHECK_QUIET)));
        let rest = START.after(REST_AFTER);
        assert_eq!(takeover.next(rest, true), None);
        takeover.update(rest, &sleeping(rest, 1));
        assert_eq!(takeover.mode(), Mode::TakenOver, "nothing moves");
        takeover.update(rest, &sleeping(rest, 2));
        assert_eq!(takeover.mode(), Mode::Monitoring);
    }
}
