// SPDX-License-Identifier: MIT OR Apache-2.0
//! The passive endpoint that listens for connections (`fi_cm(3)`).

use std::time::Duration;

use crate::domain::OpenDomain;
use crate::events::Events;
use crate::name::{NAME_MAX, Name, named};
use crate::owned::{Owned, check};
use crate::raw::{self, Fid as _};
use crate::{Error, Info};

/// A passive endpoint of type `FI_EP_MSG` that waits for connections.
#[derive(Debug)]
pub struct Listener {
    // Dropped in this order.
    passive: Owned<raw::Pep>,
    events: Events,
    domain: OpenDomain,
}

impl Listener {
    /// Listens at the source address that `info` was found with.
    ///
    /// # Errors
    /// [`Error::Call`] for the step that failed.
    pub fn open(info: &Info) -> Result<Self, Error> {
        let domain = OpenDomain::open(info)?;
        let fabric = domain.fabric();
        let events = Events::open(fabric)?;
        let passive = Owned::of("fi_passive_ep", fabric.passive_ep(info.raw()))?;
        check("fi_pep_bind", passive.bind(events.queue(), 0))?;
        check("fi_listen", passive.listen())?;
        Ok(Self { passive, events, domain })
    }

    /// The address at which it listens, for the peer.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn name(&self) -> Result<Name, Error> {
        named(self.passive.getname(NAME_MAX))
    }

    /// The passive endpoint, the event queue and the domain, for the endpoint that accepts.
    pub(crate) fn into_parts(self) -> (Owned<raw::Pep>, Events, OpenDomain) {
        (self.passive, self.events, self.domain)
    }

    /// Waits for a connection request.
    pub(crate) fn request(&self, timeout: Duration) -> Result<(Info, OpenDomain), Error> {
        Ok((self.events.request(timeout)?, self.domain.clone()))
    }
}
