// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_tagged(3)` on an endpoint: the same requests as `msg`, with a tag.

use crate::ep::Endpoint;
use crate::errno::Error;
use crate::ops::{Recv, Send, TaggedOps};

impl TaggedOps for Endpoint {
    #[inline]
    fn tagged_send(&self, send: Send) -> Result<(), Error> {
        self.post_send(&send).map(drop)
    }

    #[inline]
    fn tagged_recv(&self, recv: Recv) -> Result<(), Error> {
        self.post_recv(&recv).map(drop)
    }
}
