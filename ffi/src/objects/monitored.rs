// SPDX-License-Identifier: MIT OR Apache-2.0
//! The endpoints of a progress thread: the choice of those that need a turn, and the turn itself.
//!
//! In: endpoints that have a packet or an alarm; the time. Out: driven endpoints, and
//! the time of the next turn. Caller: the progress thread. Bound: one turn for each endpoint and
//! round, of one budget; a round costs time for endpoints that are active, not for all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ofi_xdp_core::Instant;

use super::contention::{Contention, CoreShare};
use super::takeover::{Driver, Takeover};
use crate::runtime::Runtime;
use crate::runtime::statistics::Statistics;
use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::wait::wait_fd::Wait;

/// How long the thread polls after the last packet, so that a burst of packets costs one wake-up.
const LINGER: Duration = Duration::from_micros(20);
/// Turns with packets after which the port of a polled endpoint is disarmed.
const DISARM_AFTER: u32 = 8;
/// Time between turns of an endpoint of which packets cannot wake the thread.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);
/// Statistics pages that a round writes at most. Calls that change the list wait for a round.
const PAGES_MAX: u32 = 8;

/// An endpoint of the thread.
#[derive(Debug)]
struct Monitored {
    endpoint: Arc<Runtime>,
    takeover: Takeover,
    contention: Contention,
    /// A packet or an alarm asks for a turn.
    ready: bool,
    /// The endpoint is in the list of active ones.
    active: bool,
    /// The thread polls until then.
    linger_until: Instant,
    /// Turns with packets since the port was armed; from [`DISARM_AFTER`] on it is disarmed.
    moves: u32,
    /// The latest time of the next turn.
    next: Option<Instant>,
    /// Packets may wake the thread: the descriptors are in the set that it sleeps on.
    watched: bool,
    /// The kernel has refused that once.
    refused: bool,
    /// Packets at the last observation.
    packets: u64,
    /// The statistics page, if one could be made, and the time of the next write.
    statistics: Option<Statistics>,
    publish_at: Option<Instant>,
}

/// The endpoints of a domain that the progress thread monitors.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    all: BTreeMap<usize, Monitored>,
    /// Endpoints with a turn to come.
    active: Vec<usize>,
}

/// When the next round is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Round {
    /// At once: packets moved a moment ago.
    pub(super) lingers: bool,
    /// At this time, unless there is a packet or a call.
    pub(super) next: Option<Instant>,
}

impl Endpoints {
    /// Adds an endpoint, which has a turn in the next round.
    ///
    /// # Errors
    /// [`Error::NoMemory`] if the list of active endpoints has no room for all.
    pub(super) fn add(&mut self, endpoint: &Arc<Runtime>) -> Result<(), Error> {
        let more = (self.all.len() + 1).saturating_sub(self.active.len());
        self.active.try_reserve(more).map_err(|_| Error::NoMemory)?;
        let time = now();
        let monitored = Monitored {
            endpoint: Arc::clone(endpoint),
            takeover: Takeover::new(time),
            contention: Contention::new(),
            ready: true,
            active: true,
            linger_until: Instant::ZERO,
            moves: 0,
            next: None,
            watched: false,
            refused: false,
            packets: 0,
            statistics: Statistics::open(endpoint, time),
            publish_at: Some(time),
        };
        self.all.insert(endpoint.id(), monitored);
        self.active.push(endpoint.id());
        Ok(())
    }

    /// Removes an endpoint.
    pub(super) fn remove(&mut self, endpoint: &Arc<Runtime>) {
        self.all.remove(&endpoint.id());
        self.active.retain(|&id| id != endpoint.id());
    }

    /// Deletes all statistics pages.
    pub(super) fn close_pages(&mut self) {
        self.all.values_mut().for_each(|monitored| monitored.statistics = None);
    }

    /// Gives `endpoint` a turn in the next round. It may be gone.
    pub(super) fn set_ready(&mut self, endpoint: usize) {
        let Some(monitored) = self.all.get_mut(&endpoint) else { return };
        monitored.ready = true;
        if !std::mem::replace(&mut monitored.active, true) {
            self.active.push(endpoint);
        }
    }

    /// One turn for each endpoint that is due at `time`.
    pub(super) fn round(&mut self, time: Instant, wait: &Wait) -> Round {
        let Self { all, active } = self;
        let mut round = Round { lingers: false, next: None };
        let mut pages = PAGES_MAX;
        active.retain(|id| {
            let Some(monitored) = all.get_mut(id) else { return false };
            monitored.run(time, wait, &mut pages);
            round.lingers |= monitored.lingers(time);
            round.next = earlier(round.next, earlier(monitored.next, monitored.publish_at));
            monitored.active =
                monitored.lingers(time) || monitored.next.or(monitored.publish_at).is_some();
            monitored.active
        });
        round
    }
}

impl Monitored {
    fn lingers(&self, time: Instant) -> bool {
        time < self.linger_until
    }

    /// A turn, and a write of the statistics page, as far as they are due.
    fn run(&mut self, time: Instant, wait: &Wait, pages: &mut u32) {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= time);
        // Before a sleep the port is armed again.
        let disarmed = self.moves >= DISARM_AFTER && !self.lingers(time);
        let woken = std::mem::take(&mut self.ready) || is_due(self.next) || disarmed;
        if woken || self.lingers(time) {
            self.turn(time, woken, wait);
        }
        if is_due(self.publish_at) && *pages > 0 {
            *pages -= 1;
            let Self { statistics, endpoint, .. } = self;
            self.publish_at = statistics.as_mut().and_then(|it| it.publish(endpoint, time));
        }
    }

    /// Packets wake the thread from now on. Where the kernel has no room for that (`epoll_ctl(2)`),
    /// the thread has turns by time, and tries again.
    fn watch(&mut self, time: Instant, wait: &Wait) {
        let id = self.endpoint.id();
        let added = self.endpoint.descriptors(|descriptor| wait.add_named(descriptor, id));
        self.watched = added.is_ok();
        if let Err(error) = added {
            self.next = earlier(self.next, Some(time.after(RETRY_INTERVAL)));
            if !std::mem::replace(&mut self.refused, true) {
                log::warn!(target: "domain", "progress thread, packets do not wake it: {error}");
            }
        }
    }

    /// Packets wake the thread no more.
    fn hand_back(&mut self, wait: &Wait) {
        // It cannot fail on two open descriptors.
        let _ = self.endpoint.descriptors(|descriptor| wait.remove(descriptor));
        self.watched = false;
        self.endpoint.hand_back();
    }

    fn turn(&mut self, time: Instant, woken: bool, wait: &Wait) {
        let before = self.takeover.driver();
        let Some(seen) = self.endpoint.observe(time, before != Driver::Application) else {
            let driver = self.takeover.observe_later(time, self.endpoint.is_polled());
            self.next = self.takeover.next(time, false);
            if before != driver && driver == Driver::Application {
                self.hand_back(wait);
            }
            return;
        };
        if std::mem::replace(&mut self.packets, seen.packets) != seen.packets {
            self.publish_at = self.publish_at.or(Some(time));
        }
        let share = self.contention.observe(time, &seen);
        let driver = self.takeover.update(time, &seen, share);
        self.next = self.takeover.next(time, seen.sleeps);
        if driver != Driver::Application {
            if !self.watched {
                self.watch(time, wait);
            }
        } else if before != driver {
            self.hand_back(wait);
        }
        if driver != Driver::Thread {
            self.linger_until = Instant::ZERO;
            self.moves = 0;
            if driver == Driver::Standby {
                self.next = self.endpoint.stand_by(time, seen.sleeps, self.next);
            } else {
                self.endpoint.disarm_unused_port();
            }
            return;
        }
        if woken {
            self.moves = 0;
        }
        let turn = self.endpoint.drive_from_thread(woken);
        self.next = earlier(self.next, turn.next);
        // An application that polls takes the next packets itself, and one without a core needs it.
        if turn.moved && share != CoreShare::Contended && !seen.is_polling(time) {
            self.linger_until = now().after(LINGER);
            self.moves += 1;
            if self.moves == DISARM_AFTER {
                self.endpoint.disarm_unused_port();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::tests::endpoint;

    #[test]
    fn a_round_writes_few_pages() {
        let runtimes: Vec<_> = (0..2 * PAGES_MAX).map(|_| endpoint().0).collect();
        let (mut endpoints, wait) = (Endpoints::default(), Wait::new().unwrap());
        runtimes.iter().for_each(|runtime| endpoints.add(runtime).unwrap());
        let time = now();
        let mut due = || {
            let round = endpoints.round(time, &wait);
            let is_due = |it: &&Monitored| it.publish_at.is_some_and(|at| at <= time);
            (round.next.is_some_and(|at| at <= time), endpoints.all.values().filter(is_due).count())
        };
        assert_eq!(due(), (true, PAGES_MAX as usize), "the others come at once");
        assert_eq!(due(), (false, 0));
    }

    #[test]
    fn an_endpoint_whose_packets_cannot_wake_the_thread_has_turns_by_time() {
        let (mut endpoints, (runtime, _)) = (Endpoints::default(), endpoint());
        let sets: [Wait; 5] = std::array::from_fn(|_| Wait::new().unwrap());
        let join = |(inner, outer): (&Wait, &Wait)| inner.join(outer).unwrap();
        sets.iter().zip(&sets[1..]).for_each(join);
        // So deep in sets of sets the kernel takes no socket.
        let [wait, outer, ..] = &sets;
        endpoints.add(&runtime).unwrap();
        let time = now().after(Duration::from_secs(1));
        let mut is_watched = |time: Instant| {
            let next = endpoints.round(time, wait).next;
            assert_eq!(endpoints.all[&runtime.id()].takeover.driver(), Driver::Thread);
            let watched = endpoints.all[&runtime.id()].watched;
            assert!(watched || next.is_some_and(|at| at <= time.after(RETRY_INTERVAL)));
            watched
        };
        assert!(!is_watched(time));
        wait.leave(outer);
        assert!(is_watched(time.after(RETRY_INTERVAL)));
    }
}
