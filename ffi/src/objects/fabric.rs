// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fabric: a network that one or more interfaces of this machine are on; the parent of domains
//! and event queues.

use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use crate::getinfo::interface::Interface;
use crate::getinfo::mr_mode::MrMode;
use crate::getinfo::open_objects::OpenObject;
use crate::objects::connection_manager::ConnectionManager;
use crate::objects::object_ops::ObjectOps;
use crate::sys::errno::Error;

/// See the module.
#[derive(Debug)]
pub(crate) struct Fabric {
    /// The network, such as `198.18.0.0/24`; `None`: any.
    name: Option<String>,
    api_version: u32,
    /// Held for reading while a set inspects its members; for writing while a member is closed.
    member_lock: Arc<RwLock<()>>,
    /// Started with the first passive or connected endpoint.
    connections: OnceLock<ConnectionManager>,
}

impl Fabric {
    /// `fi_fabric`; `name` is `fabric_attr->name` of an offer.
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
        Ok(Arc::new(Self {
            name,
            api_version,
            member_lock: Arc::default(),
            connections: OnceLock::new(),
        }))
    }

    /// The connection manager.
    ///
    /// # Errors
    /// As [`ConnectionManager::start`].
    pub(crate) fn connection_manager(&self) -> Result<&ConnectionManager, Error> {
        if let Some(manager) = self.connections.get() {
            return Ok(manager);
        }
        let started = ConnectionManager::start()?;
        // Two endpoints may be opened at the same time; one thread is enough.
        Ok(self.connections.get_or_init(|| started))
    }

    /// The interface version that the application opened it with.
    pub(crate) const fn api_version(&self) -> u32 {
        self.api_version
    }

    /// Keeps every member of a set open while the guard lives; `fi_close` waits for its end. So a
    /// set inspects no closed object, and its temporary references make no `fi_close` fail.
    pub(crate) fn inspect(&self) -> RwLockReadGuard<'_, ()> {
        self.member_lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock that `fi_close` of a member takes for writing: see [`Self::inspect`].
    pub(crate) fn member_lock(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.member_lock)
    }

    /// Whether an interface is on this network.
    pub(crate) fn contains(&self, interface: &Interface) -> bool {
        self.name.as_ref().is_none_or(|name| interface.network().eq_ignore_ascii_case(name))
    }
}

impl ObjectOps for Fabric {
    fn open_object(&self) -> Option<OpenObject> {
        Some(OpenObject {
            fabric: std::ptr::from_ref(self).addr(),
            network: self.name.clone(),
            interface: None,
            api_version: self.api_version,
            mr_mode: MrMode::default(),
        })
    }
}
