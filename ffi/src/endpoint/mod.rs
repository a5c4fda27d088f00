// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint (`FI_EP_RDM`): opened, bound to its queues and its vector, enabled, closed.
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
mod enable;
mod flags;
mod options;
mod receives;
pub(crate) mod shared_rx;
pub(crate) mod shared_tx;
mod transfer;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ofi_xdp_core::Order;
use ofi_xdp_datapath::{ChooseError, HybridPort, Mode, OpenError, PortConfig, Tier};

use crate::endpoint::shared_rx::SharedRx;
use crate::getinfo::hints;
use crate::getinfo::{Info, InfoRequest, RX_OP_FLAGS, SIZE_DEFAULT, TX_OP_FLAGS};
use crate::objects::domain::Domain;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::runtime::memory::INJECT_MAX;
use crate::runtime::{CompletionPolicy, OpFlags, Runtime, Side};
use crate::sys::abi::{self, SHARED_CONTEXT, bits};
use crate::sys::errno::Error;
use crate::sys::param;

use bind::{Bindings, BoundCntr};
use receives::MIN_MULTI_RECV;
pub(crate) use receives::Receives;

/// Capacity of the peer table, unless the address vector was opened for more.
const PEERS: u32 = 16 << 10;

/// The state of an enabled endpoint that data calls need.
#[derive(Debug)]
pub(crate) struct Enabled {
    /// The runtime: engine, port, memory.
    pub(crate) runtime: Arc<Runtime>,
    transmits: CompletionPolicy,
    receives: CompletionPolicy,
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
    enabled: OnceLock<Enabled>,
    /// The endpoint behind an alias (`fi_ep_alias`): it has the bindings and the runtime.
    original: Option<Arc<Self>>,
}

impl Endpoint {
    /// `fi_endpoint`, with attributes from `fi_getinfo`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for attributes that this domain does not offer. [`Error::Os`] if the
    /// address cannot be bound: in use, not of the domain's interface, no such interface.
    pub(crate) fn open(domain: &Arc<Domain>, request: &InfoRequest) -> Result<Arc<Self>, Error> {
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

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
    let status = port.status();
    if status.tier == Tier::Udp && values.mode != Mode::Udp && !domain.interface().nic.loopback {
        param::warn_degraded(&status.to_string());
    }
    Ok(port)
}

impl ObjectOps for Endpoint {
    fn bind(self: &Arc<Self>, target: &BindTarget, flags: u64) -> Result<(), Error> {
        if self.enabled.get().is_some() {
            return Err(Error::BadState);
        }
        if self.original.is_some() {
            return Err(Error::Invalid);
        }
        self.bindings().bind(&self.domain, self.tx.as_ref(), target, flags)
    }

    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        if let Some(original) = &self.original {
            return original.enable();
        }
        let mut bindings = self.bindings();
        if self.enabled.get().is_some() {
            return Err(Error::BadState);
        }
        self.start(&mut bindings)
    }

    /// Triggered operations that have not started end with the endpoint (`fi_endpoint(3)`,
    /// `fi_close`).
    fn is_unreferenced(self: &Arc<Self>) -> bool {
        self.domain.work().drop_calls(self)
    }

    fn close(&self) -> Result<(), Error> {
        if let Some(enabled) = self.enabled.get() {
            let bindings = self.bindings();
            for bound in [&bindings.transmit, &bindings.receive].into_iter().flatten() {
                bound.queue.remove(&enabled.runtime);
            }
            self.domain.thread()?.remove(&enabled.runtime);
            self.domain.work().forget(&enabled.runtime);
            let source = enabled.shared_rx.as_ref().and_then(|shared| {
                // Messages that arrive from now on take no receive that other endpoints share.
                shared.leave(&enabled.runtime);
                enabled.runtime.leave_shared()
            });
            enabled.runtime.close();
            if let Some(source) = source {
                enabled.runtime.end_shared(&source);
            }
            for BoundCntr { counter, .. } in &bindings.counters {
                counter.remove_endpoint(&enabled.runtime);
            }
            self.domain.registry().leave(&enabled.runtime);
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
        if flags & !(known | (self.caps & bits::TRIGGER)) != 0 {
            return Err(Error::BadFlags);
        }
        to.store(flags, Ordering::Relaxed);
        Ok(())
    }
}
