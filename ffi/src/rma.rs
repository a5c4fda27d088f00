// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_rma(3)` on an endpoint: flags are settled, then the engine is asked.

use ofi_xdp_core::{ReadRequest, WriteRequest};

use crate::ep::Endpoint;
use crate::errno::Error;
use crate::ops::{Rma, RmaOps};

impl RmaOps for Endpoint {
    fn write(&self, write: Rma) -> Result<(), Error> {
        let (running, how) = self.settle(write.flags, Some(write.buffer))?;
        let len = write.buffer.len() as u64;
        running.active.post(write.peer, write.context, &how, |post| {
            let request =
                WriteRequest { common: post.common, len, remote: write.remote, data: write.data };
            post.engine.post_write(post.now, request, how.buffer, post.memory)?;
            Ok(())
        })
    }

    fn read(&self, read: Rma) -> Result<(), Error> {
        let (running, how) = self.settle(read.flags, None)?;
        let len = read.buffer.len() as u64;
        running.active.post(read.peer, read.context, &how, |post| {
            let request = ReadRequest { common: post.common, len, remote: read.remote };
            post.engine.post_read(post.now, request, read.buffer, post.memory)?;
            Ok(())
        })
    }
}
