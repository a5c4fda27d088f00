// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_rma(3)` on an endpoint: flags are settled (`msg`), then the engine is asked (`progress`).
//!
//! Called by the slots of `shim::rma`, and by deferred work. Bound: the endpoint's sends.

use ofi_xdp_core::{DeferredId, ReadRequest, WriteRequest};

use crate::ep::Endpoint;
use crate::errno::Error;
use crate::ops::{Rma, RmaOps};

impl Endpoint {
    /// A write of any kind. Of a deferred one, its name.
    pub(crate) fn post_write(&self, write: &Rma) -> Result<Option<DeferredId>, Error> {
        let (running, how) = self.settle(write.flags, Some(write.buffer))?;
        let len = write.buffer.len() as u64;
        running.active.post(write.peer, write.context, &how, |post| {
            let request =
                WriteRequest { common: post.common, len, remote: write.remote, data: write.data };
            Ok(post.engine.post_write(post.now, request, how.buffer, post.memory)?)
        })
    }

    /// A read of any kind. Of a deferred one, its name.
    pub(crate) fn post_read(&self, read: &Rma) -> Result<Option<DeferredId>, Error> {
        let (running, how) = self.settle(read.flags, None)?;
        let len = read.buffer.len() as u64;
        running.active.post(read.peer, read.context, &how, |post| {
            let request = ReadRequest { common: post.common, len, remote: read.remote };
            Ok(post.engine.post_read(post.now, request, read.buffer, post.memory)?)
        })
    }
}

impl RmaOps for Endpoint {
    fn write(&self, write: Rma) -> Result<(), Error> {
        self.post_write(&write).map(drop)
    }

    fn read(&self, read: Rma) -> Result<(), Error> {
        self.post_read(&read).map(drop)
    }
}
