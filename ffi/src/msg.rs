// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_msg(3)` on an endpoint: flags are settled, then the engine is asked.

use crate::abi::bits;
use crate::ep::Endpoint;
use crate::errno::Error;
use crate::ops::{MsgOps, Recv, Send, Side};
use crate::progress::Posting;

/// Flags that ask for something that is not offered.
const REFUSED: u64 = bits::PEEK
    | bits::CLAIM
    | bits::DISCARD
    | bits::FENCE
    | bits::COMMIT_COMPLETE
    | bits::MATCH_COMPLETE
    | bits::MULTI_RECV;

impl Endpoint {
    /// A send of any kind.
    #[inline]
    pub(crate) fn post_send(&self, send: &Send) -> Result<(), Error> {
        let running = self.running()?;
        let flags = self.flags(Side::Transmit, send.flags);
        if flags & REFUSED != 0 {
            return Err(Error::NotSupported);
        }
        let buffer = match flags & bits::INJECT {
            0 => send.buffer,
            _ if send.buffer.len() > self.inject_size() => return Err(Error::TooLong),
            _ => send.buffer.injected()?,
        };
        let signal = running.signals(Side::Transmit, send.flags, flags);
        running.active.post_send(send, Posting { buffer, signal, more: flags & bits::MORE != 0 })
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
