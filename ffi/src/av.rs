// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address vector: socket addresses in, `fi_addr_t` out.
//!
//! `fi_addr_t` is the index of the address, for `FI_AV_TABLE` and `FI_AV_MAP` alike: the first one
//! inserted is 0, the next 1, and so on. Inserting an address again gives its index again, and it
//! stays until it was removed as often. Endpoints share a vector; each keeps its own copy of what
//! it has looked up here (`peers`), and notices by two counters that the vector has changed.
//!
//! Bounds: what the application inserts.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ofi_xdp_core::PeerAddress;

use crate::abi::{bits, fi_addr_t};
use crate::domain::Domain;
use crate::errno::Error;
use crate::info::{Lookup, Request, resolve};
use crate::ops::{AvOps, FidOps};
use crate::sockaddr;

/// One index.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: SocketAddr,
    /// How often it was inserted and not removed; 0: the index is free.
    uses: u32,
    /// How many addresses this index has had.
    occupancy: u32,
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
struct Table {
    entries: Vec<Entry>,
    indices: HashMap<PeerAddress, usize>,
    free: Vec<usize>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Av {
    domain: Arc<Domain>,
    /// The application's guess of how many addresses there will be.
    expected: usize,
    table: RwLock<Table>,
    insertions: AtomicU64,
    removals: AtomicU64,
}

impl Av {
    /// `fi_av_open`.
    ///
    /// # Errors
    /// [`Error::NotSupported`] for asynchronous insertion (`FI_EVENT`).
    pub(crate) fn open(
        domain: &Arc<Domain>,
        expected: usize,
        flags: u64,
    ) -> Result<Arc<Self>, Error> {
        if flags & bits::EVENT != 0 {
            return Err(Error::NotSupported);
        }
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            expected,
            table: RwLock::default(),
            insertions: AtomicU64::new(0),
            removals: AtomicU64::new(0),
        }))
    }

    /// The application's guess of how many addresses there will be; 0: none.
    pub(crate) const fn expected(&self) -> usize {
        self.expected
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

    /// What is at an index.
    pub(crate) fn occupant(&self, index: fi_addr_t) -> Option<Occupant> {
        let index = usize::try_from(index).ok()?;
        let table = self.read();
        let entry = table.entries.get(index).filter(|entry| entry.uses > 0)?;
        Some(Occupant { address: entry.address.into(), occupancy: entry.occupancy })
    }

    /// The index of an address.
    pub(crate) fn index_of(&self, address: &PeerAddress) -> Option<fi_addr_t> {
        self.read().indices.get(address).map(|&index| index as fi_addr_t)
    }

    // A panic while the lock is held cannot leave the table half changed in a way that matters: its
    // parts are checked against one another at each use.
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FidOps for Av {}

impl AvOps for Av {
    fn address_len(&self) -> usize {
        sockaddr::len_of(&self.domain.ip())
    }

    fn insert(&self, address: SocketAddr) -> Result<fi_addr_t, Error> {
        if address.is_ipv4() != self.domain.ip().is_ipv4() || address.port() == 0 {
            return Err(Error::Invalid);
        }
        let peer = PeerAddress::from(address);
        let mut table = self.write();
        let table = &mut *table;
        if let Some(&index) = table.indices.get(&peer)
            && let Some(entry) = table.entries.get_mut(index)
        {
            entry.uses = entry.uses.saturating_add(1);
            return Ok(index as fi_addr_t);
        }
        let index = table.free.pop().unwrap_or(table.entries.len());
        match table.entries.get_mut(index) {
            Some(entry) => {
                let occupancy = entry.occupancy.wrapping_add(1);
                *entry = Entry { address, uses: 1, occupancy };
            }
            None => table.entries.push(Entry { address, uses: 1, occupancy: 0 }),
        }
        table.indices.insert(peer, index);
        self.insertions.fetch_add(1, Ordering::Release);
        Ok(index as fi_addr_t)
    }

    fn insert_service(
        &self,
        node: Option<&str>,
        service: Option<&str>,
    ) -> Result<fi_addr_t, Error> {
        let lookup = Lookup {
            node: node.map(str::to_owned),
            service: service.map(str::to_owned),
            ..Lookup::default()
        };
        let family =
            Request { addr_format: sockaddr::format_of(&self.domain.ip()), ..Request::default() };
        self.insert(resolve(&lookup, Some(&family))?)
    }

    fn remove(&self, address: fi_addr_t) -> Result<(), Error> {
        let index = usize::try_from(address).map_err(|_| Error::Invalid)?;
        let mut table = self.write();
        let table = &mut *table;
        let entry = table.entries.get_mut(index).filter(|entry| entry.uses > 0);
        let entry = entry.ok_or(Error::Invalid)?;
        entry.uses -= 1;
        if entry.uses == 0 {
            table.indices.remove(&entry.address.into());
            table.free.push(index);
            self.removals.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    fn lookup(&self, address: fi_addr_t) -> Result<SocketAddr, Error> {
        let index = usize::try_from(address).map_err(|_| Error::Invalid)?;
        let table = self.read();
        let entry = table.entries.get(index).filter(|entry| entry.uses > 0);
        entry.map(|entry| entry.address).ok_or(Error::Invalid)
    }
}
