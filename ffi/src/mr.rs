// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory region (`fi_mr(3)`): memory that peers may reach by its key.
//!
//! No memory needs to be registered to send from it or to receive into it. By default (`mr_mode` 0)
//! the key is the application's choice and peers count from 0; a domain that is opened with
//! `FI_MR_VIRT_ADDR`, `FI_MR_PROV_KEY`, or `FI_MR_BASIC`, which is both, gives out keys and takes
//! addresses. What peers do is checked and done in the engines of the domain's endpoints
//! (`registry`).

use std::sync::{Arc, Mutex, PoisonError};

use ofi_xdp_core::{Access, Served};

use crate::abi::{self, bits};
use crate::cntr::Cntr;
use crate::domain::Domain;
use crate::errno::Error;
use crate::memory::Buffer;
use crate::ops::{Bound, FidOps};
use crate::registry::Registration;

/// How the regions of a domain are called by peers (`domain_attr->mr_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MrMode {
    /// By their addresses; else from 0 on.
    pub(crate) virtual_address: bool,
    /// By keys that the provider chooses; else the application does.
    pub(crate) provider_key: bool,
}

impl MrMode {
    /// What these bits of `mr_mode` mean here.
    pub(crate) const fn from_bits(mode: u32) -> Self {
        let basic = mode == abi::FI_MR_BASIC;
        Self {
            virtual_address: basic || mode & abi::FI_MR_VIRT_ADDR != 0,
            provider_key: basic || mode & abi::FI_MR_PROV_KEY != 0,
        }
    }
}

/// What the application wants of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MrAttributes {
    /// The memory.
    pub(crate) buffer: Buffer,
    /// `FI_SEND` and so on.
    pub(crate) access: u64,
    /// Reserved, 0.
    pub(crate) offset: u64,
    /// The wanted key.
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
pub(crate) struct Region {
    domain: Arc<Domain>,
    key: u64,
    /// By which address peers call its first byte.
    address: u64,
    /// Counts what peers do to it (`FI_RMA_EVENT`).
    counter: Mutex<Option<Arc<Cntr>>>,
}

impl Region {
    /// `fi_mr_reg` and its variants.
    ///
    /// # Errors
    /// [`Error::NoKey`] if the key is taken; [`Error::Invalid`] for unknown access or a reserved
    /// offset; [`Error::NoMemory`] when there are too many.
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

    /// By which address peers call its first byte.
    pub(crate) const fn address(&self) -> u64 {
        self.address
    }
}

impl FidOps for Region {
    fn close(&self) -> Result<(), Error> {
        let served: Served = self.domain.registry().remove(self.key);
        let counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(counter) = counter {
            counter.remove_region(self.key, served);
        }
        Ok(())
    }

    /// Endpoints need no binding (`FI_MR_ENDPOINT` is not required), but may be bound. A counter
    /// counts what peers do.
    fn bind(self: &Arc<Self>, other: Bound, flags: u64) -> Result<(), Error> {
        match other {
            Bound::Endpoint => Ok(()),
            Bound::Cntr(counter) if Arc::ptr_eq(counter.domain(), &self.domain) => {
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
