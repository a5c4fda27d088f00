// SPDX-License-Identifier: MIT OR Apache-2.0
//! A memory region: a key.
//!
//! No memory needs to be registered to send from it or receive into it, and remote access is not
//! offered, so registering only reserves the key (`fi_mr(3)`: the application's, as `mr_mode` 0 has
//! it).

use std::sync::Arc;

use crate::abi::bits;
use crate::domain::Domain;
use crate::errno::Error;
use crate::memory::IOV_MAX;
use crate::ops::{Bound, FidOps};

/// What the application wants of a region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MrAttributes {
    /// `FI_SEND` and so on.
    pub(crate) access: u64,
    /// Reserved, 0.
    pub(crate) offset: u64,
    /// The wanted key.
    pub(crate) requested_key: u64,
    /// How many parts the memory has.
    pub(crate) segments: usize,
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
}

impl Region {
    /// `fi_mr_reg` and its variants.
    ///
    /// # Errors
    /// [`Error::NoKey`] if the key is taken; [`Error::Invalid`] for unknown access, a reserved
    /// offset, or more parts than `mr_iov_limit`.
    pub(crate) fn register(
        domain: &Arc<Domain>,
        attributes: MrAttributes,
    ) -> Result<Arc<Self>, Error> {
        let MrAttributes { access, offset, requested_key: key, segments } = attributes;
        if access & !ACCESS != 0 || offset != 0 || segments > IOV_MAX {
            return Err(Error::Invalid);
        }
        if !domain.reserve_key(key) {
            log::info!(target: "mr", "memory key {key:#x} is in use");
            return Err(Error::NoKey);
        }
        Ok(Arc::new(Self { domain: Arc::clone(domain), key }))
    }

    /// The key.
    pub(crate) const fn key(&self) -> u64 {
        self.key
    }
}

impl FidOps for Region {
    fn close(&self) -> Result<(), Error> {
        self.domain.release_key(self.key);
        Ok(())
    }

    /// Endpoints need no binding (`FI_MR_ENDPOINT` is not required), but may be bound.
    fn bind(self: &Arc<Self>, other: Bound, _flags: u64) -> Result<(), Error> {
        match other {
            Bound::Endpoint => Ok(()),
            _ => Err(Error::Invalid),
        }
    }

    fn enable(self: &Arc<Self>) -> Result<(), Error> {
        Ok(())
    }
}
