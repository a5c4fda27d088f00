// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address vector: socket addresses in, `fi_addr_t` out.
//!
//! `fi_addr_t` is the index of the address, for `FI_AV_TABLE` and `FI_AV_MAP` alike: the first one
//! inserted is 0, the next 1, and so on; an index that was freed is given out again, lowest first.
//! Inserting an address again gives its index again, and it stays until it was removed as often.
//! Endpoints share a vector; each keeps its own copy of what it has looked up here (`peers`), and
//! notices by two counters that the vector has changed. A vector with a name is shared with other
//! processes (`shared`).
//!
//! Insertion never waits, so with `FI_EVENT` it is done when the call returns too: its events are
//! in the event queue by then.
//!
//! Bounds: what the application inserts, `table::ADDRESSES_MAX` at most.

mod shared;
mod symmetric;
mod table;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ofi_xdp_core::PeerAddress;

use crate::abi::fi_addr_t;
use crate::domain::Domain;
use crate::eq::Eq;
use crate::errno::Error;
use crate::info::{Lookup, Request, resolve};
use crate::ops::{AvOps, Bound, FidOps};
use crate::sockaddr;
use shared::Shared;
use table::Table;

/// Fewest and most addresses that [`Av::addresses`] of a vector with a name lists.
const LISTED_MIN: usize = 1024;
const LISTED_MAX: usize = 1 << 20;

/// How a vector is to work.
#[derive(Clone, Debug, Default)]
pub(crate) struct AvAttributes {
    /// The application's guess of how many addresses there will be; 0: none.
    pub(crate) expected: usize,
    /// Insertions report to an event queue (`FI_EVENT`).
    pub(crate) events: bool,
    /// Shared under this name with other processes.
    pub(crate) name: Option<String>,
    /// Only what others insert is wanted (`FI_READ`).
    pub(crate) read_only: bool,
}

/// An address at an index, for as long as it stays there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Occupant {
    /// The address.
    pub(crate) address: PeerAddress,
    /// Tells it from earlier occupants of the index.
    pub(crate) occupancy: u32,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    shared: Option<Shared>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Av {
    domain: Arc<Domain>,
    expected: usize,
    /// Insertions report to an event queue.
    events: bool,
    queue: OnceLock<Arc<Eq>>,
    state: RwLock<State>,
    addresses: Box<[fi_addr_t]>,
    insertions: AtomicU64,
    removals: AtomicU64,
}

impl Av {
    /// `fi_av_open`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a vector without a name that is to be read only; [`Error::Os`] when a
    /// shared one cannot be opened.
    pub(crate) fn open(
        domain: &Arc<Domain>,
        attributes: &AvAttributes,
    ) -> Result<Arc<Self>, Error> {
        let AvAttributes { expected, events, ref name, read_only } = *attributes;
        let shared = match name {
            Some(name) => Some(Shared::open(&domain.ip().to_string(), name, read_only)?),
            None if read_only => return Err(Error::Invalid),
            None => None,
        };
        let listed = match &shared {
            Some(_) => expected.clamp(LISTED_MIN, LISTED_MAX) as fi_addr_t,
            None => 0,
        };
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            expected,
            events,
            addresses: (0..listed).collect(),
            queue: OnceLock::new(),
            state: RwLock::new(State { table: Table::default(), shared }),
            insertions: AtomicU64::new(0),
            removals: AtomicU64::new(0),
        }))
    }

    /// The application's guess of how many addresses there will be; 0: none.
    pub(crate) const fn expected(&self) -> usize {
        self.expected
    }

    /// Of a vector with a name, what its first insertions give: `fi_av_attr.map_addr` is where this
    /// is. The man page leaves open what is there; applications that share a vector take their
    /// peers' addresses from it, as from libfabric's sockets provider.
    pub(crate) const fn addresses(&self) -> &[fi_addr_t] {
        &self.addresses
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Changes with every address that is added.
    #[inline]
    pub(crate) fn insertions(&self) -> u64 {
        self.insertions.load(Ordering::Acquire)
    }

    /// Changes with every address that goes away.
    #[inline]
    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// What is at an index, with a look at what others have inserted if this process knows nothing
    /// there.
    pub(crate) fn occupant(&self, index: fi_addr_t) -> Option<Occupant> {
        let found = self.known(index);
        found.or_else(|| if self.catch_up() { self.known(index) } else { None })
    }

    /// What is at an index, as far as this process has looked.
    pub(crate) fn known(&self, index: fi_addr_t) -> Option<Occupant> {
        let state = self.read();
        let entry = state.table.get(index)?;
        Some(Occupant { address: entry.address, occupancy: entry.occupancy })
    }

    /// The index of an address.
    pub(crate) fn index_of(&self, address: &PeerAddress) -> Option<fi_addr_t> {
        let known = |state: &State| state.table.find(address).map(fi_addr_t::from);
        let found = known(&self.read());
        found.or_else(|| if self.catch_up() { known(&self.read()) } else { None })
    }

    /// Takes in what other processes have changed; whether there was anything.
    fn catch_up(&self) -> bool {
        if self.read().shared.is_none() {
            return false;
        }
        self.change(|State { table, shared }| {
            shared.as_mut().is_some_and(|shared| match shared.catch_up(table) {
                Ok(changed) => changed,
                Err(error) => {
                    log::warn!(target: "av", "cannot read the shared vector: {error}");
                    false
                }
            })
        })
    }

    /// Changes the table, and tells the endpoints whatever has changed: of a shared vector also
    /// what others did before, which counts even if the own change fails.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.write();
        let result = change(&mut state);
        self.insertions.store(state.table.insertions(), Ordering::Release);
        self.removals.store(state.table.removals(), Ordering::Release);
        result
    }

    // A panic while the lock is held cannot leave the table half changed in a way that matters: its
    // parts are checked against one another at each use.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FidOps for Av {
    fn bind(self: &Arc<Self>, other: Bound, flags: u64) -> Result<(), Error> {
        match other {
            Bound::Eq(queue) if Arc::ptr_eq(queue.fabric(), self.domain.fabric()) => {
                if flags != 0 {
                    return Err(Error::BadFlags);
                }
                self.queue.set(queue).map_err(|_| Error::Invalid)
            }
            _ => Err(Error::Invalid),
        }
    }
}

impl AvOps for Av {
    fn address_len(&self) -> usize {
        sockaddr::len_of(&self.domain.ip())
    }

    fn events(&self) -> Result<Option<&Arc<Eq>>, Error> {
        if !self.events {
            return Ok(None);
        }
        let own = self.queue.get().or_else(|| self.domain.events());
        let queue = own.ok_or(Error::NoEventQueue)?;
        queue.admit()?;
        Ok(Some(queue))
    }

    fn insert(&self, address: SocketAddr) -> Result<fi_addr_t, Error> {
        if address.is_ipv4() != self.domain.ip().is_ipv4() || address.port() == 0 {
            return Err(Error::Invalid);
        }
        let peer = PeerAddress::from(address);
        let index = self.change(|State { table, shared }| match shared {
            Some(shared) => shared.insert(table, peer),
            None => table.insert(peer).ok_or(Error::NoMemory),
        })?;
        Ok(index.into())
    }

    fn resolve(&self, node: Option<&str>, service: Option<&str>) -> Result<SocketAddr, Error> {
        let lookup = Lookup {
            node: node.map(str::to_owned),
            service: service.map(str::to_owned),
            ..Lookup::default()
        };
        let family =
            Request { addr_format: sockaddr::format_of(&self.domain.ip()), ..Request::default() };
        resolve(&lookup, Some(&family))
    }

    fn resolve_nth(
        &self,
        (node, n): (&str, usize),
        (service, m): (&str, usize),
    ) -> Result<SocketAddr, Error> {
        let node = symmetric::successor(node, n).ok_or(Error::Invalid)?;
        let service = symmetric::successor(service, m).ok_or(Error::Invalid)?;
        self.resolve(Some(&node), Some(&service))
    }

    fn remove(&self, address: fi_addr_t) -> Result<(), Error> {
        self.change(|State { table, shared }| match shared {
            Some(shared) => shared.remove(table, address),
            None => table.remove(address).ok_or(Error::Invalid),
        })
    }

    fn lookup(&self, address: fi_addr_t) -> Result<SocketAddr, Error> {
        // A call that is rare enough for a look at what others have changed; afterwards endpoints
        // know it, too.
        self.catch_up();
        self.known(address).map(|it| it.address.socket_addr()).ok_or(Error::Invalid)
    }
}
