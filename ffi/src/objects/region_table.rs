// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory regions of a domain, and the endpoints that open them to peers.
//!
//! A region belongs to a domain (`fi_mr(3)`), a packet to an endpoint. So the engine of each
//! enabled endpoint has all regions: a packet's look-up and copy need the endpoint's lock only.
//! Registering and closing a region visits every endpoint. After closing returns, no endpoint
//! touches the memory.
//!
//! In: regions from `mr`, endpoints from `endpoint`. Out: keys; counts of operations of peers. Lock
//! order: this one, then an endpoint's. Bound: [`REGIONS_MAX`] regions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::{Access, RegionError, RegionRequest, TargetCounters};

use crate::runtime::Runtime;
use crate::runtime::memory::Buffer;
use crate::sys::errno::Error;
use crate::sys::limits::REGIONS_MAX;
use crate::sys::memory::push;

/// A region as the application registered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    /// The memory.
    pub(crate) buffer: Buffer,
    /// The offset by which peers name its first byte.
    pub(crate) address: u64,
    /// The operations that peers may do.
    pub(crate) access: Access,
}

impl Registration {
    fn request(&self, key: u64) -> RegionRequest {
        let Self { buffer, address, access } = *self;
        RegionRequest { key: Some(key), address, len: buffer.len() as u64, access }
    }
}

#[derive(Debug)]
struct Entry {
    registration: Registration,
    /// Operations of peers through endpoints that are closed.
    served: TargetCounters,
}

#[derive(Debug, Default)]
struct State {
    regions: HashMap<u64, Entry>,
    endpoints: Vec<Arc<Runtime>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
}

impl Registry {
    /// Opens a region to peers of every endpoint; returns its key: the wanted one, or a random one.
    ///
    /// # Errors
    /// [`Error::NoKey`] if the key is in use; [`Error::NoMemory`] when there are [`REGIONS_MAX`];
    /// [`Error::Invalid`] if the range goes beyond the address space.
    pub(crate) fn insert(
        &self,
        wanted: Option<u64>,
        registration: Registration,
    ) -> Result<u64, Error> {
        let mut state = self.lock();
        state.regions.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let key = match wanted {
            Some(key) => key,
            None => state.random_key()?,
        };
        let len = registration.buffer.len() as u64;
        registration.address.checked_add(len).ok_or(Error::Invalid)?;
        if state.regions.contains_key(&key) {
            return Err(Error::NoKey);
        }
        if state.regions.len() >= REGIONS_MAX as usize {
            return Err(Error::NoMemory);
        }
        for (done, endpoint) in state.endpoints.iter().enumerate() {
            let request = registration.request(key);
            if let Err(error) = endpoint.register(key, &request, registration.buffer) {
                for before in state.endpoints.iter().take(done) {
                    before.deregister(key);
                }
                return Err(error);
            }
        }
        state.regions.insert(key, Entry { registration, served: TargetCounters::default() });
        Ok(key)
    }

    /// Closes a region; returns the operations of peers on it. After this returns, its memory is
    /// not touched any more.
    pub(crate) fn remove(&self, key: u64) -> TargetCounters {
        let mut state = self.lock();
        let before =
            state.regions.remove(&key).map_or_else(TargetCounters::default, |it| it.served);
        state.endpoints.iter().fold(before, |served, it| sum(served, it.deregister(key)))
    }

    /// The operations of peers on a region so far.
    pub(crate) fn served(&self, key: u64) -> TargetCounters {
        self.lock().served(key)
    }

    /// Opens all regions to peers of `endpoint`.
    ///
    /// # Errors
    /// [`Error::NoMemory`], also if the engine has no room for them.
    pub(crate) fn join(&self, endpoint: &Arc<Runtime>) -> Result<(), Error> {
        let mut state = self.lock();
        for (&key, Entry { registration, .. }) in &state.regions {
            endpoint.register(key, &registration.request(key), registration.buffer)?;
        }
        push(&mut state.endpoints, Arc::clone(endpoint))?;
        Ok(())
    }

    /// Undoes [`Self::join`].
    pub(crate) fn leave(&self, endpoint: &Arc<Runtime>) {
        let mut state = self.lock();
        let State { regions, endpoints } = &mut *state;
        endpoints.retain(|it| !Arc::ptr_eq(it, endpoint));
        for (&key, entry) in regions {
            entry.served = sum(entry.served, endpoint.deregister(key));
        }
    }

    /// Calls `each` with every enabled endpoint.
    ///
    /// # Errors
    /// The first error that `each` returns.
    pub(crate) fn visit(
        &self,
        each: impl FnMut(&Arc<Runtime>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.lock().endpoints.iter().try_for_each(each)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn served(&self, key: u64) -> TargetCounters {
        let before = self.regions.get(&key).map_or_else(TargetCounters::default, |it| it.served);
        self.endpoints.iter().fold(before, |served, it| sum(served, it.region_counters(key)))
    }

    /// An unpredictable key.
    fn random_key(&self) -> Result<u64, Error> {
        let key = getrandom::u64().map_err(|_| Error::Os(libc::EIO))?;
        // All ones is the result of fi_mr_key for a region without a key (fi_mr(3)).
        if key == u64::MAX || self.regions.contains_key(&key) { Err(Error::Again) } else { Ok(key) }
    }
}

const fn sum(a: TargetCounters, b: TargetCounters) -> TargetCounters {
    TargetCounters {
        writes: a.writes + b.writes,
        reads: a.reads + b.reads,
        updates: a.updates + b.updates,
    }
}

impl From<RegionError> for Error {
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::Full => Self::NoMemory,
            RegionError::KeyInUse => Self::NoKey,
            RegionError::Wraps => Self::Invalid,
        }
    }
}
