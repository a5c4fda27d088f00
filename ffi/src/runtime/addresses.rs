// SPDX-License-Identifier: MIT OR Apache-2.0
//! The addresses of an address vector: socket addresses by `fi_addr_t`, and back.
//!
//! In: insertions and removals by the application, and by other processes if the vector is named
//! (`shared`). Out: look-ups by endpoints. `fi_addr_t` is the index of an address: the first one
//! inserted is 0, the next 1, and so on. A free index is given out again, lowest first. An address
//! that is inserted again keeps its index until it was removed as often. Each endpoint keeps a copy
//! of its look-ups (`peers`); two counters tell it that the table has changed. The upper bits of a
//! `fi_addr_t` may name a receive context of a scalable endpoint (`fi_rx_addr`).
//!
//! Bound: `table::ADDRESSES_MAX` addresses.

mod shared;
mod table;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ofi_xdp_core::PeerAddress;

use crate::sys::abi::fi_addr_t;
use crate::sys::errno::Error;
use shared::SharedFile;
use table::Table;

/// Most bits of a `fi_addr_t` for receive contexts: as many indices of addresses are left as the
/// table has, and more.
pub(crate) const CONTEXT_BITS_MAX: u32 = 16;

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
    shared: Option<SharedFile>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct AddressTable {
    expected: usize,
    /// Bits of a `fi_addr_t` that name a receive context (`rx_ctx_bits`).
    context_bits: u32,
    state: RwLock<State>,
    changes: AtomicU64,
    removals: AtomicU64,
}

impl AddressTable {
    /// A table of this process; the application expects `expected` addresses, 0: no estimate.
    pub(crate) fn new(expected: usize) -> Self {
        Self { expected, ..Self::default() }
    }

    /// A table that processes share under `name`, within the domain named `domain`.
    ///
    /// # Errors
    /// [`Error::Os`] if the shared file cannot be opened.
    pub(crate) fn open_shared(
        domain: &str,
        name: &str,
        read_only: bool,
        expected: usize,
    ) -> Result<Self, Error> {
        let shared = Some(SharedFile::open(domain, name, read_only)?);
        let state = RwLock::new(State { table: Table::default(), shared });
        Ok(Self { expected, state, ..Self::default() })
    }

    /// The table with so many upper bits of a `fi_addr_t` for receive contexts: at most
    /// [`CONTEXT_BITS_MAX`].
    pub(crate) const fn with_context_bits(mut self, bits: u32) -> Self {
        self.context_bits = bits;
        self
    }

    /// The index of an address, and the receive context that `fi_rx_addr` has added to it.
    pub(crate) fn split(&self, address: fi_addr_t) -> (fi_addr_t, u16) {
        let context = address.checked_shr(fi_addr_t::BITS - self.context_bits).unwrap_or(0);
        (address & (fi_addr_t::MAX >> self.context_bits), context as u16)
    }

    /// The application's estimate of the number of addresses; 0: none.
    pub(crate) const fn expected(&self) -> usize {
        self.expected
    }

    /// Most addresses that the table can have.
    pub(crate) fn capacity(&self) -> usize {
        match self.read().shared {
            Some(_) => shared::ADDRESSES_MAX,
            None => table::ADDRESSES_MAX,
        }
    }

    /// The number of addresses that were added, and the index behind the last one in use or a
    /// later one.
    pub(crate) fn growth(&self) -> (u64, usize) {
        let state = self.read();
        (state.table.insertions(), state.table.indices())
    }

    /// Changes with every address that is added or removed.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Changes with every address that is removed.
    #[inline]
    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// The occupant of an index. Reads the changes of other processes if this process knows none.
    pub(crate) fn occupant(&self, index: fi_addr_t) -> Option<Occupant> {
        let found = self.known(index);
        found.or_else(|| if self.catch_up() { self.known(index) } else { None })
    }

    /// The occupant of an index, without the unread changes of other processes.
    pub(crate) fn known(&self, index: fi_addr_t) -> Option<Occupant> {
        let state = self.read();
        let entry = state.table.get(index)?;
        Some(Occupant { address: entry.address, occupancy: entry.occupancy })
    }

    /// The index of an address. Reads the changes of other processes if this process knows none.
    pub(crate) fn index_of(&self, address: &PeerAddress) -> Option<fi_addr_t> {
        let found = self.known_index(address);
        found.or_else(|| if self.catch_up() { self.known_index(address) } else { None })
    }

    /// The index of an address, without the unread changes of other processes.
    pub(crate) fn known_index(&self, address: &PeerAddress) -> Option<fi_addr_t> {
        self.read().table.find(address).map(fi_addr_t::from)
    }

    /// Inserts an address; returns its index.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when the table is full; [`Error::Os`] for a shared one that cannot be
    /// written.
    pub(crate) fn insert(&self, address: SocketAddr) -> Result<fi_addr_t, Error> {
        let peer = PeerAddress::from(address);
        let index = self.change(|State { table, shared }| match shared {
            Some(shared) => shared.insert(table, peer),
            None => table.insert(peer).ok_or(Error::NoMemory),
        })?;
        Ok(index.into())
    }

    /// Removes an address once, whichever receive context `address` names.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none; [`Error::Os`] for a shared table that cannot be
    /// written.
    pub(crate) fn remove(&self, address: fi_addr_t) -> Result<(), Error> {
        let (index, _) = self.split(address);
        self.change(|State { table, shared }| match shared {
            Some(shared) => shared.remove(table, index),
            None => table.remove(index).ok_or(Error::Invalid),
        })
    }

    /// The socket address, whichever receive context `address` names. Reads the changes of other
    /// processes first: the call is rare enough for that, and endpoints notice the changes
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is none.
    pub(crate) fn lookup(&self, address: fi_addr_t) -> Result<SocketAddr, Error> {
        let (index, _) = self.split(address);
        self.catch_up();
        self.known(index).map(|it| it.address.socket_addr()).ok_or(Error::Invalid)
    }

    /// Reads the changes of other processes; returns whether there were any.
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

    /// Changes the table, and the counters that endpoints compare. A change of a shared table also
    /// reads earlier changes of other processes, which count even if the own change fails.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.write();
        let result = change(&mut state);
        let (insertions, removals) = (state.table.insertions(), state.table.removals());
        self.removals.store(removals, Ordering::Release);
        self.changes.store(insertions.wrapping_add(removals), Ordering::Release);
        result
    }

    // A panic while the lock is held leaves no harmful state: the parts of the table are checked
    // against one another at each use.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}
