// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory regions in the engine of a runtime, and the counters of operations.
//!
//! In: regions of the domain, from its region table, which holds its own lock. Out: the accesses
//! of peers to them; finished operations by class. Bound: the regions of a domain.

use std::sync::Arc;

use ofi_xdp_core::{Budget, OpCounters, PeerId, RegionRequest, TargetCounters};

use super::{Runtime, Side, State};
use crate::runtime::memory::Buffer;
use crate::sys::clock::now;
use crate::sys::errno::Error;
use crate::wait::waker::Waker;

impl Runtime {
    /// Registers memory for access by peers.
    ///
    /// # Errors
    /// Those of [`ofi_xdp_core::RegionError`]; [`Error::NoMemory`].
    pub(crate) fn register(
        &self,
        key: u64,
        request: &RegionRequest,
        buffer: Buffer,
    ) -> Result<(), Error> {
        let mut state = self.lock();
        let State { engine, memory, regions, .. } = &mut *state;
        regions.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let (id, _) = engine.with_mut(|engine| engine.register_region(request))?;
        memory.reserve_region(id).inspect_err(|_| {
            // It is registered, so this cannot fail.
            let _ = engine.with_mut(|engine| engine.deregister_region(id));
        })?;
        memory.attach_region(id, buffer);
        regions.insert(key, id);
        Ok(())
    }

    /// Ends the access of peers to a region: its memory is not accessed after the return. Returns
    /// the region's counters.
    pub(crate) fn deregister(&self, key: u64) -> TargetCounters {
        let mut state = self.lock();
        let State { engine, memory, regions, .. } = &mut *state;
        let Some(id) = regions.remove(&key) else { return TargetCounters::default() };
        memory.detach_region(id);
        engine.with_mut(|engine| {
            let counters = engine.region_counters(id);
            // It is registered, so this cannot fail.
            let _ = engine.deregister_region(id);
            counters.unwrap_or_default()
        })
    }

    /// The accesses of peers to a region on this runtime.
    pub(crate) fn region_counters(&self, key: u64) -> TargetCounters {
        let state = self.lock();
        let id = state.regions.get(&key);
        let counters = id.and_then(|&id| state.engine.with(|engine| engine.region_counters(id)));
        counters.unwrap_or_default()
    }

    /// Makes progress for a counter; the finished operations by class.
    pub(crate) fn count(&self, awake: Option<&Arc<Waker>>) -> OpCounters {
        let (mut state, now) = (self.lock_to_read(), now());
        if state.is_quiet(now) {
            self.read_nothing(&mut state, now);
        } else {
            self.drive(&mut state, now, Budget::PROGRESS);
            self.wake(&mut state, awake);
            state.quiet_until = state.next_find();
        }
        state.engine.with(|engine| *engine.op_counters())
    }

    /// The free operation slots of a side; of a connected endpoint, those that it may take.
    pub(crate) fn room(&self, side: Side, connected: Option<PeerId>) -> usize {
        let free = self.lock().engine.with(|engine| match (side, connected) {
            (Side::Transmit, None) => engine.free_operations(),
            (Side::Transmit, Some(peer)) => engine.operations_left(peer),
            (Side::Receive, None) => engine.free_receives(),
            (Side::Receive, Some(peer)) => engine.receives_left(peer),
        });
        usize::try_from(free).unwrap_or(usize::MAX)
    }

    /// The finished operations by class, without progress.
    pub(crate) fn op_counters(&self) -> OpCounters {
        self.lock_to_read().engine.with(|engine| *engine.op_counters())
    }
}
