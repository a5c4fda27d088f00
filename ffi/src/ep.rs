// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint (`FI_EP_RDM`): opened, bound to its queues and its vector, enabled, closed.
//!
//! ```text
//!            1. fi_endpoint            2. fi_ep_bind*, fi_enable          3. fi_close
//!   (none) ───────────────▶ opened ─────────────────────────▶ active ───────────────▶ (none)
//!                           port bound,                       engine runs
//!                           name known
//! ```
//!
//! 1. [`Endpoint::open`] binds the port, so that `fi_getname` has an answer. 2. [`FidOps::bind`]
//!    notes what is bound (`bound`); [`FidOps::enable`] allocates everything and starts the
//!    engine (`enable`). 3. [`FidOps::close`] settles and says farewell. The data calls are in
//!    `msg`, `tagged`, `rma` and `atomic`; what they move is in `progress`.

mod bound;
mod calls;
mod enable;
mod reports;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ofi_xdp_core::Order;
use ofi_xdp_datapath::{ChooseError, HybridPort, Mode, OpenError, PortConfig, Tier};

use crate::abi::{self, SHARED_CONTEXT, bits};
use crate::domain::Domain;
use crate::errno::Error;
use crate::info::{Info, RX_OP_FLAGS, Request, SIZE_DEFAULT, TX_OP_FLAGS};
use crate::memory::INJECT_MAX;
use crate::ops::{Bound, FidOps, OpFlags, Side};
use crate::progress::ActiveEndpoint;
use crate::srx::SharedRx;
use crate::work::Work;
use crate::{hints, param};

use bound::{Bindings, BoundCntr};
pub(crate) use reports::Reports;

/// Peers that an endpoint can know, unless its address vector was opened for more.
const PEERS: u32 = 16 << 10;

/// `FI_OPT_MIN_MULTI_RECV` of an application that does not set it.
pub(crate) const MIN_MULTI_RECV: usize = 64;

/// What an active endpoint's data calls need.
#[derive(Debug)]
pub(crate) struct Running {
    /// The engine and what belongs to it.
    pub(crate) active: Arc<ActiveEndpoint>,
    transmits: Reports,
    receives: Reports,
    shared_rx: Option<Arc<SharedRx>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Endpoint {
    domain: Arc<Domain>,
    name: SocketAddr,
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
    running: OnceLock<Running>,
    /// Of an alias (`fi_ep_alias`): the endpoint that it stands for, which does everything.
    original: Option<Arc<Self>>,
}

impl Endpoint {
    /// `fi_endpoint`, on what `fi_getinfo` offered.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an offer that this domain never made; [`Error::Os`] when the address
    /// cannot be bound (in use, not of the domain's interface, no such interface).
    pub(crate) fn open(domain: &Arc<Domain>, request: &Request) -> Result<Arc<Self>, Error> {
        let offer = Info::offer(domain.interface());
        hints::check(request, &offer).map_err(|attribute| {
            log::warn!(target: "ep_ctrl", "{attribute} is not what was offered");
            Error::Invalid
        })?;
        let port = open_port(domain, local_address(domain, request.source)?)?;
        let size = |size: Option<usize>| {
            let size = size.filter(|&size| size > 0).unwrap_or(SIZE_DEFAULT);
            u32::try_from(size).map_err(|_| Error::Invalid)
        };
        let (tx, rx) = (request.tx.as_ref(), request.rx.as_ref());
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            name: port.local_addr(),
            caps: if request.caps == 0 { offer.caps & !bits::SOURCE_ERR } else { request.caps },
            sends: size(tx.map(|tx| tx.size))?,
            recvs: size(rx.map(|rx| rx.size))?,
            order: order(tx, rx),
            shares_rx: request.ep.is_some_and(|ep| ep.rx_ctx_cnt == SHARED_CONTEXT),
            shares_tx: request.ep.is_some_and(|ep| ep.tx_ctx_cnt == SHARED_CONTEXT),
            tx: request.tx,
            inject_size: tx.map_or(INJECT_MAX, |tx| tx.inject_size),
            tx_op_flags: AtomicU64::new(tx.map_or(0, |tx| tx.op_flags)),
            rx_op_flags: AtomicU64::new(rx.map_or(0, |rx| rx.op_flags)),
            min_multi_recv: AtomicUsize::new(MIN_MULTI_RECV),
            bindings: Mutex::new(Bindings::of(port)),
            running: OnceLock::new(),
            original: None,
        }))
    }

    /// The engine and what belongs to it.
    ///
    /// # Errors
    /// [`Error::BadState`] before `fi_enable`.
    #[inline]
    pub(crate) fn running(&self) -> Result<&Running, Error> {
        match &self.original {
            None => self.running.get().ok_or(Error::BadState),
            Some(original) => original.running.get().ok_or(Error::BadState),
        }
    }

    /// The domain that it belongs to.
    pub(crate) const fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Posts an operation when a counter has come far enough (`FI_TRIGGER`).
    ///
    /// # Errors
    /// [`Error::BadFlags`] if that was not asked for when it was opened; as
    /// [`Domain::queue_work`].
    pub(crate) fn trigger(&self, work: Work) -> Result<(), Error> {
        if self.caps & bits::TRIGGER == 0 {
            return Err(Error::BadFlags);
        }
        self.domain.queue_work(work)
    }

    /// Longest message that may be injected.
    pub(crate) const fn inject_size(&self) -> usize {
        self.inject_size
    }

    /// The flags in force for an operation.
    #[inline]
    pub(crate) fn flags(&self, side: Side, flags: OpFlags) -> u64 {
        let default = match side {
            Side::Transmit => &self.tx_op_flags,
            Side::Receive => &self.rx_op_flags,
        };
        match flags {
            OpFlags::Default => default.load(Ordering::Relaxed),
            OpFlags::Given(flags) | OpFlags::Deferred(flags) => flags,
            OpFlags::Inject => bits::INJECT,
        }
    }

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// Whether an operation's success makes a completion.
    #[inline]
    pub(crate) fn signals(&self, side: Side, kind: OpFlags, flags: u64) -> bool {
        let reports = match side {
            Side::Transmit => self.transmits,
            Side::Receive => self.receives,
        };
        match kind {
            OpFlags::Inject => false,
            OpFlags::Deferred(_) => reports != Reports::Never && flags & bits::COMPLETION != 0,
            OpFlags::Default | OpFlags::Given(_) => reports.signals(flags),
        }
    }

    /// Whether receives are posted to a shared context.
    #[inline]
    pub(crate) const fn shares_receives(&self) -> bool {
        self.shared_rx.is_some()
    }
}

/// The orders that were promised (`msg_order`), as the engine knows them. libfabric has three sets
/// of bits, for reads and writes of any kind, of RMA, and of atomics; the engine keeps all alike.
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

/// Where a new endpoint is to be reached: at its source address, which has to be one of the
/// domain's interface, or else at the domain's.
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

/// Binds the port of a new endpoint and says how packets will travel.
fn open_port(domain: &Domain, address: SocketAddr) -> Result<HybridPort, Error> {
    let values = param::values();
    let mut config = PortConfig::new(address, PEERS);
    config.interface = Some(domain.interface().nic.name.clone());
    config.mode = values.mode;
    config.queue = values.queue;
    config.steer = values.steer;
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
    let facts = port.facts();
    if facts.tier == Tier::Udp && values.mode != Mode::Udp && !domain.interface().nic.loopback {
        param::warn_degraded(&facts.to_string());
    }
    Ok(port)
}

impl FidOps for Endpoint {
    #[inline]
    fn triggers(&self, side: Side) -> bool {
        self.flags(side, OpFlags::Default) & bits::TRIGGER != 0
    }

    fn bind(self: &Arc<Self>, other: Bound, flags: u64) -> Result<(), Error> {
        if self.running.get().is_some() {
            return Err(Error::BadState);
        }
        if self.original.is_some() {
            return Err(Error::Invalid);
        }
        self.bind_object(other, flags)
    }

    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        if let Some(original) = &self.original {
            return original.enable();
        }
        let mut bindings = self.bindings();
        if self.running.get().is_some() {
            return Err(Error::BadState);
        }
        self.start(&mut bindings)
    }

    /// Calls that have not begun end with the endpoint (`fi_endpoint(3)`, `fi_close`).
    fn is_alone(self: &Arc<Self>) -> bool {
        self.domain.work().drop_calls(self)
    }

    fn close(&self) -> Result<(), Error> {
        if let Some(running) = self.running.get() {
            let bindings = self.bindings();
            for bound in [&bindings.transmit, &bindings.receive].into_iter().flatten() {
                bound.queue.remove(&running.active);
            }
            self.domain.thread()?.remove(&running.active);
            self.domain.work().forget(&running.active);
            let source = running.shared_rx.as_ref().and_then(|shared| {
                // What arrives from now on takes no receive that another endpoint could use.
                shared.leave(&running.active);
                running.active.leave_shared()
            });
            running.active.close();
            if let Some(source) = source {
                running.active.end_shared(&source);
            }
            for BoundCntr { counter, .. } in &bindings.counters {
                counter.remove_endpoint(&running.active);
            }
            self.domain.registry().leave(&running.active);
        }
        Ok(())
    }

    fn alias(self: &Arc<Self>, side: Side, flags: u64) -> Result<Arc<Self>, Error> {
        let original = self.original.as_ref().unwrap_or(self);
        let copied = |flags: &AtomicU64| AtomicU64::new(flags.load(Ordering::Relaxed));
        let alias = Arc::new(Self {
            domain: Arc::clone(&self.domain),
            tx_op_flags: copied(&self.tx_op_flags),
            rx_op_flags: copied(&self.rx_op_flags),
            min_multi_recv: AtomicUsize::new(self.min_multi_recv.load(Ordering::Relaxed)),
            bindings: Mutex::default(),
            running: OnceLock::new(),
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
        if flags & !(known | (self.caps & bits::TRIGGER)) != 0 {
            return Err(Error::BadFlags);
        }
        to.store(flags, Ordering::Relaxed);
        Ok(())
    }
}
