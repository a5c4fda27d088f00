// SPDX-License-Identifier: MIT OR Apache-2.0
//! A domain: a network interface on a fabric, from which endpoints, queues and vectors are opened.
//!
//! It was opened on one of the interface's addresses. An endpoint may be on another one there.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use crate::abi::{self, bits};
use crate::av::{Av, AvAttributes};
use crate::cntr::Cntr;
use crate::cq::{Cq, CqAttributes};
use crate::ep::Endpoint;
use crate::eq::Eq;
use crate::errno::Error;
use crate::fabric::Fabric;
use crate::hints;
use crate::info::{Info, Request};
use crate::instances::Place;
use crate::interface::Interface;
use crate::mr::{MrAttributes, MrMode, Region};
use crate::ops::{Bound, DomainOps, FidOps};
use crate::poll_set::PollSet;
use crate::registry::Registry;
use crate::srx::SharedRx;
use crate::stx::SharedTx;
use crate::thread::ProgressThread;
use crate::wait_set::WaitObject;
use crate::work::{Work, WorkQueue};

/// The event queue of a domain.
#[derive(Debug)]
struct DomainEvents {
    queue: Arc<Eq>,
    /// Registrations of memory report there, too (`FI_REG_MR`).
    registrations: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Domain {
    fabric: Arc<Fabric>,
    interface: Interface,
    mr_mode: MrMode,
    registry: Registry,
    work: Arc<WorkQueue>,
    /// Where asynchronous operations report, unless they have a queue of their own.
    events: OnceLock<DomainEvents>,
    /// Started with the first endpoint that is enabled.
    thread: OnceLock<Arc<ProgressThread>>,
}

impl Domain {
    /// `fi_domain`, on what `fi_getinfo` offered.
    ///
    /// # Errors
    /// [`Error::NoData`] if no interface on the fabric is the one asked for, or it cannot do what
    /// is asked.
    pub(crate) fn open(fabric: &Arc<Fabric>, request: &Request) -> Result<Arc<Self>, Error> {
        let mr_mode = request.domain.map_or(0, |domain| domain.mr_mode.cast_unsigned());
        let ip = request.source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        for interface in Interface::all()? {
            if !fabric.contains(&interface) || ip.is_some_and(|ip| ip != interface.ip) {
                continue;
            }
            if let Err(attribute) = hints::check(request, &Info::offer(&interface)) {
                log::info!(target: "domain", "{}: {attribute}", interface.nic.name);
                continue;
            }
            return Ok(Arc::new(Self {
                fabric: Arc::clone(fabric),
                interface,
                mr_mode: MrMode::from_bits(mr_mode),
                registry: Registry::default(),
                work: Arc::default(),
                events: OnceLock::new(),
                thread: OnceLock::new(),
            }));
        }
        Err(Error::NoData)
    }

    /// The fabric that it belongs to.
    pub(crate) const fn fabric(&self) -> &Arc<Fabric> {
        &self.fabric
    }

    /// The interface and the address that it was opened on.
    pub(crate) const fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The address of endpoints that ask for none; its family is that of all.
    pub(crate) const fn ip(&self) -> IpAddr {
        self.interface.ip
    }

    /// The progress thread.
    ///
    /// # Errors
    /// [`Error::Os`] when it cannot be started.
    pub(crate) fn thread(&self) -> Result<&Arc<ProgressThread>, Error> {
        if let Some(thread) = self.thread.get() {
            return Ok(thread);
        }
        let started = ProgressThread::start(&self.work)?;
        // Two endpoints may be enabled at once: one thread is enough.
        if let Err(superfluous) = self.thread.set(started) {
            superfluous.stop();
        }
        self.thread.get().ok_or(Error::Internal)
    }

    /// Where asynchronous operations report that have no queue of their own (`fi_domain_bind`).
    pub(crate) fn events(&self) -> Option<&Arc<Eq>> {
        self.events.get().map(|events| &events.queue)
    }

    /// How peers call its memory regions.
    pub(crate) const fn mr_mode(&self) -> MrMode {
        self.mr_mode
    }

    /// What waits for counters.
    #[inline]
    pub(crate) fn work(&self) -> &WorkQueue {
        &self.work
    }

    /// `FI_QUEUE_WORK`, and operations with `FI_TRIGGER`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for objects of another domain; [`Error::BadState`] for an endpoint that
    /// is not enabled; [`Error::Again`] when there is as much work as can be.
    pub(crate) fn queue_work(&self, work: Work) -> Result<(), Error> {
        let ours = |domain: &Arc<Self>| std::ptr::eq(Arc::as_ptr(domain), self);
        let counters = [Some(&work.counter), work.completion.as_ref(), work.op.counter()];
        if !counters.into_iter().flatten().all(|counter| ours(counter.domain())) {
            return Err(Error::Invalid);
        }
        if let Some(endpoint) = work.op.endpoint() {
            if !ours(endpoint.domain()) {
                return Err(Error::Invalid);
            }
            endpoint.running()?;
        }
        self.work.push(work)
    }

    /// Its memory regions.
    pub(crate) const fn registry(&self) -> &Registry {
        &self.registry
    }
}

impl FidOps for Domain {
    fn place(&self) -> Option<Place> {
        Some(Place {
            fabric: Arc::as_ptr(&self.fabric).addr(),
            network: Some(self.interface.network()),
            interface: Some(self.interface.nic.name.clone()),
            api_version: self.fabric.api_version(),
            mr_mode: self.mr_mode,
        })
    }

    fn bind(self: &Arc<Self>, other: Bound, flags: u64) -> Result<(), Error> {
        let Bound::Eq(queue) = other else { return Err(Error::Invalid) };
        if flags & !bits::REG_MR != 0 {
            return Err(Error::BadFlags);
        }
        if !Arc::ptr_eq(queue.fabric(), &self.fabric) {
            return Err(Error::Invalid);
        }
        let registrations = flags & bits::REG_MR != 0;
        self.events.set(DomainEvents { queue, registrations }).map_err(|_| Error::Invalid)
    }

    fn close(&self) -> Result<(), Error> {
        if let Some(thread) = self.thread.get() {
            thread.stop();
        }
        Ok(())
    }
}

impl DomainOps for Domain {
    fn address_vector(self: &Arc<Self>, attributes: &AvAttributes) -> Result<Arc<Av>, Error> {
        Av::open(self, attributes)
    }

    fn completion_queue(self: &Arc<Self>, attributes: CqAttributes) -> Result<Arc<Cq>, Error> {
        Cq::open(self, attributes)
    }

    fn poll_set(self: &Arc<Self>) -> Result<Arc<PollSet>, Error> {
        Ok(PollSet::open(self))
    }

    fn endpoint(self: &Arc<Self>, request: &Request) -> Result<Arc<Endpoint>, Error> {
        Endpoint::open(self, request)
    }

    fn shared_receives(
        self: &Arc<Self>,
        attributes: Option<&abi::fi_rx_attr>,
    ) -> Result<Arc<SharedRx>, Error> {
        SharedRx::open(self, attributes)
    }

    fn shared_transmits(
        self: &Arc<Self>,
        attributes: Option<&abi::fi_tx_attr>,
    ) -> Result<Arc<SharedTx>, Error> {
        SharedTx::open(self, attributes)
    }

    fn counter(self: &Arc<Self>, wait: WaitObject) -> Result<Arc<Cntr>, Error> {
        Cntr::open(self, wait)
    }

    fn registrations(&self) -> Result<Option<&Arc<Eq>>, Error> {
        match self.events.get() {
            Some(DomainEvents { queue, registrations: true }) => {
                queue.admit()?;
                Ok(Some(queue))
            }
            _ => Ok(None),
        }
    }

    fn api_version(&self) -> u32 {
        self.fabric.api_version()
    }

    fn register(self: &Arc<Self>, attributes: MrAttributes) -> Result<Arc<Region>, Error> {
        Region::register(self, attributes)
    }
}
