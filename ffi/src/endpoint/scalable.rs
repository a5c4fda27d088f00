// SPDX-License-Identifier: MIT OR Apache-2.0
//! A scalable endpoint (`fi_endpoint(3)`, "Scalable endpoints"): one address, several transmit and
//! receive contexts.
//!
//! A context is an [`Endpoint`] of one direction: it has a port, a runtime and a lock of its own,
//! so threads with different contexts never wait for each other, and contexts close in any order.
//! Receive context 0 has the port of the address, and receive context *i* the *i*-th port behind
//! it. A peer finds a named context by that (`fi_rx_addr`). A transmit context has any port.
//!
//! In: calls of `fi_endpoint(3)`. Out: the contexts. Bound: [`CONTEXTS_MAX`] contexts of a side;
//! [`PORT_ATTEMPTS`] searches for neighbouring ports.

use std::ffi::c_int;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use ofi_xdp_datapath::fork::Uninherited;

use super::context_place::{ContextPlace, RECEIVE_ONLY, TRANSMIT_ONLY};
use super::{Endpoint, Opening, check_offered, local_address, open_port};
use crate::getinfo::{Info, InfoRequest, hints};
use crate::objects::av::Av;
use crate::objects::domain::Domain;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::runtime::Side;
use crate::sys::abi::{self, SHARED_CONTEXT};
use crate::sys::errno::Error;
use crate::sys::limits::CONTEXTS_MAX;

const IN_USE: Error = Error::Os(libc::EADDRINUSE);
/// Searches for neighbouring ports, where the application has not chosen the first.
const PORT_ATTEMPTS: usize = 32;

/// A port that is held for a context.
#[derive(Debug)]
struct ReservedPort {
    /// Dropped before the socket. The child of a fork does not keep the port.
    _uninherited: Uninherited,
    socket: UdpSocket,
}

/// A context that may be opened.
#[derive(Debug, Default)]
struct ContextSlot {
    /// Holds its port until it is opened for the first time.
    reserved: Option<ReservedPort>,
    opened: Weak<Endpoint>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ScalableEndpoint {
    domain: Arc<Domain>,
    /// The address: that of receive context 0.
    name: SocketAddr,
    caps: u64,
    tx: abi::fi_tx_attr,
    rx: abi::fi_rx_attr,
    vector: Arc<OnceLock<Arc<Av>>>,
    transmits: Mutex<Vec<ContextSlot>>,
    receives: Mutex<Vec<ContextSlot>>,
}

impl ScalableEndpoint {
    /// `fi_scalable_ep`, with attributes from `fi_getinfo`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for attributes that this domain does not offer, another type than
    /// `FI_EP_RDM`, and shared contexts. [`Error::Os`] if the ports cannot be bound.
    pub(crate) fn open(domain: &Arc<Domain>, request: &InfoRequest) -> Result<Arc<Self>, Error> {
        let offer = Info::offer_of(abi::FI_EP_RDM, domain.interface(), request.caps);
        check_offered(request, &offer)?;
        let counts = request.ep.map_or((0, 0), |ep| (ep.tx_ctx_cnt, ep.rx_ctx_cnt));
        if [counts.0, counts.1].contains(&SHARED_CONTEXT) {
            return Err(Error::Invalid);
        }
        let mut shaped = offer;
        hints::shape(Some(request), &mut shaped);
        let ports = neighbours(local_address(domain, request.source)?, counts.1.max(1))?;
        let name = address(ports.first().ok_or(Error::Invalid)?)?;
        let of_port = |port| ContextSlot { reserved: Some(port), opened: Weak::new() };
        let transmits = (0..counts.0.max(1)).map(|_| ContextSlot::default()).collect();
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            name,
            caps: shaped.caps,
            tx: shaped.tx,
            rx: shaped.rx,
            vector: Arc::default(),
            transmits: Mutex::new(transmits),
            receives: Mutex::new(ports.into_iter().map(of_port).collect()),
        }))
    }

    /// `fi_getname`.
    pub(crate) const fn name(&self) -> SocketAddr {
        self.name
    }

    /// `fi_tx_context`. The attributes, zero for those of the endpoint, become those of the
    /// context.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an index that the endpoint does not have, and for attributes beyond
    /// the endpoint's. [`Error::Busy`] while the context is open. [`Error::Os`] without a port.
    pub(crate) fn tx_context(
        self: &Arc<Self>,
        index: c_int,
        attributes: Option<&mut abi::fi_tx_attr>,
    ) -> Result<Arc<Endpoint>, Error> {
        let mut tx = self.tx;
        if let Some(given) = attributes {
            hints::check_tx(given, self.caps, &self.tx).map_err(not_offered)?;
            hints::narrow_tx(&mut tx, given);
            *given = tx;
        }
        let caps = self.caps & tx.caps & !RECEIVE_ONLY;
        self.open_context(Side::Transmit, index, (caps, tx, self.rx))
    }

    /// `fi_rx_context`, as [`Self::tx_context`].
    ///
    /// # Errors
    /// As [`Self::tx_context`].
    pub(crate) fn rx_context(
        self: &Arc<Self>,
        index: c_int,
        attributes: Option<&mut abi::fi_rx_attr>,
    ) -> Result<Arc<Endpoint>, Error> {
        let mut rx = self.rx;
        if let Some(given) = attributes {
            hints::check_rx(given, self.caps, &self.rx).map_err(not_offered)?;
            hints::narrow_rx(&mut rx, given);
            *given = rx;
        }
        let caps = self.caps & rx.caps & !TRANSMIT_ONLY;
        self.open_context(Side::Receive, index, (caps, self.tx, rx))
    }

    fn open_context(
        self: &Arc<Self>,
        side: Side,
        index: c_int,
        (caps, tx, rx): (u64, abi::fi_tx_attr, abi::fi_rx_attr),
    ) -> Result<Arc<Endpoint>, Error> {
        let index = usize::try_from(index).map_err(|_| Error::Invalid)?;
        let mut slots = self.slots(side);
        let slot = slots.get_mut(index).ok_or(Error::Invalid)?;
        if slot.opened.strong_count() > 0 {
            return Err(Error::Busy);
        }
        let local = self.address_of(side, index);
        drop(slot.reserved.take());
        // A call that fails gives the port to no other program.
        let opened = self.open_at(side, local, (caps, tx, rx)).inspect_err(|_| {
            slot.reserved = (local.port() != 0).then(|| reserve(local).ok()).flatten();
        })?;
        slot.opened = Arc::downgrade(&opened);
        Ok(opened)
    }

    /// Opens a context at `local`.
    fn open_at(
        self: &Arc<Self>,
        side: Side,
        local: SocketAddr,
        (caps, tx, rx): (u64, abi::fi_tx_attr, abi::fi_rx_attr),
    ) -> Result<Arc<Endpoint>, Error> {
        let port = open_port(&self.domain, local, false)?;
        let vector = Arc::clone(&self.vector);
        let place = ContextPlace { _of: Arc::clone(self) as _, name: self.name, vector, side };
        let request = InfoRequest { caps, tx: Some(tx), rx: Some(rx), ..InfoRequest::default() };
        let opening = Opening {
            local: port.local_addr(),
            port: Some(port),
            connection: None,
            carries_datagrams: false,
            place: Some(place),
            caps,
        };
        Endpoint::assemble(&self.domain, &request, opening)
    }

    /// The address of a context; a transmit context has any port.
    fn address_of(&self, side: Side, index: usize) -> SocketAddr {
        let port = match side {
            Side::Transmit => 0,
            Side::Receive => neighbour(self.name, index).map_or(0, |address| address.port()),
        };
        SocketAddr::new(self.name.ip(), port)
    }

    fn slots(&self, side: Side) -> MutexGuard<'_, Vec<ContextSlot>> {
        let slots = match side {
            Side::Transmit => &self.transmits,
            Side::Receive => &self.receives,
        };
        slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectOps for ScalableEndpoint {
    /// `fi_scalable_ep_bind`.
    fn bind(self: &Arc<Self>, target: &BindTarget, _flags: u64) -> Result<(), Error> {
        match target.get::<Av>() {
            Some(av) if Arc::ptr_eq(av.domain(), &self.domain) => {
                self.vector.set(av).map_err(|_| Error::Invalid)
            }
            _ => Err(Error::Invalid),
        }
    }

    /// Contexts are enabled one by one.
    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        if self.vector.get().is_some() { Ok(()) } else { Err(Error::NoAddressVector) }
    }
}

fn not_offered(attribute: &'static str) -> Error {
    log::warn!(target: "ep_ctrl", "{attribute} of a context is beyond that of its endpoint");
    Error::Invalid
}

/// The address of the receive context `index` of a scalable endpoint.
fn neighbour(name: SocketAddr, index: usize) -> Option<SocketAddr> {
    let port = u16::try_from(index).ok().and_then(|index| name.port().checked_add(index))?;
    Some(SocketAddr::new(name.ip(), port))
}

/// Reserves the ports of `count` receive contexts, with kernel sockets. AF_XDP sockets take long to
/// open, so a context opens its own.
fn neighbours(local: SocketAddr, count: usize) -> Result<Vec<ReservedPort>, Error> {
    if count > CONTEXTS_MAX {
        return Err(Error::Invalid);
    }
    for _ in 0..PORT_ATTEMPTS {
        match reserve_neighbours(local, count) {
            Err(IN_USE) if local.port() == 0 => {}
            reserved => return reserved,
        }
    }
    Err(IN_USE)
}

fn reserve_neighbours(local: SocketAddr, count: usize) -> Result<Vec<ReservedPort>, Error> {
    let first = reserve(local)?;
    let name = address(&first)?;
    let mut ports = vec![first];
    for index in 1..count {
        ports.push(reserve(neighbour(name, index).ok_or(IN_USE)?)?);
    }
    Ok(ports)
}

fn reserve(local: SocketAddr) -> Result<ReservedPort, Error> {
    let socket = UdpSocket::bind(local).map_err(|error| os_error(&error))?;
    Ok(ReservedPort { _uninherited: Uninherited::new(&socket), socket })
}

fn address(reserved: &ReservedPort) -> Result<SocketAddr, Error> {
    reserved.socket.local_addr().map_err(|error| os_error(&error))
}

fn os_error(error: &std::io::Error) -> Error {
    Error::Os(error.raw_os_error().unwrap_or(libc::EIO))
}
