// SPDX-License-Identifier: MIT OR Apache-2.0
//! The endpoints of a progress thread: which of them need a turn, and what happens at a turn.
//!
//! In: endpoints that have a packet or that a call has named; the time. Out: driven endpoints, and
//! the time of the next turn. Caller: the progress thread. Bound: one turn for each endpoint and
//! round, of one budget; a round costs time for endpoints that are active, not for all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ofi_xdp_core::Instant;

use super::takeover::{Driver, Takeover};
use crate::runtime::Runtime;
use crate::runtime::statistics::Statistics;
use crate::sys::clock::{earlier, now};
use crate::sys::errno::Error;
use crate::wait::wait_fd::Wait;

/// How long the thread polls after the last packet, so that a burst of packets costs one wake-up.
const LINGER: Duration = Duration::from_micros(20);

/// An endpoint of the thread.
#[derive(Debug)]
struct Monitored {
    endpoint: Arc<Runtime>,
    takeover: Takeover,
    /// A packet or a call asks for a turn.
    ready: bool,
    /// The endpoint is in the list of active ones.
    active: bool,
    /// The thread polls until then.
    linger_until: Instant,
    /// The latest time of the next turn.
    next: Option<Instant>,
    /// Packets at the last observation.
    packets: u64,
    /// The statistics page, if one could be made, and the time of the next write.
    statistics: Option<Statistics>,
    publish_at: Option<Instant>,
}

/// See the module.
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
    pub(super) fn add(&mut self, endpoint: &Arc<Runtime>) {
        let time = now();
        let monitored = Monitored {
            endpoint: Arc::clone(endpoint),
            takeover: Takeover::new(time),
            ready: true,
            active: true,
            linger_until: Instant::ZERO,
            next: None,
            packets: 0,
            statistics: Statistics::open(endpoint, time),
            publish_at: Some(time),
        };
        self.all.insert(endpoint.id(), monitored);
        self.active.push(endpoint.id());
    }

    /// Removes an endpoint.
    pub(super) fn remove(&mut self, endpoint: &Arc<Runtime>) {
        self.all.remove(&endpoint.id());
        self.active.retain(|&id| id != endpoint.id());
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
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
    ///
    /// # Errors
    /// [`Error::Os`] when descriptors cannot be waited on.
    pub(super) fn round(&mut self, time: Instant, wait: &Wait) -> Result<Round, Error> {
        let Self { all, active } = self;
        let mut round = Round { lingers: false, next: None };
        let mut result = Ok(());
        active.retain(|id| {
            let Some(monitored) = all.get_mut(id) else { return false };
            if result.is_ok() {
                result = monitored.run(time, wait);
            }
            round.lingers |= monitored.lingers(time);
            round.next = earlier(round.next, earlier(monitored.next, monitored.publish_at));
            monitored.active =
                monitored.lingers(time) || monitored.next.or(monitored.publish_at).is_some();
            monitored.active
        });
        result.map(|()| round)
    }
}

impl Monitored {
    fn lingers(&self, time: Instant) -> bool {
        time < self.linger_until
    }

    /// A turn, and a write of the statistics page, as far as they are due.
    fn run(&mut self, time: Instant, wait: &Wait) -> Result<(), Error> {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= time);
        let woken = std::mem::take(&mut self.ready) || is_due(self.next);
        if woken || self.lingers(time) {
            self.turn(time, woken, wait)?;
        }
        if is_due(self.publish_at) {
            let Self { statistics, endpoint, .. } = self;
            self.publish_at = statistics.as_mut().and_then(|it| it.publish(endpoint, time));
        }
        Ok(())
    }

    fn turn(&mut self, time: Instant, woken: bool, wait: &Wait) -> Result<(), Error> {
        let before = self.takeover.driver();
        let Some(seen) = self.endpoint.observe(time, before == Driver::Thread) else {
            self.takeover.observe_later();
            self.next = self.takeover.next(time, false);
            return Ok(());
        };
        if std::mem::replace(&mut self.packets, seen.packets) != seen.packets {
            self.publish_at = self.publish_at.or(Some(time));
        }
        let driver = self.takeover.update(time, &seen);
        self.next = self.takeover.next(time, seen.sleeps);
        match (before, driver) {
            (Driver::Application, Driver::Thread) => {
                let id = self.endpoint.id();
                self.endpoint.descriptors(|descriptor| wait.add_named(descriptor, id))?;
            }
            (Driver::Thread, Driver::Application) => {
                self.endpoint.descriptors(|descriptor| wait.remove(descriptor))?;
                self.endpoint.hand_back();
            }
            _ => {}
        }
        if driver == Driver::Application {
            self.linger_until = Instant::ZERO;
            self.endpoint.disarm_unused_port();
            return Ok(());
        }
        let turn = self.endpoint.drive_from_thread(woken);
        self.next = earlier(self.next, turn.next);
        // An application that polls takes the next packets itself.
        if turn.moved && !seen.is_polling(time) {
            self.linger_until = now().after(LINGER);
        }
        Ok(())
    }
}
