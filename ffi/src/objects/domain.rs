// SPDX-License-Identifier: MIT OR Apache-2.0
//! A domain: a network interface on a fabric, the parent of endpoints, queues and vectors.
//!
//! A domain is opened on one address of the interface. An endpoint may use another address of it.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use crate::getinfo::hints;
use crate::getinfo::interface::Interface;
use crate::getinfo::mr_mode::MrMode;
use crate::getinfo::open_objects::OpenObject;
use crate::getinfo::{Info, InfoRequest};
use crate::objects::eq::Eq;
use crate::objects::fabric::Fabric;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::objects::progress_thread::ProgressThread;
use crate::objects::region_table::Registry;
use crate::objects::shared_runtimes::SharedRuntimes;
use crate::runtime::deferred::WorkQueue;
use crate::sys::abi::bits;
use crate::sys::errno::Error;
use crate::sys::personality;

/// The event queue of a domain.
#[derive(Debug)]
struct DomainEvents {
    queue: Arc<Eq>,
    /// Registrations of memory report to it too (`FI_REG_MR`).
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
    /// The event queue of asynchronous operations that have none of their own.
    events: OnceLock<DomainEvents>,
    /// The runtimes of connected endpoints.
    runtimes: SharedRuntimes,
    /// Started with the first endpoint that is enabled.
    thread: OnceLock<Arc<ProgressThread>>,
}

impl Domain {
    /// `fi_domain`, with an offer of `fi_getinfo`.
    ///
    /// # Errors
    /// [`Error::NoData`] if no interface on the fabric satisfies the request.
    pub(crate) fn open(fabric: &Arc<Fabric>, request: &InfoRequest) -> Result<Arc<Self>, Error> {
        let mr_mode = request.domain.map_or(0, |domain| domain.mr_mode.cast_unsigned());
        let ip = request.source.map(|source| source.ip()).filter(|ip| !ip.is_unspecified());
        // A passive endpoint may listen on all networks. Its requests name the one that they asked.
        let is_answer = request.handle != 0 && ip.is_some();
        for interface in Interface::all_with(ip)? {
            let is_near = is_answer || fabric.contains(&interface);
            if !is_near || ip.is_some_and(|ip| ip != interface.ip) {
                continue;
            }
            let check =
                |ep_type| hints::check(request, &Info::offer_of(ep_type, &interface, request.caps));
            let admitted = personality::current()
                .ep_types()
                .iter()
                .map(|&ep_type| check(ep_type))
                .reduce(|found, next| found.or(next));
            if let Some(Err(attribute)) = admitted {
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
                runtimes: SharedRuntimes::default(),
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

    /// The interface, with the MTU that it has now if that is larger: an offer of datagrams may be
    /// newer than the domain. An older one stays valid.
    pub(crate) fn interface_now(&self) -> Interface {
        let mut interface = self.interface.clone();
        let same = |it: &&Interface| it.nic.name == interface.nic.name;
        let mtu = Interface::all().ok().and_then(|all| all.iter().find(same).map(|it| it.nic.mtu));
        interface.nic.mtu = interface.nic.mtu.max(mtu.unwrap_or(0));
        interface
    }

    /// The default address of endpoints. Its family is the family of all addresses.
    pub(crate) const fn ip(&self) -> IpAddr {
        self.interface.ip
    }

    /// Whether its interface has an address.
    pub(crate) fn has_address(&self, ip: IpAddr) -> bool {
        let same = |it: &Interface| it.ip == ip && it.nic.name == self.interface.nic.name;
        self.ip() == ip || Interface::all_with(Some(ip)).is_ok_and(|all| all.iter().any(same))
    }

    /// The progress thread.
    ///
    /// # Errors
    /// [`Error::NoMemory`] when threads are out; [`Error::Os`] when it cannot be started otherwise.
    pub(crate) fn thread(&self) -> Result<&Arc<ProgressThread>, Error> {
        if let Some(thread) = self.thread.get() {
            return Ok(thread);
        }
        let started = ProgressThread::start(&self.work)?;
        // Two endpoints may be enabled at the same time; one thread is enough.
        if let Err(superfluous) = self.thread.set(started) {
            superfluous.stop();
        }
        self.thread.get().ok_or(Error::Internal)
    }

    /// The event queue of asynchronous operations that have none of their own (`fi_domain_bind`).
    pub(crate) fn events(&self) -> Option<&Arc<Eq>> {
        self.events.get().map(|events| &events.queue)
    }

    /// The event queue that registrations of memory report to, if they are asynchronous.
    ///
    /// # Errors
    /// [`Error::Again`] if it is full.
    pub(crate) fn registrations(&self) -> Result<Option<&Arc<Eq>>, Error> {
        match self.events.get() {
            Some(DomainEvents { queue, registrations: true }) => {
                queue.admit()?;
                Ok(Some(queue))
            }
            _ => Ok(None),
        }
    }

    /// The interface version that the application opened the fabric with.
    pub(crate) fn api_version(&self) -> u32 {
        self.fabric.api_version()
    }

    /// How peers name its memory regions.
    pub(crate) const fn mr_mode(&self) -> MrMode {
        self.mr_mode
    }

    /// Deferred work, which waits for counters.
    #[inline]
    pub(crate) fn work(&self) -> &WorkQueue {
        &self.work
    }

    /// The runtimes that its connected endpoints share.
    pub(crate) const fn runtimes(&self) -> &SharedRuntimes {
        &self.runtimes
    }

    /// Its memory regions.
    pub(crate) const fn registry(&self) -> &Registry {
        &self.registry
    }
}

impl ObjectOps for Domain {
    fn open_object(&self) -> Option<OpenObject> {
        Some(OpenObject {
            fabric: Arc::as_ptr(&self.fabric).addr(),
            network: Some(self.interface.network()),
            interface: Some(self.interface.nic.name.clone()),
            api_version: self.fabric.api_version(),
            mr_mode: self.mr_mode,
        })
    }

    fn bind(self: &Arc<Self>, target: &BindTarget, flags: u64) -> Result<(), Error> {
        let queue = target.get::<Eq>().ok_or(Error::Invalid)?;
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
