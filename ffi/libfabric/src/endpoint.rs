// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint with all that it needs, and its messages.
//!
//! | file | contents |
//! |---|---|
//! | `open` | `fi_fabric` to `fi_enable` |
//! | `peers` | its name, and its peers' |
//! | here | sends and receives |
//! | `rma` | writes to and reads from a peer's buffers |
//! | `completion` | completions |

mod completion;
mod open;
mod peers;
mod rma;

use crate::Error;
use crate::buffers::{Buffers, Operand};
use crate::domain::OpenDomain;
use crate::events::Events;
use crate::owned::{Owned, check};
use crate::raw::{self, Answer, abi};
pub use completion::Completion;
pub use open::{Setup, Wait};
pub use peers::Peer;
pub use rma::{RemoteBuffer, RemoteRegion};

/// Completions that one call reads, at most.
const BATCH: usize = 16;

/// Destination or source of a message: a peer, and a tag for a tagged message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The peer; without meaning for a receive, which takes messages from all peers.
    pub peer: Peer,
    /// `None`: an untagged message.
    pub tag: Option<u64>,
}

/// An enabled endpoint, its queues and its buffers.
#[derive(Debug)]
pub struct Endpoint {
    // Dropped in this order: each before the objects that it was opened from or bound to.
    endpoint: Owned<raw::Ep>,
    passive: Option<Owned<raw::Pep>>,
    events: Option<Events>,
    queue: Owned<raw::Cq>,
    addresses: Option<Owned<raw::Av>>,
    buffers: Buffers,
    /// The entries that one call reads. Kept, because clearing them for each call costs latency.
    entries: Box<[abi::fi_cq_tagged_entry; BATCH]>,
    domain: OpenDomain,
}

impl Endpoint {
    /// Posts a receive into a free buffer.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn receive(&mut self, slot: usize, tag: Option<u64>) -> Result<(), Error> {
        const ANY: u64 = abi::FI_ADDR_UNSPEC;
        self.post("fi_recv", slot, usize::MAX, |endpoint, into| {
            let Operand { memory, descriptor, context } = into;
            match tag {
                Some(tag) => endpoint.trecv_with(memory, descriptor, (ANY, tag, 0), context),
                None => endpoint.recv_with(memory, descriptor, ANY, context),
            }
        })
    }

    /// Sends the first `len` bytes of a free buffer.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn send(&mut self, slot: usize, len: usize, to: Route) -> Result<(), Error> {
        self.post("fi_send", slot, len, |endpoint, from| {
            let Operand { memory, descriptor, context } = from;
            match to.tag {
                Some(tag) => endpoint.tsend_with(memory, descriptor, (to.peer.0, tag), context),
                None => endpoint.send_with(memory, descriptor, to.peer.0, context),
            }
        })
    }

    /// Sends the first `len` bytes of a free buffer, which stays free: no completion will come.
    /// `len` is at most [`Info::inject_size`](super::Info::inject_size).
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn inject(&mut self, slot: usize, len: usize, to: Route) -> Result<(), Error> {
        self.call("fi_inject", slot, len, |endpoint, from| match to.tag {
            Some(tag) => endpoint.tinject(from.memory, to.peer.0, tag),
            None => endpoint.inject(from.memory, to.peer.0),
        })
    }

    /// Passes the first `len` bytes of a free buffer to `call`, which uses them while it runs.
    #[inline]
    fn call(
        &mut self,
        name: &'static str,
        slot: usize,
        len: usize,
        call: impl FnOnce(&raw::Ep, Operand) -> Answer,
    ) -> Result<(), Error> {
        let operand = self.buffers.operand(slot, len)?;
        check(name, call(&self.endpoint, operand))
    }

    /// Posts the operation of `call` on the first `len` bytes of a free buffer. Buffer and context
    /// stay until the completion: the slot is marked posted, and the endpoint is closed before its
    /// buffers are freed.
    #[inline]
    fn post(
        &mut self,
        name: &'static str,
        slot: usize,
        len: usize,
        call: impl FnOnce(&raw::Ep, Operand) -> Answer,
    ) -> Result<(), Error> {
        self.call(name, slot, len, call)?;
        self.buffers.mark_posted(slot);
        Ok(())
    }

    /// The bytes of a free buffer.
    ///
    /// # Errors
    /// [`Error::Busy`].
    #[inline]
    pub fn bytes(&mut self, slot: usize) -> Result<&mut [u8], Error> {
        self.buffers.bytes(slot)
    }

    /// How many buffers there are.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.buffers.slots()
    }

    /// Whether no operation has the buffer.
    #[must_use]
    pub fn is_free(&self, slot: usize) -> bool {
        self.buffers.is_free(slot)
    }

    /// Whether this endpoint answers a connection that it listened for.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.passive.is_some()
    }
}
