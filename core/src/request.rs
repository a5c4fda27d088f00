// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the application asks for: one request type for each class of libfabric call.

use crate::atomic::{AtomicOp, Datatype};
use crate::wire::Envelope;
use crate::{Context, OpKind, PeerId};

/// What every operation of an initiator has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Common {
    /// The other side.
    pub peer: PeerId,
    /// The application's word for it.
    pub context: Context,
    /// Whether success makes a completion; failure always does.
    pub signal: bool,
    /// Whether more requests follow at once (`FI_MORE`), so that this one may wait for them.
    pub more: bool,
    /// Whether it begins only when every earlier operation to this peer has ended (`FI_FENCE`).
    pub fence: bool,
}

impl Common {
    /// An operation with `peer` that makes a completion, under no further conditions.
    #[must_use]
    pub const fn new(peer: PeerId, context: Context) -> Self {
        Self { peer, context, signal: true, more: false, fence: false }
    }
}

/// A request to send a message (`fi_msg(3)`, `fi_tagged(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SendRequest {
    /// Destination, context, conditions.
    pub common: Common,
    /// Length of the message in bytes.
    pub len: u64,
    /// The tag of a tagged message.
    pub tag: Option<u64>,
    /// Remote CQ data.
    pub data: Option<u64>,
}

/// Which tags a receive takes: those that agree with `tag` in every bit not set in `ignore`
/// (`fi_tagged(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TagMatch {
    /// The wanted tag.
    pub tag: u64,
    /// Bits that do not matter.
    pub ignore: u64,
}

impl TagMatch {
    /// Whether it takes a message with this tag.
    #[must_use]
    #[inline]
    pub const fn takes(&self, tag: u64) -> bool {
        (self.tag ^ tag) & !self.ignore == 0
    }
}

/// A request to receive a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecvRequest {
    /// Only from this peer, or from any.
    pub from: Option<PeerId>,
    /// Length of the buffer in bytes.
    pub len: u64,
    /// The application's word for it.
    pub context: Context,
    /// Which tags it takes; `None`: untagged messages only.
    pub tag: Option<TagMatch>,
    /// Whether success makes a completion; failure always does.
    pub signal: bool,
}

impl RecvRequest {
    /// Whether a message from `peer` fits this request.
    #[inline]
    pub(crate) fn takes(&self, peer: PeerId, envelope: &Envelope) -> bool {
        self.from.is_none_or(|from| from == peer)
            && match (self.tag, envelope.tag) {
                (Some(want), Some(tag)) => want.takes(tag),
                (None, None) => true,
                _ => false,
            }
    }
}

/// An operation that its caller has put off, and that never begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unbegun {
    /// The application's word for it.
    pub context: Context,
    /// What it would have been.
    pub kind: OpKind,
    /// Of an atomic operation: it would have brought something back.
    pub fetches: bool,
    /// Of a receive: its buffer was for many messages.
    pub many: bool,
}

/// What becomes of the message that a probe finds (`fi_tagged(3)`, `FI_PEEK`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Probe {
    /// It stays as it was.
    Look,
    /// It is kept for the receive with the same context (`FI_CLAIM`).
    Claim,
    /// It is dropped (`FI_DISCARD`).
    Discard,
}

/// Memory of a peer: a key that it gave out, and the address of the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Remote {
    /// The key of the region.
    pub key: u64,
    /// Where in the region, as its owner counts ([`RegionRequest::address`](crate::RegionRequest)).
    pub address: u64,
}

/// A request to write to a peer's memory (`fi_rma(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WriteRequest {
    /// Target, context, conditions.
    pub common: Common,
    /// Bytes to write.
    pub len: u64,
    /// Where to.
    pub remote: Remote,
    /// Remote CQ data: the target gets a completion with it when everything is in place.
    pub data: Option<u64>,
}

/// A request to read a peer's memory (`fi_rma(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadRequest {
    /// Target, context, conditions.
    pub common: Common,
    /// Bytes to read.
    pub len: u64,
    /// Where from.
    pub remote: Remote,
}

/// What an atomic operation brings back (`fi_atomic(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicForm {
    /// Nothing: `fi_atomic`.
    Base,
    /// The former contents: `fi_fetch_atomic`.
    Fetch,
    /// The former contents, and the op has values to compare with: `fi_compare_atomic`.
    Compare,
}

/// A request for an atomic operation on a peer's memory. Its buffer holds the operands and, of a
/// compare operation, the values to compare with behind them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtomicRequest {
    /// Target, context, conditions.
    pub common: Common,
    /// Where to.
    pub remote: Remote,
    /// Which of the three calls.
    pub form: AtomicForm,
    /// Type of the elements.
    pub datatype: Datatype,
    /// What is done to each.
    pub op: AtomicOp,
    /// How many elements; together at most [`ATOMIC_LEN_MAX`](crate::ATOMIC_LEN_MAX) bytes.
    pub count: u16,
}
