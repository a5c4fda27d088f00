// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of a runtime's endpoints: those with the same completion queues.
//!
//! In: groups that come and go, and bound counters; finished operations. Out: completions by group,
//! as soon as there are two groups. Called by `endpoint::enable`, and before completions are read.
//! Bound: [`GROUPS_MAX`](ofi_xdp_core::GROUPS_MAX) groups.

use std::sync::Arc;

use ofi_xdp_core::CompletionGroup;

use super::wakers::{GroupQueues, Wakers};
use super::{Runtime, State};
use crate::sys::errno::Error;
use crate::wait::waker::Waker;

impl Runtime {
    /// Adds a group of endpoints.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn add_group(&self, queues: GroupQueues) -> Result<(), Error> {
        self.add_wakers(|wakers| wakers.add_group(queues))
    }

    /// Adds the waker of a bound counter, if its readers may wait.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(crate) fn add_counter(&self, waker: Option<&Arc<Waker>>) -> Result<(), Error> {
        let Some(waker) = waker.cloned() else { return Ok(()) };
        self.add_wakers(|wakers| wakers.add_counter(waker))
    }

    /// Adds wakers. Packets must wake those with an exported descriptor from now on.
    fn add_wakers(&self, add: impl FnOnce(&mut Wakers) -> Result<(), Error>) -> Result<(), Error> {
        let mut state = self.lock();
        add(&mut state.wakers)?;
        if state.wakers.any_exported() {
            state.port.arm();
        }
        Ok(())
    }

    /// Removes a group that has no endpoint any more. For this runtime that is the end of its
    /// queues' sleeps.
    pub(crate) fn remove_group(&self, group: CompletionGroup) {
        let mut state = self.lock();
        state.wakers.remove_group(group);
        self.count_sleepers(&mut state);
    }
}

impl State {
    /// Sorts what has finished by group, if there is more than one.
    #[inline]
    pub(super) fn sort_completions(&mut self) {
        if self.wakers.sorted {
            self.sort_by_group();
        }
    }

    #[inline(never)]
    fn sort_by_group(&mut self) {
        let Self { engine, links, wakers, .. } = self;
        // An operation without an endpoint is reported to the first group.
        let first = wakers.groups().first().map_or_else(CompletionGroup::default, |it| it.group);
        engine.with_mut(|engine| {
            engine.sort_completions(|peer| links.group(peer).unwrap_or(first));
        });
    }
}
