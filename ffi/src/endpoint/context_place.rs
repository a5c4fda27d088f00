// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place of a context in its scalable endpoint (`fi_endpoint(3)`, "Scalable endpoints").
//!
//! In: a scalable endpoint and a direction. Out: the parts of an endpoint that a context has in
//! common with others. Called by `endpoint`. Bound: O(1).

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use crate::objects::av::Av;
use crate::objects::cntr::Cntr;
use crate::objects::cq::Cq;
use crate::objects::eq::Eq;
use crate::objects::object_ops::BindTarget;
use crate::runtime::Side;
use crate::sys::abi::bits;
use crate::sys::errno::Error;

/// Capabilities of one direction, with the kinds of operations of its counters.
pub(super) const TRANSMIT_ONLY: u64 = bits::SEND | bits::READ | bits::WRITE;
pub(super) const RECEIVE_ONLY: u64 = bits::RECV | bits::REMOTE_READ | bits::REMOTE_WRITE;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct ContextPlace {
    /// The scalable endpoint, which is busy as long as its contexts are open.
    pub(super) _of: Arc<dyn Debug + Send + Sync>,
    /// The address of the scalable endpoint.
    pub(super) name: SocketAddr,
    /// The address vector of the scalable endpoint, as soon as one is bound.
    pub(super) vector: Arc<OnceLock<Arc<Av>>>,
    /// The direction.
    pub(super) side: Side,
}

impl ContextPlace {
    /// Queues and counters bind to contexts, for the operations of their direction. The address
    /// vector binds to the scalable endpoint.
    ///
    /// # Errors
    /// [`Error::Invalid`] for others.
    pub(super) fn check_bind(&self, target: &BindTarget, flags: u64) -> Result<(), Error> {
        let other = match self.side {
            Side::Transmit => RECEIVE_ONLY,
            Side::Receive => TRANSMIT_ONLY,
        };
        let binds = target.get::<Cq>().is_some()
            || target.get::<Cntr>().is_some()
            || target.get::<Eq>().is_some();
        if binds && flags & other == 0 { Ok(()) } else { Err(Error::Invalid) }
    }
}
