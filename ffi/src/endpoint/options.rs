// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls on an endpoint that move no data: cancel, options, sizes, name.
//!
//! In: calls of `fi_endpoint(3)` and `fi_cm(3)`, from `c_api::endpoint`. Out: the endpoint's
//! attributes, or counts of its engine. Bound: constant; a cancel searches the triggered operations
//! and the posted receives.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use ofi_xdp_core::{Context, DeferredId};

use super::Endpoint;
use super::connection::CM_DATA_MAX;
use super::receives::Receives;
use crate::runtime::{OpFlags, Recv, Side};
use crate::sys::errno::Error;

impl Receives for Endpoint {
    #[inline]
    fn receive(&self, recv: &Recv) -> Result<Option<DeferredId>, Error> {
        self.post_recv(recv)
    }

    #[inline]
    fn triggers_recv(&self, flags: OpFlags) -> bool {
        self.is_triggered(Side::Receive, flags)
    }

    fn cancel(&self, context: Context) -> Result<(), Error> {
        let enabled = self.enabled()?;
        // A NULL context names no operation (fi_endpoint(3)).
        let place = (&enabled.runtime, enabled.peer);
        if context != Context::default() && !self.domain.work().cancel_call(place, context)? {
            enabled.runtime.cancel(context, enabled.peer);
        }
        Ok(())
    }

    fn min_multi_recv(&self) -> usize {
        self.min_multi_recv.load(Ordering::Relaxed)
    }

    fn set_min_multi_recv(&self, min_free: usize) {
        self.min_multi_recv.store(min_free, Ordering::Relaxed);
    }

    fn size(&self, side: Side) -> Result<usize, Error> {
        let size = match side {
            Side::Transmit => self.sends,
            Side::Receive => self.recvs,
        };
        Ok(size as usize)
    }

    fn cm_data_size(&self) -> usize {
        if self.connection.is_some() { CM_DATA_MAX } else { 0 }
    }

    fn receives_left(&self) -> Result<usize, Error> {
        let enabled = self.enabled()?;
        Ok(enabled.runtime.room(Side::Receive, enabled.peer))
    }
}

impl Endpoint {
    /// `fi_tx_size_left`.
    ///
    /// # Errors
    /// [`Error::BadState`] before `fi_enable`.
    pub(crate) fn sends_left(&self) -> Result<usize, Error> {
        let enabled = self.enabled()?;
        Ok(enabled.runtime.room(Side::Transmit, enabled.peer))
    }

    /// `fi_getname`. A connected endpoint that needs a name before it is enabled has a port of its
    /// own. The port of an accepted connection is not known to the application. All contexts have
    /// the address of their scalable endpoint.
    ///
    /// # Errors
    /// As [`Self::open_own_port`].
    pub(crate) fn name(&self) -> Result<SocketAddr, Error> {
        if let Some(place) = &self.place {
            return Ok(place.name);
        }
        if let Some(listener) = self.connection.as_ref().and_then(|it| it.listener()) {
            return Ok(listener);
        }
        let bindings = &mut *self.original.as_deref().unwrap_or(self).bindings();
        // Tested under the lock: a call that enables the endpoint holds it.
        if let Ok(enabled) = self.enabled() {
            return Ok(enabled.address);
        }
        self.open_own_port(bindings)?;
        bindings.name = bindings.port.as_ref().map(|port| port.local_addr());
        bindings.name.ok_or(Error::BadState)
    }
}
