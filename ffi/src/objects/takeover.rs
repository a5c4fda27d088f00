// SPDX-License-Identifier: MIT OR Apache-2.0
//! The decision when the progress thread takes an endpoint over, and when it hands it back.
//!
//! In: the thread's observations of an endpoint, with the time. Out: the driver of the endpoint,
//! and the time of the next observation. A function of its arguments: no clock, no system call.
//!
//! ```text
//!               1. idle, or back from a pause; 2. nothing moved for IDLE_AFTER
//!   monitoring ───────────────────────────────────────────────────────────────▶ taken over
//!       ▲       3. the application drives                                           │
//!       └───────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! *Monitoring*, the port is disarmed: packets pay for no wake-up. The thread observes by timer,
//! first after [`CHECK_MIN`], or after [`CHECK_AFTER_PAUSE`] if the application has just paused.
//! Each next interval is twice as long, up to [`CHECK_MAX`]. So a pause is found no later than
//! after the time for which the application polled before it. The application *drives* while its
//! polls are less than [`APP_IDLE_LIMIT`] apart, or while a thread of it sleeps in a wait call.
//! Where its threads compete for cores (`contention`), or the polling thread has none at the
//! moment, the limit is [`CONTENDED_IDLE_LIMIT`].
//!
//! *Taken over*, packets wake the thread, and no timer of this module runs. The application's own
//! polls still move packets. So an application that polls now and then stays taken over, and one
//! that polls again loses the thread at its next turn, also if it holds the lock then: on a common
//! core the thread has interrupted one of its calls.
//!
//! *Standing by* is part of taken over: the application polled a moment ago, or sleeps in a wait
//! call, after pauses. Packets do not wake the thread; it looks again when that is over
//! (`runtime::thread_turns`).
//!
//! An endpoint at rest is taken over too, so that it needs no timer.

use std::time::Duration;

use ofi_xdp_core::Instant;

use super::contention::CoreShare;
use crate::runtime::progress::Observation;
use crate::sys::limits::{ANNOUNCED_IDLE_MAX, APP_IDLE_LIMIT, CONTENDED_IDLE_LIMIT};

/// Shortest time between two observations, the first after a hand-back.
const CHECK_MIN: Duration = Duration::from_micros(250);
/// Longest time between two observations, also of a sleeper that may have missed a wake-up.
const CHECK_MAX: Duration = Duration::from_millis(5);
/// Time without a packet after which an endpoint needs no observation.
const IDLE_AFTER: Duration = Duration::from_millis(100);
/// Time after a pause in which another one is likely.
const PAUSE_MEMORY: Duration = Duration::from_millis(100);
/// Time until the first observation after a hand-back in that time.
const CHECK_AFTER_PAUSE: Duration = APP_IDLE_LIMIT;

/// The driver of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Driver {
    /// The application does; the thread observes.
    Application,
    /// The thread does, and the application when it polls.
    Thread,
    /// The application does for the moment; the thread stands by.
    Standby,
}

/// Whether the thread monitors an endpoint or has taken it over.
#[derive(Debug)]
pub(crate) struct Takeover {
    driver: Driver,
    /// Packets and series at the last observation.
    packets: u64,
    pauses: u32,
    /// The last observation with new packets.
    moved_at: Instant,
    /// Time until the next observation while monitoring.
    interval: Duration,
    /// The last take-over of an application that paused.
    paused_at: Instant,
    /// Standing by for an application that is awake: the next observation.
    look_at: Instant,
}

impl Takeover {
    /// A new endpoint at `now`.
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            driver: Driver::Application,
            packets: 0,
            pauses: 0,
            moved_at: now,
            interval: CHECK_MIN,
            paused_at: Instant::ZERO,
            look_at: Instant::ZERO,
        }
    }

    /// The driver of the endpoint.
    pub(crate) const fn driver(&self) -> Driver {
        self.driver
    }

    /// The time of the next observation after one at `now`. Taken over, sleepers are observed until
    /// the endpoint is idle.
    pub(crate) fn next(&self, now: Instant, sleeps: bool) -> Option<Instant> {
        match self.driver {
            Driver::Application => Some(now.after(self.interval)),
            Driver::Standby if !sleeps => Some(self.look_at),
            Driver::Thread | Driver::Standby => {
                (sleeps && !self.is_idle(now)).then(|| now.after(CHECK_MAX))
            }
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        now.since(self.moved_at) >= IDLE_AFTER
    }

    /// Decides, after an observation at `now`, with the polling thread's share of the cores.
    pub(crate) fn update(&mut self, now: Instant, seen: &Observation, share: CoreShare) -> Driver {
        let moved = std::mem::replace(&mut self.packets, seen.packets) != seen.packets;
        let paused = std::mem::replace(&mut self.pauses, seen.polls.pauses) != seen.polls.pauses;
        if moved {
            self.moved_at = now;
        }
        match self.driver {
            Driver::Application => self.monitor(now, seen, share, paused),
            Driver::Thread | Driver::Standby => self.hand_back(now, seen, share),
        }
        self.driver
    }

    fn monitor(&mut self, now: Instant, seen: &Observation, share: CoreShare, paused: bool) {
        let idle = now.since(seen.polls.last);
        let drives = if seen.sleeps {
            true
        } else if seen.announced {
            !seen.overdue && idle < ANNOUNCED_IDLE_MAX
        } else if share != CoreShare::Free {
            idle < CONTENDED_IDLE_LIMIT
        } else {
            idle < APP_IDLE_LIMIT && (!paused || seen.is_polling(now))
        };
        if !drives {
            self.paused_at = now;
            self.driver = Driver::Thread;
        } else if self.is_idle(now) {
            self.driver = Driver::Thread;
        } else {
            self.observe_later(now, false);
        }
    }

    /// The application held the lock at an observation, monitored or after a post: it drives.
    /// `polls`: it has polled without pause since the thread drove.
    pub(crate) fn observe_later(&mut self, now: Instant, polls: bool) -> Driver {
        if self.driver == Driver::Application {
            self.interval = (self.interval * 2).min(CHECK_MAX);
        } else if polls {
            self.monitor_from(now);
        } else {
            self.stand_by_after(now);
        }
        self.driver
    }

    /// The application drives from `now` on.
    fn monitor_from(&mut self, now: Instant) {
        let has_paused = now.since(self.paused_at) < PAUSE_MEMORY;
        self.driver = Driver::Application;
        self.interval = if has_paused { CHECK_AFTER_PAUSE } else { CHECK_MIN };
    }

    /// Stands by for an application that was awake at `polled`.
    fn stand_by_after(&mut self, polled: Instant) {
        self.driver = Driver::Standby;
        self.look_at = polled.after(APP_IDLE_LIMIT);
    }

    fn hand_back(&mut self, now: Instant, seen: &Observation, share: CoreShare) {
        let waits = seen.sleeps || (seen.announced && !seen.overdue);
        let polls = if share != CoreShare::Free {
            now.since(seen.polls.last) < CONTENDED_IDLE_LIMIT
        } else {
            seen.is_polling(now)
        };
        let has_paused = now.since(self.paused_at) < PAUSE_MEMORY;
        let is_active = seen.suspended && now.since(seen.polls.last) < APP_IDLE_LIMIT;
        if seen.sleeps && (has_paused || self.is_idle(now)) {
            self.stand_by_after(now);
        } else if (waits || polls) && !self.is_idle(now) {
            self.monitor_from(now);
            if share == CoreShare::Contended {
                self.interval = CHECK_MAX;
            }
        } else if is_active {
            self.stand_by_after(seen.polls.last);
        } else {
            if seen.suspended {
                self.paused_at = now;
            }
            self.driver = Driver::Thread;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CoreShare::{Contended, Free, Lacking};
    use super::*;
    use crate::runtime::app_polls::AppPolls;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    /// An application that polled `ago` before the observation.
    fn polled(ago_us: u64, series: u32, pauses: u32) -> impl Fn(Instant, u64) -> Observation {
        move |now, packets| Observation {
            polls: AppPolls {
                last: Instant::from_nanos(now.as_nanos() - ago_us * 1000),
                series,
                pauses,
                thread: 1,
            },
            sleeps: false,
            announced: false,
            overdue: false,
            suspended: false,
            packets,
        }
    }

    fn sleeping(now: Instant, packets: u64) -> Observation {
        Observation { sleeps: true, ..polled(3000, 1, 0)(now, packets) }
    }

    fn announced(overdue: bool, ago_us: u64) -> impl Fn(Instant, u64) -> Observation {
        move |now, packets| Observation {
            announced: true,
            overdue,
            ..polled(ago_us, 1, 0)(now, packets)
        }
    }

    #[test]
    fn an_application_that_does_not_drive_is_taken_over() {
        type Poll = Box<dyn Fn(Instant, u64) -> Observation>;
        let cases: [(&str, Poll, Driver); 9] = [
            ("polls", Box::new(polled(0, 1000, 0)), Driver::Application),
            ("polled a moment ago", Box::new(polled(49, 1, 0)), Driver::Application),
            ("idle", Box::new(polled(50, 1000, 0)), Driver::Thread),
            ("back from a pause", Box::new(polled(0, 1, 1)), Driver::Thread),
            ("polls since a pause", Box::new(polled(0, 16, 1)), Driver::Application),
            ("sleeps in a wait call", Box::new(sleeping), Driver::Application),
            ("announced, nothing waits", Box::new(announced(false, 99_000)), Driver::Application),
            ("announced, packets wait", Box::new(announced(true, 1000)), Driver::Thread),
            ("announced long ago", Box::new(announced(false, 100_000)), Driver::Thread),
        ];
        for (name, poll, driver) in cases {
            let mut takeover = Takeover::new(START);
            let now = START.after(CHECK_MIN);
            assert_eq!(takeover.update(now, &poll(now, 1), Free), driver, "{name}");
        }
    }

    #[test]
    fn one_that_drives_is_observed_less_and_less() {
        let polls = polled(0, 1000, 0);
        let mut takeover = Takeover::new(START);
        let mut now = START;
        let mut packets = 0;
        let mut observe = |takeover: &mut Takeover, moves: u64| {
            packets += moves;
            now = takeover.next(now, false).unwrap();
            takeover.update(now, &polls(now, packets), Free);
            takeover.interval
        };
        let intervals = (0..6).map(|_| observe(&mut takeover, 1).as_micros());
        assert_eq!(intervals.collect::<Vec<_>>(), [500, 1000, 2000, 4000, 5000, 5000]);
        let observations = (0..100).take_while(|_| {
            observe(&mut takeover, 0);
            takeover.driver() == Driver::Application
        });
        assert!(observations.count() <= 20, "an endpoint at rest needs no observation");
        assert_eq!(takeover.next(START, false), None);
        takeover.update(now, &polls(now, packets + 1), Free);
        assert_eq!(takeover.driver(), Driver::Application);
        assert_eq!(takeover.interval, CHECK_MIN, "rest is no pause");
    }

    #[test]
    fn one_that_has_paused_is_observed_sooner() {
        let (polls, idle) = (polled(0, 16, 0), polled(50, 1, 0));
        for (after, interval) in [
            (Duration::ZERO, CHECK_AFTER_PAUSE),
            (PAUSE_MEMORY - CHECK_MIN, CHECK_AFTER_PAUSE),
            (PAUSE_MEMORY, CHECK_MIN),
        ] {
            let mut takeover = Takeover::new(START);
            assert_eq!(takeover.update(START, &idle(START, 0), Free), Driver::Thread);
            let now = START.after(after);
            assert_eq!(takeover.update(now, &polls(now, 1), Free), Driver::Application);
            assert_eq!(takeover.next(now, false), Some(now.after(interval)), "{after:?}");
        }
    }

    #[test]
    fn only_an_application_that_drives_is_handed_back_to() {
        type Poll = Box<dyn Fn(Instant, u64) -> Observation>;
        let posted = |ago_us| {
            let seen = polled(ago_us, 1, 0);
            move |now, packets| Observation { suspended: true, ..seen(now, packets) }
        };
        let cases: [(&str, Poll, Driver); 8] = [
            ("polls now and then", Box::new(polled(0, 15, 0)), Driver::Thread),
            ("polled until a moment ago", Box::new(polled(50, 16, 0)), Driver::Thread),
            ("polls", Box::new(polled(49, 16, 0)), Driver::Application),
            ("sleeps in a wait call", Box::new(sleeping), Driver::Standby),
            ("polled after a post", Box::new(posted(49)), Driver::Standby),
            ("idle after a post", Box::new(posted(50)), Driver::Thread),
            ("announced, nothing waits", Box::new(announced(false, 900)), Driver::Application),
            ("announced, packets wait", Box::new(announced(true, 1000)), Driver::Thread),
        ];
        for (name, poll, driver) in cases {
            let mut takeover = Takeover::new(START);
            takeover.update(START, &polled(50, 1, 0)(START, 0), Free);
            assert_eq!(takeover.update(START, &poll(START, 1), Free), driver, "{name}");
        }
    }

    #[test]
    fn a_sleeper_is_handed_back_to_if_it_has_not_paused() {
        let idle_after_a_post =
            |now, packets| Observation { suspended: true, ..polled(50, 1, 0)(now, packets) };
        let mut takeover = Takeover::new(START);
        takeover.update(START, &polled(50, 1, 0)(START, 0), Free);
        let now = START.after(PAUSE_MEMORY);
        takeover.update(now, &idle_after_a_post(now, 1), Free);
        let soon = now.after(PAUSE_MEMORY - CHECK_MIN);
        assert_eq!(takeover.update(soon, &sleeping(soon, 2), Free), Driver::Standby);
        assert_eq!(takeover.next(soon, true), Some(soon.after(CHECK_MAX)));
        assert_eq!(takeover.next(soon, false), Some(soon.after(APP_IDLE_LIMIT)));
        let later = now.after(PAUSE_MEMORY);
        assert_eq!(takeover.update(later, &sleeping(later, 3), Free), Driver::Application);
    }

    #[test]
    fn an_application_in_a_call_after_a_post_is_observed_again() {
        let mut takeover = Takeover::new(START);
        takeover.update(START, &polled(50, 1, 0)(START, 0), Free);
        takeover.observe_later(START, false);
        assert_eq!(takeover.next(START, false), Some(START.after(APP_IDLE_LIMIT)));
        takeover.update(START, &polled(50, 1, 0)(START, 0), Free);
        assert_eq!(takeover.driver(), Driver::Thread);
    }

    /// The thread that finds the lock taken may have interrupted the application on its core.
    #[test]
    fn an_application_that_polls_while_it_is_observed_drives() {
        let mut takeover = Takeover::new(START);
        takeover.update(START, &polled(50, 1, 0)(START, 0), Free);
        assert_eq!(takeover.observe_later(START, true), Driver::Application);
        assert_eq!(takeover.next(START, false), Some(START.after(CHECK_AFTER_PAUSE)));
    }

    #[test]
    fn a_thread_without_a_core_does_not_pause() {
        let limit = u64::try_from(CONTENDED_IDLE_LIMIT.as_micros()).unwrap();
        for (share, later) in [(Contended, CHECK_MAX), (Lacking, CHECK_AFTER_PAUSE)] {
            for (name, seen, driver) in [
                ("without a core", polled(limit - 1, 1, 1), Driver::Application),
                ("idle", polled(limit, 1000, 0), Driver::Thread),
            ] {
                let mut takeover = Takeover::new(START);
                assert_eq!(takeover.update(START, &seen(START, 1), share), driver, "{name}");
                // Taken over before the cores were contended.
                let mut takeover = Takeover::new(START);
                takeover.update(START, &polled(limit, 1, 0)(START, 1), Free);
                let now = START.after(PAUSE_MEMORY / 2);
                assert_eq!(takeover.update(now, &seen(now, 2), share), driver, "{name}");
                let interval = takeover.next(now, false).map(|at| at.since(now));
                assert_eq!(interval, (driver == Driver::Application).then_some(later), "{name}");
            }
        }
    }

    #[test]
    fn a_sleeper_is_observed_until_the_endpoint_is_idle() {
        let mut takeover = Takeover::new(START);
        takeover.update(START, &polled(50, 1, 0)(START, 0), Free);
        assert_eq!(takeover.next(START, true), Some(START.after(CHECK_MAX)));
        let rest = START.after(IDLE_AFTER);
        assert_eq!(takeover.next(rest, true), None);
        takeover.update(rest, &sleeping(rest, 0), Free);
        assert_eq!(takeover.driver(), Driver::Standby, "nothing moves");
        assert_eq!(takeover.next(rest, true), None);
        takeover.update(rest, &sleeping(rest, 1), Free);
        assert_eq!(takeover.driver(), Driver::Application);
    }
}
