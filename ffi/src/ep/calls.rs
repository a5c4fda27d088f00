// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an application asks of an open endpoint beside moving data: cancel, options, sizes, name.
//!
//! In: the calls of `fi_endpoint(3)` and `fi_cm(3)`, from `shim::ep`. Out: what the endpoint was
//! made with, or what its engine says. Bound: constant, but for a cancel, which searches the calls
//! that wait for counters and the posted receives.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use ofi_xdp_core::Context;

use super::Endpoint;
use crate::errno::Error;
use crate::ops::{EndpointOps, Side};

impl EndpointOps for Endpoint {
    fn cancel(&self, context: Context) -> Result<(), Error> {
        let running = self.running()?;
        // Without a context nothing is named (fi_endpoint(3)).
        if context != Context::default()
            && !self.domain.work().cancel_call(&running.active, context)?
        {
            running.active.cancel(context);
        }
        Ok(())
    }

    fn min_multi_recv(&self) -> Result<usize, Error> {
        Ok(self.min_multi_recv.load(Ordering::Relaxed))
    }

    fn set_min_multi_recv(&self, least: usize) -> Result<(), Error> {
        self.min_multi_recv.store(least, Ordering::Relaxed);
        Ok(())
    }

    fn size(&self, side: Side) -> Result<usize, Error> {
        let size = match side {
            Side::Transmit => self.sends,
            Side::Receive => self.recvs,
        };
        Ok(size as usize)
    }

    fn receives_left(&self) -> Result<usize, Error> {
        Ok(self.running()?.active.room(Side::Receive))
    }

    fn sends_left(&self) -> Result<usize, Error> {
        Ok(self.running()?.active.room(Side::Transmit))
    }

    fn name(&self) -> Result<SocketAddr, Error> {
        Ok(self.name)
    }
}
