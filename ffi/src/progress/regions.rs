// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions in the engine of one endpoint, and what was counted.
//!
//! What comes in: regions of the domain, from its registry, which calls with its own lock held.
//! What goes out: what peers did to them, and how many operations have ended, for counters. Bound:
//! the regions of a domain.

use ofi_xdp_core::{RegionError, RegionRequest, Served, Tally};

use super::{ActiveEndpoint, State};
use crate::memory::Buffer;

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
        let served = self.served(key);
        let mut state = self.lock();
        let State { engine, memory, regions, .. } = &mut *state;
        if let Some(id) = regions.remove(&key) {
            // An error would say that it is not registered, and it is.
            let _ = engine.with_dependent_mut(|_, engine| engine.deregister_region(id));
            memory.detach_region(id);
        }
        served
    }

    /// What peers did to a region through this endpoint.
    pub(crate) fn served(&self, key: u64) -> Served {
        let state = self.lock();
        let id = state.regions.get(&key);
        let served =
            id.and_then(|&id| state.engine.with_dependent(|_, engine| engine.region_served(id)));
        served.unwrap_or_default()
    }

    /// How many operations have ended.
    pub(crate) fn tally(&self) -> Tally {
        self.lock().engine.with_dependent(|_, engine| *engine.tally())
    }
}
