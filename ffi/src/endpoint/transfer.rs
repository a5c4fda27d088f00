// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data transfers on an endpoint (`fi_msg(3)`, `fi_tagged(3)`, `fi_rma(3)`, `fi_atomic(3)`): the
//! flags are resolved, then the runtime posts.
//!
//! In: one [`Request`] or [`Recv`], from the slots of `c_api` or from the work queue. Out: a post
//! on the [`Runtime`]. Bound: the operation slots and receive slots of the endpoint.

use std::sync::Arc;

use ofi_xdp_core::{DeferredId, PeerId};

use super::Endpoint;
use super::flags::signals;
use super::receives::classify_recv;
use crate::runtime::deferred::Initiator;
use crate::runtime::{Recv, RecvOptions, Request, Runtime, Side};
use crate::sys::abi::bits;
use crate::sys::errno::Error;

impl Endpoint {
    /// Posts a send, write, read or atomic operation; the name of a deferred one.
    ///
    /// # Errors
    /// [`Error::BadState`] before `fi_enable`; as [`Self::resolve_flags`] and [`Runtime::post`].
    #[inline]
    pub(crate) fn post(&self, request: &Request) -> Result<Option<DeferredId>, Error> {
        let enabled = self.enabled()?;
        let options = self.resolve_flags(enabled, request)?;
        enabled.runtime.post(request, &options)
    }

    /// Posts a receive of any mode; the name of a deferred one.
    ///
    /// # Errors
    /// [`Error::BadState`] before `fi_enable`; [`Error::NotSupported`] on an endpoint with a shared
    /// receive context, and for tagged receives of datagrams; as [`classify_recv`] and
    /// [`Runtime::receive`].
    #[inline]
    pub(super) fn post_recv(&self, recv: &Recv) -> Result<Option<DeferredId>, Error> {
        let enabled = self.enabled()?;
        // With a shared context receives are posted there (fi_endpoint(3)).
        if enabled.shared_rx.is_some() || (self.carries_datagrams && recv.tag.is_some()) {
            return Err(Error::NotSupported);
        }
        let flags = self.flags(Side::Receive, recv.flags);
        enabled.runtime.receive(
            recv,
            RecvOptions {
                mode: classify_recv(recv, flags, &self.min_multi_recv)?,
                signal: signals(enabled.receives, recv.flags, flags),
                directed: self.caps & bits::DIRECTED_RECV != 0,
                connected: enabled.peer,
            },
        )
    }
}

impl Initiator for Endpoint {
    fn post(&self, request: &Request) -> Result<Option<DeferredId>, Error> {
        Self::post(self, request)
    }

    fn receive(&self, recv: &Recv) -> Result<Option<DeferredId>, Error> {
        self.post_recv(recv)
    }

    fn runtime(&self) -> Result<&Arc<Runtime>, Error> {
        self.enabled().map(|enabled| &enabled.runtime)
    }

    fn peer(&self) -> Option<PeerId> {
        self.enabled().ok().and_then(|enabled| enabled.peer)
    }
}
