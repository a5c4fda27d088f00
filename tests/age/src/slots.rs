// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that wait for room: `-FI_EAGAIN` is no error.
//!
//! In: buffers and their next use. Out: posted operations. Callers: residents and
//! visitors. Bound: the buffers of the endpoint.

use std::collections::VecDeque;

use ofi_xdp_libfabric::{Endpoint, Error, Peer, Route};

/// The next use of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Next {
    /// A receive of messages with this tag.
    Receive(u64),
    /// A send of so many bytes, with this tag.
    Send(usize, Peer, u64),
}

/// Operations that are to be posted, in order.
#[derive(Debug, Default)]
pub(crate) struct Waiting(VecDeque<(usize, Next)>);

impl Waiting {
    /// Adds an operation.
    pub(crate) fn push(&mut self, slot: usize, next: Next) {
        self.0.push_back((slot, next));
    }

    /// Posts operations while there is room. Returns the buffer of a send that was refused for
    /// good.
    pub(crate) fn post(&mut self, endpoint: &mut Endpoint) -> Result<Option<usize>, Error> {
        // bound: the buffers
        while let Some((slot, next)) = self.0.front().copied() {
            let posted = match next {
                Next::Receive(tag) => endpoint.receive(slot, Some(tag)),
                Next::Send(len, peer, tag) => {
                    endpoint.send(slot, len, Route { peer, tag: Some(tag) })
                }
            };
            match (posted, next) {
                (Ok(()), _) => drop(self.0.pop_front()),
                (Err(Error::Again), _) => break,
                (Err(Error::Call { .. }), Next::Send(..)) => {
                    self.0.pop_front();
                    return Ok(Some(slot));
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok(None)
    }
}
