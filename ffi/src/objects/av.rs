// SPDX-License-Identifier: MIT OR Apache-2.0
//! An address vector (`fi_av(3)`): the application's calls on a table of addresses.
//!
//! In: addresses, names and services. Out: `fi_addr_t`, which is the index of an address for
//! `FI_AV_TABLE` and `FI_AV_MAP` alike. Endpoints share a vector by its table
//! ([`AddressTable`]).
//!
//! Insertion never waits. With `FI_EVENT` it is therefore complete when the call returns, and its
//! events are in the event queue by then.
//!
//! Bound: the number of addresses in the table.

mod symmetric;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use crate::getinfo::{InfoRequest, Lookup, resolve};
use crate::objects::domain::Domain;
use crate::objects::eq::Eq;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::runtime::addresses::AddressTable;
use crate::sys::abi::fi_addr_t;
use crate::sys::errno::Error;
use crate::sys::sockaddr;

/// Fewest and most addresses that [`Av::first_addresses`] of a named vector lists.
const LISTED_MIN: usize = 1024;
const LISTED_MAX: usize = 1 << 20;

/// The attributes of a new vector.
#[derive(Clone, Debug, Default)]
pub(crate) struct AvAttributes {
    /// The application's estimate of the number of addresses; 0: none.
    pub(crate) expected: usize,
    /// Insertions report to an event queue (`FI_EVENT`).
    pub(crate) events: bool,
    /// The name under which processes share the vector.
    pub(crate) name: Option<String>,
    /// The application only reads insertions of other processes (`FI_READ`).
    pub(crate) read_only: bool,
    /// Bits of a `fi_addr_t` that name a receive context (`rx_ctx_bits`).
    pub(crate) context_bits: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Av {
    domain: Arc<Domain>,
    table: Arc<AddressTable>,
    /// Insertions report to an event queue.
    events: bool,
    queue: OnceLock<Arc<Eq>>,
    first_addresses: Box<[fi_addr_t]>,
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
        let AvAttributes { expected, events, ref name, read_only, context_bits } = *attributes;
        let (table, listed) = match name {
            Some(name) => {
                let domain = domain.ip().to_string();
                let table = AddressTable::open_shared(&domain, name, read_only, expected)?;
                (table, expected.clamp(LISTED_MIN, LISTED_MAX) as fi_addr_t)
            }
            None if read_only => return Err(Error::Invalid),
            None => (AddressTable::new(expected), 0),
        };
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            table: Arc::new(table.with_context_bits(context_bits)),
            events,
            queue: OnceLock::new(),
            first_addresses: (0..listed).collect(),
        }))
    }

    /// The table, which endpoints look addresses up in.
    pub(crate) const fn table(&self) -> &Arc<AddressTable> {
        &self.table
    }

    /// The results of the first insertions into a named vector: `fi_av_attr.map_addr` points here.
    /// The man page leaves the content open; applications that share a vector take their peers'
    /// addresses from it, as from libfabric's sockets provider.
    pub(crate) const fn first_addresses(&self) -> &[fi_addr_t] {
        &self.first_addresses
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    fn family(&self) -> IpAddr {
        self.domain.ip()
    }

    /// Length in bytes of an address in an array given to `fi_av_insert`.
    pub(crate) fn address_len(&self) -> usize {
        sockaddr::len_of(&self.family())
    }

    /// The event queue that insertions report to, if they are asynchronous.
    ///
    /// # Errors
    /// [`Error::Again`] if it is full; [`Error::NoEventQueue`] if none is bound.
    pub(crate) fn events(&self) -> Result<Option<&Arc<Eq>>, Error> {
        if !self.events {
            return Ok(None);
        }
        let own = self.queue.get().or_else(|| self.domain.events());
        let queue = own.ok_or(Error::NoEventQueue)?;
        queue.admit()?;
        Ok(Some(queue))
    }

    /// `fi_av_insert` of one address.
    ///
    /// # Errors
    /// [`Error::Invalid`] for another family or no port; as [`AddressTable::insert`].
    pub(crate) fn insert(&self, address: SocketAddr) -> Result<fi_addr_t, Error> {
        // An endpoint of IPv6 reaches no address of IPv4.
        let ip = address.ip().to_canonical();
        if ip.is_ipv4() != self.family().is_ipv4() || address.port() == 0 {
            return Err(Error::Invalid);
        }
        self.table.insert(address)
    }

    /// The address of a node and a service (`fi_av_insertsvc`).
    ///
    /// # Errors
    /// [`Error::NoData`] if they name none.
    pub(crate) fn resolve(
        &self,
        node: Option<&str>,
        service: Option<&str>,
    ) -> Result<SocketAddr, Error> {
        let lookup = Lookup {
            node: node.map(str::to_owned),
            service: service.map(str::to_owned),
            ..Lookup::default()
        };
        let addr_format = sockaddr::format_of(&self.family());
        let family = InfoRequest { addr_format, ..InfoRequest::default() };
        resolve(&lookup, Some(&family))
    }

    /// The address of the `n`-th node after `node` and the `m`-th service after `service`
    /// (`fi_av_insertsym`).
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such name; as [`Self::resolve`].
    pub(crate) fn resolve_nth(
        &self,
        (node, n): (&str, usize),
        (service, m): (&str, usize),
    ) -> Result<SocketAddr, Error> {
        let node = symmetric::successor(node, n).ok_or(Error::Invalid)?;
        let service = symmetric::successor(service, m).ok_or(Error::Invalid)?;
        self.resolve(Some(&node), Some(&service))
    }
}

impl ObjectOps for Av {
    fn bind(self: &Arc<Self>, target: &BindTarget, flags: u64) -> Result<(), Error> {
        match target.get::<Eq>() {
            Some(queue) if Arc::ptr_eq(queue.fabric(), self.domain.fabric()) => {
                if flags != 0 {
                    return Err(Error::BadFlags);
                }
                self.queue.set(queue).map_err(|_| Error::Invalid)
            }
            _ => Err(Error::Invalid),
        }
    }
}
