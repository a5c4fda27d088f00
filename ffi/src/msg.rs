// SPDX-License-Identifier: MIT OR Apache-2.0
//! `fi_msg(3)` on an endpoint: flags are settled, then the engine is asked (`progress`).
//!
//! Called by the slots of `shim::msg`, by `tagged`, and by deferred work. Bounds: the endpoint's
//! sends and receives.

use ofi_xdp_core::{DeferredId, Probe, SendRequest};

use crate::abi::bits;
use crate::ep::{Endpoint, Running};
use crate::errno::Error;
use crate::memory::Buffer;
use crate::ops::{EndpointOps as _, MsgOps, OpFlags, Recv, Send, Side};
use crate::progress::{Post, Posting, Taking};

/// Flags of an operation of an initiator that ask for something that is not offered.
const REFUSED: u64 = bits::COMMIT_COMPLETE | bits::MULTICAST;
/// Flags that make a receive more than that.
const RARE: u64 = PROBING | bits::MULTI_RECV;
/// Those that are about a message which is there already.
const PROBING: u64 = bits::PEEK | bits::CLAIM | bits::DISCARD;

/// What a receive asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Receiving {
    /// A message.
    One,
    /// Messages, one behind the other.
    Many,
    /// A look at a message (`FI_PEEK`).
    Probe(Probe),
    /// The message that was claimed with its context (`FI_CLAIM`).
    Claimed(Taking),
}

/// What a receive with these flags asks for.
///
/// # Errors
/// [`Error::BadFlags`] for flags that do not go together.
#[inline]
pub(crate) fn receiving(recv: &Recv, flags: u64) -> Result<Receiving, Error> {
    if flags & RARE == 0 { Ok(Receiving::One) } else { receiving_rarely(recv, flags) }
}

#[cold]
fn receiving_rarely(recv: &Recv, flags: u64) -> Result<Receiving, Error> {
    const LOOK: u64 = bits::PEEK;
    const LOOK_AND_CLAIM: u64 = bits::PEEK | bits::CLAIM;
    const LOOK_AND_DISCARD: u64 = bits::PEEK | bits::DISCARD;
    const DISCARD_CLAIMED: u64 = bits::CLAIM | bits::DISCARD;
    match flags & RARE {
        // As a default it is for untagged receives only (fi_endpoint(3)).
        bits::MULTI_RECV if recv.tag.is_some() && recv.flags == OpFlags::Default => {
            Ok(Receiving::One)
        }
        bits::MULTI_RECV => Ok(Receiving::Many),
        // Only of tagged messages (fi_tagged(3)).
        _ if recv.tag.is_none() => Err(Error::BadFlags),
        LOOK => Ok(Receiving::Probe(Probe::Look)),
        LOOK_AND_CLAIM => Ok(Receiving::Probe(Probe::Claim)),
        LOOK_AND_DISCARD => Ok(Receiving::Probe(Probe::Discard)),
        bits::CLAIM => Ok(Receiving::Claimed(Taking::Receive)),
        DISCARD_CLAIMED => Ok(Receiving::Claimed(Taking::Discard)),
        _ => Err(Error::BadFlags),
    }
}

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
            return Err(Error::BadFlags);
        }
        let buffer = match (buffer, flags & bits::INJECT) {
            (None, _) => Buffer::EMPTY,
            (Some(buffer), 0) => buffer,
            (Some(buffer), _) if buffer.len() > self.inject_size() => return Err(Error::TooLong),
            (Some(buffer), _) => buffer.injected()?,
        };
        let signal = running.signals(Side::Transmit, given, flags);
        let (more, fence) = (flags & bits::MORE != 0, flags & bits::FENCE != 0);
        let matched = flags & bits::MATCH_COMPLETE != 0;
        let deferred = matches!(given, OpFlags::Deferred(_));
        Ok((running, Posting { buffer, signal, more, fence, deferred, matched }))
    }

    /// A send of any kind. Of a deferred one, its name.
    #[inline]
    pub(crate) fn post_send(&self, send: &Send) -> Result<Option<DeferredId>, Error> {
        let (running, how) = self.settle(send.flags, Some(send.buffer))?;
        let len = how.buffer.len() as u64;
        running.active.post(send.to, send.context, &how, |post| {
            let request = SendRequest { common: post.common, len, tag: send.tag, data: send.data };
            let Post { engine, memory, now, .. } = post;
            Ok(if how.matched {
                engine.post_matched_send(now, request, how.buffer, memory)
            } else {
                engine.post_send(now, request, how.buffer, memory)
            }?)
        })
    }

    /// A receive of any kind. Of a deferred one, its name.
    #[inline]
    pub(crate) fn post_recv(&self, recv: &Recv) -> Result<Option<DeferredId>, Error> {
        let running = self.running()?;
        let flags = self.flags(Side::Receive, recv.flags);
        let signal = running.signals(Side::Receive, recv.flags, flags);
        let active = &running.active;
        if running.shares_receives() {
            // They are posted to the shared context (fi_endpoint(3)).
            return Err(Error::NotSupported);
        }
        match receiving(recv, flags)? {
            Receiving::One if matches!(recv.flags, OpFlags::Deferred(_)) => {
                return active.post_deferred_recv(recv, signal).map(Some);
            }
            _ if matches!(recv.flags, OpFlags::Deferred(_)) => Err(Error::NotSupported),
            Receiving::One => active.post_recv(recv, signal),
            Receiving::Many => active.post_multi_recv(recv, self.min_multi_recv()? as u64, signal),
            Receiving::Probe(probe) => active.peek(recv, probe, signal),
            Receiving::Claimed(taking) => active.take_claimed(recv, taking, signal),
        }?;
        Ok(None)
    }
}

impl MsgOps for Endpoint {
    #[inline]
    fn send(&self, send: Send) -> Result<(), Error> {
        self.post_send(&send).map(drop)
    }

    #[inline]
    fn recv(&self, recv: Recv) -> Result<(), Error> {
        self.post_recv(&recv).map(drop)
    }
}
