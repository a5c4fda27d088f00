// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that every libfabric object has (`struct fi_ops`), as a safe trait.
//!
//! `c_api` calls it for every class through one table. An operation that an object does not
//! implement is [`Error::NotSupported`].

use std::any::Any;
use std::os::fd::RawFd;
use std::sync::{Arc, RwLock};

use crate::getinfo::open_objects::OpenObject;
use crate::runtime::Side;
use crate::sys::errno::Error;

/// The object that another one is bound to (`fi_ep_bind` and its kin).
pub(crate) struct BindTarget {
    object: Arc<dyn Any + Send + Sync>,
    is_endpoint: bool,
}

impl BindTarget {
    /// An object other than an endpoint.
    pub(crate) fn new<T: Any + Send + Sync>(object: &Arc<T>) -> Self {
        let object: Arc<T> = Arc::clone(object);
        Self { object, is_endpoint: false }
    }

    /// An endpoint.
    pub(crate) fn endpoint<T: Any + Send + Sync>(endpoint: &Arc<T>) -> Self {
        Self { is_endpoint: true, ..Self::new(endpoint) }
    }

    /// Whether it is an endpoint.
    pub(crate) const fn is_endpoint(&self) -> bool {
        self.is_endpoint
    }

    /// The object, if it is of class `T`.
    pub(crate) fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.object).downcast().ok()
    }
}

/// `struct fi_ops`.
pub(crate) trait ObjectOps {
    /// `fi_close`, when the caller has the only reference to the object.
    fn close(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Whether the caller has the only reference to the object, which is about to be closed. Drops
    /// references of work that ends with the object.
    fn is_unreferenced(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
    }

    /// The key under which `fi_getinfo` reports the object while it is open; `None` if it does not.
    fn open_object(&self) -> Option<OpenObject> {
        None
    }

    /// The lock that poll and wait sets hold for reading while they inspect the object; `close`
    /// takes it for writing.
    fn member_lock(&self) -> Option<Arc<RwLock<()>>> {
        None
    }

    /// `fi_*_bind`.
    fn bind(self: &Arc<Self>, _target: &BindTarget, _flags: u64) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    /// `fi_enable`.
    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        Err(Error::NotSupported)
    }

    /// `FI_GETWAIT` of an object that waits on a file descriptor.
    fn wait_fd(&self) -> Result<RawFd, Error> {
        Err(Error::NotSupported)
    }

    /// `FI_GETWAITOBJ`: the kind of wait object that the object was opened with.
    fn wait_object(&self) -> Result<u32, Error> {
        Err(Error::NotSupported)
    }

    /// `FI_ALIAS`: the object itself with other default flags for one side.
    fn alias(self: &Arc<Self>, _side: Side, _flags: u64) -> Result<Arc<Self>, Error> {
        Err(Error::NotSupported)
    }

    /// `FI_GETOPSFLAG`: the default operation flags of one side.
    fn op_flags(&self, _side: Side) -> Result<u64, Error> {
        Err(Error::NotSupported)
    }

    /// `FI_SETOPSFLAG`.
    fn set_op_flags(&self, _side: Side, _flags: u64) -> Result<(), Error> {
        Err(Error::NotSupported)
    }
}
