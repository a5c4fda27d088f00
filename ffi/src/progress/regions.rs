// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions in the engine of one endpoint, and what was counted.
//!
//! What comes in: regions of the domain, from its registry, which calls with its own lock held.
//! What goes out: what peers did to them, and how many operations have ended, for counters. Bound:
//! the regions of a domain.

use std::sync::Arc;

use ofi_xdp_core::{Budget, RegionError, RegionRequest, Served, Tally};

use super::{ActiveEndpoint, State, now};
use crate::memory::Buffer;
use crate::ops::Side;
use crate::waker::Waker;

impl ActiveEndpoint {
    /// Opens memory to peers.
    ///
    /// # Errors
    /// [`RegionError`].
    pub(crate) fn register(
        &self,
        key: u64,
        request: &RegionRequest,
        buffer: Buffer,
    ) -> Result<(), RegionError> {
        let mut state = self.lock();
        let State { engine, memory, regions, .. } = &mut *state;
        let (id, _) = engine.with_dependent_mut(|_, engine| engine.register_region(request))?;
        memory.attach_region(id, buffer);
        regions.insert(key, id);
        Ok(())
    }

    /// Takes memory back from peers: when this returns, nothing touches it any more. Returns what
    /// they did to it.
    pub(crate) fn deregister(&self, key: u64) -> Served {
        let mut state = self.lock();
        let State { engine, memory, regions, .. } = &mut *state;
        let Some(id) = regions.remove(&key) else { return Served::default() };
        memory.detach_region(id);
        engine.with_dependent_mut(|_, engine| {
            let served = engine.region_served(id);
            // An error would say that it is not registered, and it is.
            let _ = engine.deregister_region(id);
            served.unwrap_or_default()
        })
    }

    /// What peers did to a region through this endpoint.
    pub(crate) fn served(&self, key: u64) -> Served {
        let state = self.lock();
        let id = state.regions.get(&key);
        let served =
            id.and_then(|&id| state.engine.with_dependent(|_, engine| engine.region_served(id)));
        served.unwrap_or_default()
    }

    /// Makes progress for a counter; how many operations have ended.
    pub(crate) fn count(&self, awake: Option<&Arc<Waker>>) -> Tally {
        let mut state = self.lock();
        self.drive(&mut state, now(), Budget::PROGRESS);
        self.wake(&state, awake);
        state.engine.with_dependent(|_, engine| *engine.tally())
    }

    /// How many more operations of one side can be posted.
    pub(crate) fn room(&self, side: Side) -> usize {
        let free = self.lock().engine.with_dependent(|_, engine| match side {
            Side::Transmit => engine.free_operations(),
            Side::Receive => engine.free_receives(),
        });
        usize::try_from(free).unwrap_or(usize::MAX)
    }

    /// How many operations have ended.
    pub(crate) fn tally(&self) -> Tally {
        self.lock().engine.with_dependent(|_, engine| *engine.tally())
    }
}
