// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fabric: the network that some of this machine's interfaces are on.
//!
//! It owns nothing but its name; domains and event queues are opened from it.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::domain::Domain;
use crate::eq::{Eq, EqAttributes};
use crate::errno::Error;
use crate::info::Request;
use crate::instances::Place;
use crate::interface::Interface;
use crate::mr::MrMode;
use crate::ops::{FabricOps, FidOps, Waitable};
use crate::wait_set::WaitSet;

/// See the module.
#[derive(Debug)]
pub(crate) struct Fabric {
    /// The network, `198.18.0.0/24`; none: any.
    name: Option<String>,
    api_version: u32,
    /// Read by sets that look at their members; written by who closes one.
    looks: Arc<RwLock<()>>,
}

impl Fabric {
    /// `fi_fabric`: `name` is what `fi_getinfo` gave as `fabric_attr->name`.
    ///
    /// # Errors
    /// [`Error::NoData`] if no interface is on a network of this name.
    pub(crate) fn open(name: Option<String>, api_version: u32) -> Result<Arc<Self>, Error> {
        if let Some(name) = &name
            && !Interface::all()?.iter().any(|it| it.network().eq_ignore_ascii_case(name))
        {
            log::warn!(target: "fabric", "no interface is on a network named {name}");
            return Err(Error::NoData);
        }
        Ok(Arc::new(Self { name, api_version, looks: Arc::default() }))
    }

    /// The interface version that the application opened it with.
    pub(crate) const fn api_version(&self) -> u32 {
        self.api_version
    }

    /// As long as a set looks at its members, none is closed, and closing waits: nothing of an
    /// object is looked at when it is gone, and the share that a look has in it keeps no close from
    /// succeeding.
    pub(crate) fn look(&self) -> RwLockReadGuard<'_, ()> {
        self.looks.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What whoever closes a member of a set writes: see [`Self::look`].
    pub(crate) fn looks(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.looks)
    }

    /// Whether an interface is on this network.
    pub(crate) fn contains(&self, interface: &Interface) -> bool {
        self.name.as_ref().is_none_or(|name| interface.network().eq_ignore_ascii_case(name))
    }
}

impl FidOps for Fabric {
    fn place(&self) -> Option<Place> {
        Some(Place {
            fabric: std::ptr::from_ref(self).addr(),
            network: self.name.clone(),
            interface: None,
            api_version: self.api_version,
            mr_mode: MrMode::default(),
        })
    }
}

impl FabricOps for Fabric {
    fn domain(self: &Arc<Self>, request: &Request) -> Result<Arc<Domain>, Error> {
        Domain::open(self, request)
    }

    fn event_queue(self: &Arc<Self>, attributes: EqAttributes) -> Result<Arc<Eq>, Error> {
        Eq::open(self, attributes)
    }

    fn wait_set(self: &Arc<Self>, kind: u32) -> Result<Arc<WaitSet>, Error> {
        WaitSet::open(self, kind)
    }

    fn try_wait(&self, object: Waitable<'_>) -> Result<(), Error> {
        match object {
            Waitable::Cq(queue) => queue.try_wait(),
            Waitable::Cntr(counter) => counter.try_wait(),
            Waitable::Eq(queue) => queue.try_wait(),
            Waitable::Set(set) => set.try_wait(),
        }
    }
}
