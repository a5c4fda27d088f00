// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wakers of a runtime: the queues of its endpoints, its counters, the progress thread.
//!
//! In: the engine's completions, and the time of its next timer. Out: wake-ups of the sleepers that
//! they concern. Called by the runtime at the end of each call, under its lock (`wait::waker` has
//! the order). Bound: two queues for each group of endpoints, the bound counters. Without sleepers,
//! one load each.

use std::sync::Arc;

use ofi_xdp_core::{CompletionGroup, Engine, Instant, OpCounters};

use super::side::{CompletionSource, Side};
use crate::sys::errno::Error;
use crate::sys::memory::push;
use crate::wait::alarm::Alarm;
use crate::wait::waker::Waker;

/// The queues of a group of endpoints.
#[derive(Debug, Default)]
pub(crate) struct GroupQueues {
    /// The endpoints.
    pub(crate) group: CompletionGroup,
    /// Readers of the transmit queue, if they may wait.
    pub(crate) transmit: Option<Arc<Waker>>,
    /// Readers of the receive queue, if they may wait.
    pub(crate) receive: Option<Arc<Waker>>,
    /// Sides without a completion queue.
    pub(crate) unbound: Vec<Side>,
}

impl GroupQueues {
    /// The readers that may wait, with what they read.
    fn readers(&self) -> impl Iterator<Item = (&Arc<Waker>, CompletionSource)> {
        let group = self.group;
        let reader = move |waker, side| (waker, CompletionSource { side, group });
        let transmit = self.transmit.iter().map(move |waker| reader(waker, Side::Transmit));
        transmit.chain(self.receive.iter().map(move |waker| reader(waker, Side::Receive)))
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Wakers {
    /// The queues of each group of endpoints.
    groups: Vec<GroupQueues>,
    /// The wakers of the application's threads: of the groups, then of the counters. Each call
    /// looks at them all.
    application: Vec<Arc<Waker>>,
    /// Whether a side of some endpoint has no completion queue.
    pub(super) any_unbound: bool,
    /// Whether the engine sorts completions by group: there were two groups at one time.
    pub(super) sorted: bool,
    /// Readers of the bound counters, if they may wait.
    counters: Vec<Arc<Waker>>,
    /// The counters at the last wake-up of those readers.
    last_counters: OpCounters,
    /// The turns of the domain's progress thread.
    pub(super) alarm: Alarm,
}

impl Wakers {
    /// Wakers of counters and groups that are added later.
    pub(crate) fn new(alarm: Alarm) -> Self {
        Self {
            groups: Vec::new(),
            application: Vec::new(),
            any_unbound: false,
            sorted: false,
            counters: Vec::new(),
            last_counters: OpCounters::default(),
            alarm,
        }
    }

    /// The queues of each group of endpoints.
    pub(super) fn groups(&self) -> &[GroupQueues] {
        &self.groups
    }

    /// Adds a group of endpoints.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; then nothing has changed.
    pub(super) fn add_group(&mut self, queues: GroupQueues) -> Result<(), Error> {
        // A group has two queues.
        self.application.try_reserve(2).map_err(|_| Error::NoMemory)?;
        push(&mut self.groups, queues)?;
        self.sorted |= self.groups.len() > 1;
        self.summarize();
        Ok(())
    }

    /// Adds a counter.
    ///
    /// # Errors
    /// [`Error::NoMemory`]; then nothing has changed.
    pub(super) fn add_counter(&mut self, waker: Arc<Waker>) -> Result<(), Error> {
        self.application.try_reserve(1).map_err(|_| Error::NoMemory)?;
        push(&mut self.counters, waker)?;
        self.summarize();
        Ok(())
    }

    /// Removes a group.
    pub(super) fn remove_group(&mut self, group: CompletionGroup) {
        self.groups.retain(|queues| queues.group != group);
        self.summarize();
    }

    /// Computes what calls look at from the groups.
    fn summarize(&mut self) {
        let Self { groups, application, any_unbound, counters, .. } = self;
        application.clear();
        let readers = groups.iter().flat_map(GroupQueues::readers);
        application.extend(readers.map(|(waker, _)| waker).chain(&*counters).cloned());
        *any_unbound = groups.iter().any(|group| !group.unbound.is_empty());
    }

    /// Whether a thread of the application sleeps in a wait call. It makes progress when it wakes.
    pub(super) fn application_sleeps(&self) -> bool {
        self.application.iter().any(|waker| waker.has_armed())
    }

    /// Whether the application has announced a sleep on a descriptor.
    pub(super) fn application_announced(&self) -> bool {
        self.application.iter().any(|waker| waker.is_wait_announced())
    }

    /// Wakes sleepers in wait calls that have something to do. They may have missed a wake-up:
    /// several sleep on one descriptor, and the first to wake makes it unreadable.
    pub(super) fn rewake(&self, engine: &Engine<'_>, due: Option<Instant>) {
        self.counters.iter().filter(|waker| waker.has_armed()).for_each(|waker| waker.wake());
        let readers = self.groups.iter().flat_map(GroupQueues::readers);
        for (waker, source) in readers.filter(|(waker, _)| waker.has_armed()) {
            if source.is_ready(engine, self.sorted) {
                waker.wake();
            } else {
                waker.wake_before(due);
            }
        }
    }

    /// Whether a thread of the application sleeps, or may sleep on an exported descriptor.
    #[inline]
    pub(super) fn has_possible_sleepers(&self) -> bool {
        let may_sleep = |waker: &Arc<Waker>| waker.has_sleepers() || waker.is_exported();
        self.application.iter().any(may_sleep)
    }

    /// Whether the application has an exported descriptor.
    pub(super) fn any_exported(&self) -> bool {
        self.application.iter().any(|waker| waker.is_exported())
    }

    /// Wakes sleepers, and possible sleepers, that have something to do or sleep beyond `due`. The
    /// waker `awake` is left out: its thread made this call.
    #[cold]
    pub(super) fn wake(
        &mut self,
        engine: &Engine<'_>,
        due: Option<Instant>,
        awake: Option<&Arc<Waker>>,
    ) {
        let sleeps = |waker: &Arc<Waker>| {
            (waker.has_sleepers() || waker.is_exported())
                && !awake.is_some_and(|awake| Arc::ptr_eq(awake, waker))
        };
        // All sleepers on counters are woken if any operation has ended: each compares for itself.
        // Without that condition two sleepers would wake each other forever.
        let ended = engine.op_counters();
        let before = std::mem::replace(&mut self.last_counters, *ended);
        for waker in self.counters.iter().filter(|waker| sleeps(waker)) {
            if before == *ended {
                waker.wake_before(due);
            } else {
                waker.signal_fd();
            }
        }
        let readers = self.groups.iter().flat_map(GroupQueues::readers);
        for (waker, source) in readers.filter(|(waker, _)| sleeps(waker)) {
            if source.is_ready(engine, self.sorted) {
                waker.signal_fd();
            } else {
                waker.wake_before(due);
            }
        }
    }
}
