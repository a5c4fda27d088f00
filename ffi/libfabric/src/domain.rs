// SPDX-License-Identifier: MIT OR Apache-2.0
//! A domain, which endpoints and a listener may share (`fi_domain(3)`).

use std::ops::Deref;
use std::sync::Arc;

use crate::owned::Owned;
use crate::raw::{self, Context};
use crate::{Error, Info};

/// A domain and its fabric, which endpoints may share.
#[derive(Clone, Debug)]
pub(crate) struct OpenDomain {
    // Dropped in this order.
    domain: Arc<Owned<raw::Domain>>,
    fabric: Arc<Owned<raw::Fabric>>,
}

impl OpenDomain {
    /// `fi_fabric`, `fi_domain`.
    pub(crate) fn open(info: &Info) -> Result<Self, Error> {
        let fabric = Owned::of("fi_fabric", raw::Fabric::open(info.raw(), Context::null()))?;
        let domain = Owned::of("fi_domain", fabric.domain(info.raw(), Context::null()))?;
        Ok(Self { domain: Arc::new(domain), fabric: Arc::new(fabric) })
    }

    pub(crate) fn fabric(&self) -> &raw::Fabric {
        &self.fabric
    }
}

impl Deref for OpenDomain {
    type Target = raw::Domain;

    fn deref(&self) -> &raw::Domain {
        &self.domain
    }
}
