// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint with all that it needs, and its messages.
//!
//! | file | what it does |
//! |---|---|
//! | `open` | `fi_fabric` to `fi_enable` |
//! | `peers` | its name, and its peers' |
//! | here | sends and receives |
//! | `rma` | writes to and reads from a peer's buffers |
//! | `completion` | what has finished |
#![allow(unsafe_code)]

mod completion;
mod open;
mod peers;
mod rma;

use super::Error;
use super::abi::{self, Operand};
use super::buffers::Buffers;
pub use super::buffers::Operation;
use super::listener::Events;
use super::object::{Owned, check_size};
use completion::BATCH;
pub use completion::Completion;
pub(super) use open::open_fabric;
pub use open::{Setup, Wait};
pub use peers::Peer;
pub(super) use peers::read_name;
pub use rma::{Place, RemoteRegion};

/// Where a message goes, or is to come from: a peer, and a tag for a tagged message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The peer; of no meaning to a receive, which takes from anybody.
    pub peer: Peer,
    /// `None`: an untagged message.
    pub tag: Option<u64>,
}

/// An enabled endpoint, its queues and its buffers.
#[derive(Debug)]
pub struct Endpoint {
    // Dropped in this order: each before what it was opened from or bound to.
    endpoint: Owned<abi::fid_ep>,
    passive: Option<Owned<abi::fid_pep>>,
    events: Option<Events>,
    queue: Owned<abi::fid_cq>,
    addresses: Option<Owned<abi::fid_av>>,
    buffers: Buffers,
    /// What one call reads. Kept: to clear it for each look would show in a latency.
    entries: Box<[abi::fi_cq_tagged_entry; BATCH]>,
    _domain: Owned<abi::fid_domain>,
    fabric: Owned<abi::fid_fabric>,
}

impl Endpoint {
    /// Posts a receive into a free buffer.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn receive(&mut self, slot: usize, tag: Option<u64>) -> Result<(), Error> {
        self.post("fi_recv", slot, usize::MAX, |endpoint, into| match tag {
            // SAFETY: as `post` promises.
            Some(tag) => unsafe { abi::fi_trecv(endpoint, into, tag) },
            // SAFETY: as `post` promises.
            None => unsafe { abi::fi_recv(endpoint, into) },
        })
    }

    /// Sends the first `len` bytes of a free buffer.
    ///
    /// # Errors
    /// [`Error::Again`], [`Error::Busy`], [`Error::Call`].
    #[inline]
    pub fn send(&mut self, slot: usize, len: usize, to: Route) -> Result<(), Error> {
        self.post("fi_send", slot, len, |endpoint, from| match to.tag {
            // SAFETY: as `post` promises.
            Some(tag) => unsafe { abi::fi_tsend(endpoint, from, to.peer.0, tag) },
            // SAFETY: as `post` promises.
            None => unsafe { abi::fi_send(endpoint, from, to.peer.0) },
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
            // SAFETY: as `call` promises: the buffer is read during the call only.
            Some(tag) => unsafe { abi::fi_tinject(endpoint, from, to.peer.0, tag) },
            // SAFETY: as above.
            None => unsafe { abi::fi_inject(endpoint, from, to.peer.0) },
        })
    }

    /// Has `call` do something with the first `len` bytes of a free buffer. While it runs the
    /// endpoint is open, and buffer and context are valid and nobody else's.
    #[inline]
    fn call(
        &mut self,
        name: &'static str,
        slot: usize,
        len: usize,
        call: impl FnOnce(*mut abi::fid_ep, Operand) -> isize,
    ) -> Result<(), Error> {
        let operand = self.buffers.operand(slot, len)?;
        check_size(name, call(self.endpoint.as_ptr(), operand)).map(drop)
    }

    /// Has `call` post an operation on the first `len` bytes of a free buffer. The endpoint is
    /// open, and buffer and context stay until the completion: the slot is marked posted, and the
    /// endpoint is closed before its buffers go.
    #[inline]
    fn post(
        &mut self,
        name: &'static str,
        slot: usize,
        len: usize,
        call: impl FnOnce(*mut abi::fid_ep, Operand) -> isize,
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
