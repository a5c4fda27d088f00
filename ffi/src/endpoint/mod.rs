// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint (`FI_EP_RDM`, `FI_EP_MSG`, `FI_EP_DGRAM`): opened, bound to its queues and its
//! vector, enabled, closed.
//!
//! ```text
//!            1. fi_endpoint            2. fi_ep_bind*, fi_enable          3. fi_close
//!   (none) ───────────────▶ opened ─────────────────────────▶ enabled ──────────────▶ (none)
//!                           port bound,                       engine runs
//!                           name known
//! ```
//!
//! 1. [`Endpoint::open`] binds the port, so that `fi_getname` has an answer. 2. [`ObjectOps::bind`]
//!    records the bound objects (`bind`); [`ObjectOps::enable`] allocates the runtime and starts
//!    its engine (`enable`). 3. [`ObjectOps::close`] waits for acknowledgements and sends close
//!    notifications.
//!
//! In: calls of `fi_endpoint(3)`. Out: a [`Runtime`], to the bound objects. The data calls are in
//! `transfer`. Bound: one runtime each.

mod bind;
mod capacities;
pub(crate) mod connection;
mod context_place;
mod enable;
mod flags;
pub(crate) mod multicast;
mod options;
pub(crate) mod passive;
mod receives;
pub(crate) mod scalable;
pub(crate) mod shared_rx;
pub(crate) mod shared_tx;
#[cfg(test)]
mod tests;
mod transfer;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ofi_xdp_core::{CompletionGroup, Order, PeerId};
use ofi_xdp_datapath::{ChooseError, HybridPort, Mode, OpenError, PortConfig, Tier};

use crate::endpoint::shared_rx::SharedRx;
use crate::getinfo::hints;
use crate::getinfo::{Info, InfoRequest, RX_OP_FLAGS, SIZE_DEFAULT, TX_OP_FLAGS};
use crate::objects::connection_manager::ConnectionRequest;
use crate::objects::domain::Domain;
use crate::objects::eq::Eq;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::runtime::memory::{INJECT_LEAST, inject_max};
use crate::runtime::{CompletionPolicy, OpFlags, Runtime, Side};
use crate::sys::abi::{self, SHARED_CONTEXT, bits};
use crate::sys::errno::Error;
use crate::sys::personality::{self, Personality};
use crate::sys::{notice, param};

use bind::{Bindings, NeededQueues};
use connection::{EndpointConnection, EventOrigin};
use context_place::ContextPlace;
use passive::PassiveEndpoint;
use receives::MIN_MULTI_RECV;
pub(crate) use receives::Receives;

/// Capacity of the peer table, unless the address vector was opened for more.
const PEERS: u32 = 16 << 10;

/// The state of an enabled endpoint that data calls need.
#[derive(Debug)]
pub(crate) struct Enabled {
    /// The runtime: engine, port, memory.
    pub(crate) runtime: Arc<Runtime>,
    /// The endpoints of the runtime that have the same queues.
    group: CompletionGroup,
    transmits: CompletionPolicy,
    receives: CompletionPolicy,
    shared_rx: Option<Arc<SharedRx>>,
    /// The address of the port.
    address: SocketAddr,
    /// The peer of a connected endpoint.
    pub(super) peer: Option<PeerId>,
}

/// The object that an endpoint is opened from (`fi_info->handle`).
#[derive(Clone, Debug)]
pub(crate) enum Handle {
    /// Nothing else.
    None,
    /// A passive endpoint. The new one takes its address.
    Passive(Arc<PassiveEndpoint>),
    /// A connection request, to accept it.
    Request(Arc<ConnectionRequest>),
}

/// The parts of a new endpoint that its kind decides.
struct Opening {
    local: SocketAddr,
    port: Option<Box<HybridPort>>,
    connection: Option<Arc<EndpointConnection>>,
    carries_datagrams: bool,
    place: Option<ContextPlace>,
    caps: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Endpoint {
    domain: Arc<Domain>,
    /// The address of the port, or that of a port that is opened later; port 0: any.
    local: SocketAddr,
    /// The connection of a connected endpoint (`FI_EP_MSG`).
    connection: Option<Arc<EndpointConnection>>,
    /// `FI_EP_DGRAM`.
    carries_datagrams: bool,
    /// The endpoint is a context of a scalable endpoint.
    place: Option<ContextPlace>,
    caps: u64,
    sends: u32,
    recvs: u32,
    inject_size: usize,
    order: Order,
    /// `FI_SHARED_CONTEXT` was asked for.
    shares_rx: bool,
    shares_tx: bool,
    /// The attributes that a shared transmit context must admit.
    tx: Option<abi::fi_tx_attr>,
    tx_op_flags: AtomicU64,
    rx_op_flags: AtomicU64,
    min_multi_recv: AtomicUsize,
    bindings: Mutex<Bindings>,
    enabled: OnceLock<Enabled>,
    /// The endpoint behind an alias (`fi_ep_alias`): it has the bindings and the runtime.
    original: Option<Arc<Self>>,
}

impl Endpoint {
    /// `fi_endpoint`, with attributes from `fi_getinfo` or from a connection request.
    ///
    /// # Errors
    /// [`Error::Invalid`] for attributes that this domain does not offer. [`Error::Os`] if the
    /// address cannot be bound: in use, not of the domain's interface, no such interface.
    pub(crate) fn open(
        domain: &Arc<Domain>,
        request: &InfoRequest,
        handle: Handle,
    ) -> Result<Arc<Self>, Error> {
        let ep_type = request.ep.map_or(abi::FI_EP_RDM, |ep| ep.type_);
        let (is_msg, carries_datagrams) = (ep_type == abi::FI_EP_MSG, ep_type == abi::FI_EP_DGRAM);
        let offer = if carries_datagrams {
            Info::offer_of(ep_type, &domain.interface_now(), request.caps)
        } else {
            Info::offer_of(ep_type, domain.interface(), request.caps)
        };
        let mut wanted = request.clone();
        if matches!(handle, Handle::Request(_)) {
            // A passive endpoint may listen on more interfaces than that of the domain.
            (wanted.fabric_name, wanted.domain_name) = (None, None);
        }
        check_offered(&wanted, &offer)?;
        if request.has_several_contexts() {
            log::warn!(target: "ep_ctrl", "several contexts are those of fi_scalable_ep");
            return Err(Error::Invalid);
        }
        if !is_msg && !matches!(handle, Handle::None) {
            return Err(Error::Invalid);
        }
        let open = |source, incoming| Self::open_at(domain, request, &offer, (source, incoming));
        match handle {
            Handle::None => open(request.source, None),
            Handle::Passive(passive) => passive.give_name(|name| open(Some(name), None)),
            Handle::Request(incoming) => {
                let local = incoming.local().ip();
                let ip = if domain.has_address(local) { local } else { domain.ip() };
                open(Some(SocketAddr::new(ip, 0)), Some(incoming))
            }
        }
    }

    /// An endpoint at a source address, any without one, or for an incoming request. `request` is
    /// within `offer`.
    fn open_at(
        domain: &Arc<Domain>,
        request: &InfoRequest,
        offer: &Info,
        (source, incoming): (Option<SocketAddr>, Option<Arc<ConnectionRequest>>),
    ) -> Result<Arc<Self>, Error> {
        let is_msg = offer.ep.type_ == abi::FI_EP_MSG;
        let carries_datagrams = offer.ep.type_ == abi::FI_EP_DGRAM;
        let local = local_address(domain, source)?;
        // Connected endpoints share ports, where the application has not chosen one.
        let port = if is_msg && local.port() == 0 {
            if !domain.has_address(local.ip()) {
                return Err(Error::Os(libc::EADDRNOTAVAIL));
            }
            None
        } else {
            Some(open_port(domain, local, carries_datagrams)?)
        };
        let opening = Opening {
            local: port.as_ref().map_or(local, |port| port.local_addr()),
            port,
            connection: is_msg.then(|| EndpointConnection::new(incoming)),
            carries_datagrams,
            place: None,
            caps: if request.caps == 0 { offer.caps & !bits::SOURCE_ERR } else { request.caps },
        };
        Self::assemble(domain, request, opening)
    }

    /// An endpoint of these parts, with the attributes of `request`.
    fn assemble(
        domain: &Arc<Domain>,
        request: &InfoRequest,
        parts: Opening,
    ) -> Result<Arc<Self>, Error> {
        let Opening { local, port, connection, carries_datagrams, place, caps } = parts;
        let size = |size: Option<usize>| {
            let size = size.filter(|&size| size > 0).unwrap_or(SIZE_DEFAULT);
            u32::try_from(size).map_err(|_| Error::Invalid)
        };
        let (tx, rx) = (request.tx.as_ref(), request.rx.as_ref());
        let sends = size(tx.map(|tx| tx.size))?;
        let inject_most =
            if connection.is_some() { INJECT_LEAST } else { inject_max(sends as usize) };
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            local,
            connection,
            carries_datagrams,
            place,
            caps,
            sends,
            recvs: size(rx.map(|rx| rx.size))?,
            order: order(tx, rx),
            shares_rx: request.ep.is_some_and(|ep| ep.rx_ctx_cnt == SHARED_CONTEXT),
            shares_tx: request.ep.is_some_and(|ep| ep.tx_ctx_cnt == SHARED_CONTEXT),
            tx: request.tx,
            inject_size: tx.map_or(inject_most, |tx| tx.inject_size.min(inject_most)),
            tx_op_flags: AtomicU64::new(tx.map_or(0, |tx| tx.op_flags)),
            rx_op_flags: AtomicU64::new(rx.map_or(0, |rx| rx.op_flags)),
            min_multi_recv: AtomicUsize::new(MIN_MULTI_RECV),
            bindings: Mutex::new(Bindings { port, ..Bindings::default() }),
            enabled: OnceLock::new(),
            original: None,
        }))
    }

    /// The state after `fi_enable`.
    ///
    /// # Errors
    /// [`Error::BadState`] before `fi_enable`.
    #[inline]
    pub(crate) fn enabled(&self) -> Result<&Enabled, Error> {
        match &self.original {
            None => self.enabled.get().ok_or(Error::BadState),
            Some(original) => original.enabled.get().ok_or(Error::BadState),
        }
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The direction of a context of a scalable endpoint.
    pub(crate) fn context_side(&self) -> Option<Side> {
        self.place.as_ref().map(|place| place.side)
    }

    /// The connection of a connected endpoint.
    ///
    /// # Errors
    /// [`Error::NotSupported`] on an endpoint of another type.
    pub(crate) fn connection(&self) -> Result<&Arc<EndpointConnection>, Error> {
        self.connection.as_ref().ok_or(Error::NotSupported)
    }

    /// `fi_connect`; enables the endpoint.
    ///
    /// # Errors
    /// [`Error::NotSupported`]; [`Error::BadState`] if it was opened for a request;
    /// [`Error::NoEventQueue`]; as [`ObjectOps::enable`] and [`EndpointConnection::connect`].
    pub(crate) fn connect(
        self: &Arc<Self>,
        origin: EventOrigin,
        to: SocketAddr,
        data: &[u8],
    ) -> Result<(), Error> {
        let connection = self.connection()?;
        if connection.listener().is_some() {
            return Err(Error::BadState);
        }
        // An IPv4 address in IPv6 form is of neither family.
        let is_ipv4 = self.local.is_ipv4();
        let fits = to.is_ipv4() == is_ipv4 && to.ip().to_canonical().is_ipv4() == is_ipv4;
        if !fits || to.port() == 0 {
            return Err(Error::Invalid);
        }
        let events = self.ready_to_connect()?;
        let local = self.enabled()?.address;
        let socket = self.domain.fabric().connection_manager()?.active(local.ip())?;
        connection.connect((origin, events), &socket, (to, local), data)
    }

    /// `fi_accept`; enables the endpoint.
    ///
    /// # Errors
    /// [`Error::NotSupported`]; [`Error::Invalid`] if it was opened for no request;
    /// [`Error::NoEventQueue`]; as [`ObjectOps::enable`] and [`EndpointConnection::accept`].
    pub(crate) fn accept(self: &Arc<Self>, origin: EventOrigin, data: &[u8]) -> Result<(), Error> {
        let connection = self.connection()?;
        if connection.listener().is_none() {
            return Err(Error::Invalid);
        }
        let events = self.ready_to_connect()?;
        connection.accept((origin, events), self.enabled()?.address, data)
    }

    /// `fi_shutdown`.
    ///
    /// # Errors
    /// [`Error::NotSupported`]; as [`EndpointConnection::shutdown`].
    pub(crate) fn shutdown(&self) -> Result<(), Error> {
        self.connection()?.shutdown()
    }

    /// Enables the endpoint, if that was not done; its event queue.
    fn ready_to_connect(self: &Arc<Self>) -> Result<Arc<Eq>, Error> {
        let original = self.original.as_ref().unwrap_or(self);
        let events = original.bindings().eq.clone().ok_or(Error::NoEventQueue)?;
        if original.enabled.get().is_none() {
            original.enable_with(NeededQueues::AsBound)?;
        }
        Ok(events)
    }

    /// Enables the endpoint, once.
    fn enable_with(&self, queues: NeededQueues) -> Result<(), Error> {
        let mut bindings = self.bindings();
        if self.enabled.get().is_some() {
            return Err(Error::BadState);
        }
        self.start(&mut bindings, queues)
    }

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks attributes that the application returns.
///
/// # Errors
/// [`Error::Invalid`] for attributes that are not what was offered.
fn check_offered(request: &InfoRequest, offer: &Info) -> Result<(), Error> {
    hints::check(request, offer).map_err(|attribute| {
        log::warn!(target: "ep_ctrl", "{attribute} is not what was offered");
        Error::Invalid
    })
}

/// The promised orders (`msg_order`), for the engine. libfabric has three sets of bits: for reads
/// and writes of any kind, of RMA, and of atomics. The engine treats them alike.
fn order(tx: Option<&abi::fi_tx_attr>, rx: Option<&abi::fi_rx_attr>) -> Order {
    let promised = tx.map_or(0, |tx| tx.msg_order) | rx.map_or(0, |rx| rx.msg_order);
    let sets = [
        (Order::RAR, bits::ORDER_RAR | bits::ORDER_RMA_RAR | bits::ORDER_ATOMIC_RAR),
        (Order::RAW, bits::ORDER_RAW | bits::ORDER_RMA_RAW | bits::ORDER_ATOMIC_RAW),
        (Order::RAS, bits::ORDER_RAS),
        (Order::WAR, bits::ORDER_WAR | bits::ORDER_RMA_WAR | bits::ORDER_ATOMIC_WAR),
        (Order::WAW, bits::ORDER_WAW | bits::ORDER_RMA_WAW | bits::ORDER_ATOMIC_WAW),
        (Order::WAS, bits::ORDER_WAS),
        (Order::SAR, bits::ORDER_SAR),
        (Order::SAW, bits::ORDER_SAW),
    ];
    sets.into_iter().filter(|(_, bits)| promised & bits != 0).map(|(order, _)| order).collect()
}

/// The address of a new endpoint: its source address, which must belong to the domain's interface,
/// or the domain's address.
fn local_address(domain: &Domain, source: Option<SocketAddr>) -> Result<SocketAddr, Error> {
    let port = source.map_or(0, |source| source.port());
    let ip = source.map(|source| source.ip().to_canonical()).filter(|ip| !ip.is_unspecified());
    let ip = ip.unwrap_or_else(|| domain.ip());
    if ip.is_ipv4() != domain.ip().is_ipv4() {
        log::warn!(target: "ep_ctrl", "src_addr {ip} is not of the domain's address family");
        return Err(Error::Os(libc::EADDRNOTAVAIL));
    }
    Ok(SocketAddr::new(ip, port))
}

/// Opens the port of a new endpoint, and warns if it is not of the best tier.
pub(super) fn open_port(
    domain: &Domain,
    address: SocketAddr,
    datagrams: bool,
) -> Result<Box<HybridPort>, Error> {
    let values = param::values()?;
    let mut config = PortConfig::new(address, PEERS);
    config.interface = Some(domain.interface().nic.name.clone());
    config.mode = values.mode;
    config.queue = values.queue;
    config.queues = values.queues;
    config.steer = values.steer;
    config.any_payload = datagrams;
    config.entropy = values.entropy;
    config.coverage = values.coverage;
    config.broker.clone_from(&values.broker);
    let port = HybridPort::open(&config).map_err(|error| {
        log::warn!(target: "ep_ctrl", "cannot open an endpoint on {}: {error}", config.bind);
        let errno = match &error {
            OpenError::Bind { source, .. } | OpenError::Netlink(source) => source.raw_os_error(),
            OpenError::Choose(ChooseError::WrongInterface { .. }) => Some(libc::EADDRNOTAVAIL),
            OpenError::Choose(_) => Some(libc::ENODEV),
        };
        Error::Os(errno.unwrap_or(libc::EIO))
    })?;
    let status = port.status();
    if status.tier == Tier::Udp && values.mode != Mode::Udp && !domain.interface().nic.loopback {
        notice::lower_tier(values.names_af_xdp().as_deref(), &status.to_string());
    }
    if personality::current() == Personality::Tcp {
        log::info!(target: "ep_ctrl", "an endpoint of `tcp` that speaks xdp: {status}");
    }
    Ok(Box::new(port))
}

impl ObjectOps for Endpoint {
    fn bind(self: &Arc<Self>, target: &BindTarget, flags: u64) -> Result<(), Error> {
        if self.original.is_some() {
            return Err(Error::Invalid);
        }
        if let Some(place) = &self.place {
            place.check_bind(target, flags)?;
        }
        let mut bindings = self.bindings();
        match self.enabled.get() {
            None => bindings.bind(&self.domain, self.tx.as_ref(), target, flags),
            Some(enabled) => self.bind_late(&mut bindings, enabled, target, flags),
        }
    }

    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        if let Some(original) = &self.original {
            return original.enable();
        }
        self.enable_with(NeededQueues::Required)
    }

    /// Triggered operations that have not started end with the endpoint (`fi_endpoint(3)`,
    /// `fi_close`).
    fn is_unreferenced(self: &Arc<Self>) -> bool {
        self.domain.work().drop_calls(self)
    }

    fn close(&self) -> Result<(), Error> {
        if let (Some(connection), None) = (&self.connection, &self.original) {
            connection.close();
        }
        if let Some(enabled) = self.enabled.get() {
            self.stop(&self.bindings(), enabled);
        }
        Ok(())
    }

    fn alias(self: &Arc<Self>, side: Side, flags: u64) -> Result<Arc<Self>, Error> {
        let original = self.original.as_ref().unwrap_or(self);
        let copied = |flags: &AtomicU64| AtomicU64::new(flags.load(Ordering::Relaxed));
        let alias = Arc::new(Self {
            domain: Arc::clone(&self.domain),
            connection: self.connection.clone(),
            place: self.place.clone(),
            tx_op_flags: copied(&self.tx_op_flags),
            rx_op_flags: copied(&self.rx_op_flags),
            min_multi_recv: AtomicUsize::new(self.min_multi_recv.load(Ordering::Relaxed)),
            bindings: Mutex::default(),
            enabled: OnceLock::new(),
            original: Some(Arc::clone(original)),
            ..**self
        });
        alias.set_op_flags(side, flags)?;
        Ok(alias)
    }

    fn op_flags(&self, side: Side) -> Result<u64, Error> {
        Ok(self.flags(side, OpFlags::Default))
    }

    fn set_op_flags(&self, side: Side, flags: u64) -> Result<(), Error> {
        let (known, to) = match side {
            Side::Transmit => (TX_OP_FLAGS, &self.tx_op_flags),
            Side::Receive => (RX_OP_FLAGS, &self.rx_op_flags),
        };
        if flags & !(known | (self.caps & (bits::TRIGGER | bits::MULTICAST))) != 0 {
            return Err(Error::BadFlags);
        }
        to.store(flags, Ordering::Relaxed);
        Ok(())
    }
}
