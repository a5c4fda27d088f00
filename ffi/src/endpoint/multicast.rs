// SPDX-License-Identifier: MIT OR Apache-2.0
//! A multicast group that an endpoint of datagrams has joined (`fi_join(3)`).
//!
//! In: the address of a group. Out: a membership, which ends with this object. It keeps its
//! endpoint busy. Bound: the groups of a runtime.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::endpoint::Endpoint;
use crate::objects::eq::Eq;
use crate::objects::object_ops::ObjectOps;
use crate::sys::abi::{ADDR_NONE, bits, fi_addr_t};
use crate::sys::errno::Error;

/// See the module.
#[derive(Debug)]
pub(crate) struct MulticastGroup {
    endpoint: Arc<Endpoint>,
    /// The address to send to, or the reason for none.
    joined: Result<fi_addr_t, Error>,
}

impl MulticastGroup {
    /// Joins a group. `FI_SEND` and `FI_RECV` limit the membership to one direction. An error of
    /// the kernel is in [`Self::failure`].
    ///
    /// # Errors
    /// [`Error::NotSupported`] on an endpoint without `FI_MULTICAST`; [`Error::BadState`] before
    /// `fi_enable`; [`Error::BadFlags`]; [`Error::Invalid`] for an address that is no group's, or
    /// of another family, and for a direction that the endpoint does not have.
    pub(crate) fn join(
        endpoint: &Arc<Endpoint>,
        group: SocketAddr,
        flags: u64,
    ) -> Result<Arc<Self>, Error> {
        const DIRECTIONS: u64 = bits::SEND | bits::RECV;
        if endpoint.caps & bits::MULTICAST == 0 {
            return Err(Error::NotSupported);
        }
        let runtime = &endpoint.enabled()?.runtime;
        if flags & !DIRECTIONS != 0 {
            return Err(Error::BadFlags);
        }
        let is_of_family = group.is_ipv4() == runtime.local_addr().is_ipv4();
        if !group.ip().is_multicast() || !is_of_family || flags & !endpoint.caps != 0 {
            return Err(Error::Invalid);
        }
        let wanted = if flags == 0 { endpoint.caps & DIRECTIONS } else { flags };
        let joined = runtime.join(group, wanted & bits::RECV != 0);
        Ok(Arc::new(Self { endpoint: Arc::clone(endpoint), joined }))
    }

    /// The address of the group (`fi_mc_addr(3)`).
    pub(crate) fn address(&self) -> fi_addr_t {
        self.joined.unwrap_or(ADDR_NONE)
    }

    /// The error of a join that failed.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.joined.err()
    }
}

impl ObjectOps for MulticastGroup {
    fn close(&self) -> Result<(), Error> {
        if let (Ok(address), Ok(enabled)) = (self.joined, self.endpoint.enabled()) {
            enabled.runtime.leave(address);
        }
        Ok(())
    }
}

impl Endpoint {
    /// The event queue of a join.
    ///
    /// # Errors
    /// [`Error::NoEventQueue`] if none is bound; [`Error::Again`] if it is full.
    pub(crate) fn join_events(&self) -> Result<Arc<Eq>, Error> {
        let original = self.original.as_deref().unwrap_or(self);
        let events = original.bindings().eq.clone().ok_or(Error::NoEventQueue)?;
        events.admit()?;
        Ok(events)
    }
}
