// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_atomic(3)` on an endpoint: flags are settled, operands staged, then the engine is asked.
//!
//! What an atomic operation sends is copied at post, whatever the flags: it is short, and the
//! slot's buffer is for what comes back.

use ofi_xdp_core::{ATOMIC_LEN_MAX, AtomicRequest, DeferredId};

use crate::ep::Endpoint;
use crate::errno::Error;
use crate::ops::{Atomic, AtomicOps};

impl Endpoint {
    /// An atomic operation of any kind. Of a deferred one, its name.
    pub(crate) fn post_atomic(&self, atomic: &Atomic) -> Result<Option<DeferredId>, Error> {
        let (running, how) = self.settle(atomic.flags, None)?;
        let Atomic { form, datatype, op, remote, .. } = *atomic;
        if atomic.count > ATOMIC_LEN_MAX / datatype.size() {
            return Err(Error::TooLong);
        }
        let count = u16::try_from(atomic.count).map_err(|_| Error::TooLong)?;
        running.active.post(atomic.peer, atomic.context, &how, |post| {
            let parts = [&atomic.operands, &atomic.compare];
            let buffer = post.memory.stage(parts, atomic.result)?;
            let common = post.common;
            let request = AtomicRequest { common, remote, form, datatype, op, count };
            Ok(post.engine.post_atomic(post.now, request, buffer, post.memory)?)
        })
    }
}

impl AtomicOps for Endpoint {
    fn atomic(&self, atomic: Atomic) -> Result<(), Error> {
        self.post_atomic(&atomic).map(drop)
    }
}
