// SPDX-License-Identifier: MIT OR Apache-2.0
//! A domain's memory regions, and the endpoints that open them to peers.
//!
//! A region is the domain's (`fi_mr(3)`), a packet is an endpoint's. So each active endpoint has
//! all regions in its engine: what a packet asks for is looked up and copied under the endpoint's
//! lock alone. Registering and closing a region visits every endpoint; when closing returns, no
//! endpoint touches the memory any more.
//!
//! In: regions from `mr`, endpoints from `ep`. Locks: this one, then an endpoint's. Bounds: the
//! regions of an endpoint, [`REGIONS_MAX`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ofi_xdp_core::{Access, RegionError, RegionRequest, Served};

use crate::errno::Error;
use crate::memory::Buffer;
use crate::progress::ActiveEndpoint;

/// Most regions of a domain (`mr_cnt`).
pub(crate) const REGIONS_MAX: u32 = 32 << 10;

/// A region as the application registered it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration {
    /// The memory.
    pub(crate) buffer: Buffer,
    /// By which address peers call its first byte.
    pub(crate) address: u64,
    /// What peers may do.
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
    /// What peers did to it through endpoints that are closed.
    served: Served,
}

#[derive(Debug, Default)]
struct State {
    regions: HashMap<u64, Entry>,
    endpoints: Vec<Arc<ActiveEndpoint>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    state: Mutex<State>,
}

impl Registry {
    /// Opens a region to peers of every endpoint; returns its key: the one that is asked for, or a
    /// random one.
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
                return Err(error.into());
            }
        }
        state.regions.insert(key, Entry { registration, served: Served::default() });
        Ok(key)
    }

    /// Takes a region back. When this returns, nothing of its memory is touched any more. Returns
    /// what peers did to it.
    pub(crate) fn remove(&self, key: u64) -> Served {
        let mut state = self.lock();
        let before = state.regions.remove(&key).map_or_else(Served::default, |it| it.served);
        state.endpoints.iter().fold(before, |served, it| sum(served, it.deregister(key)))
    }

    /// What peers did to a region so far.
    pub(crate) fn served(&self, key: u64) -> Served {
        self.lock().served(key)
    }

    /// From now on the regions are open to peers of `endpoint`.
    ///
    /// # Errors
    /// [`Error::NoMemory`] if it has no room for them.
    pub(crate) fn join(&self, endpoint: &Arc<ActiveEndpoint>) -> Result<(), Error> {
        let mut state = self.lock();
        for (&key, Entry { registration, .. }) in &state.regions {
            endpoint.register(key, &registration.request(key), registration.buffer)?;
        }
        state.endpoints.push(Arc::clone(endpoint));
        Ok(())
    }

    /// The end of [`Self::join`].
    pub(crate) fn leave(&self, endpoint: &Arc<ActiveEndpoint>) {
        let mut state = self.lock();
        let State { regions, endpoints } = &mut *state;
        endpoints.retain(|it| !Arc::ptr_eq(it, endpoint));
        for (&key, entry) in regions {
            entry.served = sum(entry.served, endpoint.deregister(key));
        }
    }

    /// Calls `each` with the endpoints that peers reach the regions through.
    ///
    /// # Errors
    /// The first error that `each` returns.
    pub(crate) fn visit(
        &self,
        each: impl FnMut(&Arc<ActiveEndpoint>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.lock().endpoints.iter().try_for_each(each)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn served(&self, key: u64) -> Served {
        let before = self.regions.get(&key).map_or_else(Served::default, |it| it.served);
        self.endpoints.iter().fold(before, |served, it| sum(served, it.served(key)))
    }

    /// A key that nobody guesses.
    fn random_key(&self) -> Result<u64, Error> {
        let key = getrandom::u64().map_err(|_| Error::Os(libc::EIO))?;
        // All ones is what fi_mr_key says of a region without a key (fi_mr(3)).
        if key == u64::MAX || self.regions.contains_key(&key) { Err(Error::Again) } else { Ok(key) }
    }
}

const fn sum(a: Served, b: Served) -> Served {
    Served { writes: a.writes + b.writes, reads: a.reads + b.reads, updates: a.updates + b.updates }
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
