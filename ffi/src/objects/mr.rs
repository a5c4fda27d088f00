// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory region (`fi_mr(3)`): memory that peers may reach by its key.
//!
//! Local buffers of sends and receives need no registration. By default (`mr_mode` 0) the
//! application chooses the key, and offsets count from 0. A domain with `FI_MR_VIRT_ADDR` takes
//! addresses as offsets, one with `FI_MR_PROV_KEY` chooses the keys; `FI_MR_BASIC` is both. The
//! engines of the domain's endpoints check and execute operations of peers (`region_table`).

use std::sync::{Arc, Mutex, PoisonError};

use ofi_xdp_core::Access;

use crate::objects::cntr::Cntr;
use crate::objects::domain::Domain;
use crate::objects::object_ops::{BindTarget, ObjectOps};
use crate::objects::region_table::Registration;
use crate::runtime::memory::Buffer;
use crate::sys::abi::bits;
use crate::sys::errno::Error;

/// The attributes of a new region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MrAttributes {
    /// The memory.
    pub(crate) buffer: Buffer,
    /// `FI_SEND` and so on.
    pub(crate) access: u64,
    /// Reserved, 0.
    pub(crate) offset: u64,
    /// The key that the application requests.
    pub(crate) requested_key: u64,
}

const ACCESS: u64 = bits::SEND
    | bits::RECV
    | bits::READ
    | bits::WRITE
    | bits::REMOTE_READ
    | bits::REMOTE_WRITE
    | bits::COLLECTIVE;

/// See the module.
#[derive(Debug)]
pub(crate) struct MemoryRegion {
    domain: Arc<Domain>,
    key: u64,
    /// The offset by which peers name its first byte.
    address: u64,
    /// The counter of operations of peers (`FI_RMA_EVENT`).
    counter: Mutex<Option<Arc<Cntr>>>,
}

impl MemoryRegion {
    /// `fi_mr_reg` and its variants.
    ///
    /// # Errors
    /// [`Error::NoKey`] if the key is taken; [`Error::Invalid`] for unknown access or a reserved
    /// offset, and where offsets are virtual addresses also for parts that do not adjoin and that
    /// peers may reach; [`Error::NoMemory`] when there are too many.
    pub(crate) fn register(
        domain: &Arc<Domain>,
        attributes: MrAttributes,
    ) -> Result<Arc<Self>, Error> {
        let MrAttributes { buffer, access, offset, requested_key } = attributes;
        if access & !ACCESS != 0 || offset != 0 {
            return Err(Error::Invalid);
        }
        let mode = domain.mr_mode();
        let mut rights = Access::empty();
        rights.set(Access::READ, access & bits::REMOTE_READ != 0);
        rights.set(Access::WRITE, access & bits::REMOTE_WRITE != 0);
        // Peers name a region by an offset and one address.
        if mode.virtual_address && !rights.is_empty() && !buffer.is_contiguous() {
            return Err(Error::Invalid);
        }
        let address = if mode.virtual_address { buffer.address() } else { 0 };
        let wanted = (!mode.provider_key).then_some(requested_key);
        let registration = Registration { buffer, address, access: rights };
        let key = domain.registry().insert(wanted, registration).inspect_err(|error| {
            log::info!(target: "mr", "cannot register memory under {requested_key:#x}: {error}");
        })?;
        let (domain, counter) = (Arc::clone(domain), Mutex::default());
        Ok(Arc::new(Self { domain, key, address, counter }))
    }

    /// The key.
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }

    /// The offset by which peers name its first byte.
    pub(crate) const fn address(&self) -> u64 {
        self.address
    }
}

impl ObjectOps for MemoryRegion {
    fn close(&self) -> Result<(), Error> {
        let counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner).take();
        let remove = || self.domain.registry().remove(self.key);
        match counter {
            Some(counter) => counter.remove_region(self.key, remove),
            None => _ = remove(),
        }
        Ok(())
    }

    /// A counter counts operations of peers. Binding an endpoint has no effect, as
    /// `FI_MR_ENDPOINT` is not required.
    fn bind(self: &Arc<Self>, target: &BindTarget, flags: u64) -> Result<(), Error> {
        if target.is_endpoint() {
            return Ok(());
        }
        match target.get::<Cntr>() {
            Some(counter) if Arc::ptr_eq(counter.domain(), &self.domain) => {
                if flags & !(bits::REMOTE_READ | bits::REMOTE_WRITE) != 0 || flags == 0 {
                    return Err(Error::BadFlags);
                }
                let mut bound = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
                if bound.is_some() {
                    return Err(Error::Invalid);
                }
                counter.add_region(self.key, flags)?;
                *bound = Some(counter);
                Ok(())
            }
            _ => Err(Error::Invalid),
        }
    }

    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        Ok(())
    }
}
