// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_msg(3)` on an endpoint: flags are settled, then the engine is asked.

use ofi_xdp_core::SendRequest;

use crate::abi::bits;
use crate::ep::{Endpoint, Running};
use crate::errno::Error;
use crate::memory::Buffer;
use crate::ops::{MsgOps, OpFlags, Recv, Send, Side};
use crate::progress::Posting;

/// Flags that ask for something that is not offered.
const REFUSED: u64 = bits::PEEK
    | bits::CLAIM
    | bits::DISCARD
    | bits::COMMIT_COMPLETE
    | bits::MATCH_COMPLETE
    | bits::MULTI_RECV;

impl Endpoint {
    /// What the flags of an operation come to; `buffer` is what it sends.
    #[inline]
    pub(crate) fn settle(
        &self,
        given: OpFlags,
        buffer: Option<Buffer>,
    ) -> Result<(&Running, Posting), Error> {
        let running = self.running()?;
        let flags = self.flags(Side::Transmit, given);
        if flags & REFUSED != 0 {
            return Err(Error::NotSupported);
        }
        let buffer = match (buffer, flags & bits::INJECT) {
            (None, _) => Buffer::EMPTY,
            (Some(buffer), 0) => buffer,
            (Some(buffer), _) if buffer.len() > self.inject_size() => return Err(Error::TooLong),
            (Some(buffer), _) => buffer.injected()?,
        };
        let signal = running.signals(Side::Transmit, given, flags);
        let (more, fence) = (flags & bits::MORE != 0, flags & bits::FENCE != 0);
        Ok((running, Posting { buffer, signal, more, fence }))
    }

    /// A send of any kind.
    #[inline]
    pub(crate) fn post_send(&self, send: &Send) -> Result<(), Error> {
        let (running, how) = self.settle(send.flags, Some(send.buffer))?;
        let len = how.buffer.len() as u64;
        running.active.post(send.to, send.context, &how, |post| {
            let request = SendRequest { common: post.common, len, tag: send.tag, data: send.data };
            post.engine.post_send(post.now, request, how.buffer, post.memory)?;
            Ok(())
        })
    }

    /// A receive of any kind.
    #[inline]
    pub(crate) fn post_recv(&self, recv: &Recv) -> Result<(), Error> {
        let running = self.running()?;
        let flags = self.flags(Side::Receive, recv.flags);
        if flags & REFUSED != 0 {
            return Err(Error::NotSupported);
        }
        running.active.post_recv(recv, running.signals(Side::Receive, recv.flags, flags))
    }
}

impl MsgOps for Endpoint {
    #[inline]
    fn send(&self, send: Send) -> Result<(), Error> {
        self.post_send(&send)
    }

    #[inline]
    fn recv(&self, recv: Recv) -> Result<(), Error> {
        self.post_recv(&recv)
    }
}
