// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of the application: one type for each class of libfabric call.

use crate::api::atomic::{AtomicForm, AtomicOp, Datatype};
use crate::api::matching::{Envelope, TagMatch, matches};
use crate::{Context, OpKind, PeerId};

/// Fields that each operation of an initiator has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Common {
    /// The other side.
    pub peer: PeerId,
    /// The application's context.
    pub context: Context,
    /// Whether success makes a completion; failure always does.
    pub signal: bool,
    /// Whether more requests follow at once (`FI_MORE`), so that this one may wait for them.
    pub more: bool,
    /// Whether the operation begins only when all earlier operations to this peer have ended
    /// (`FI_FENCE`).
    pub fence: bool,
}

impl Common {
    /// An operation with `peer` that makes a completion, without further conditions.
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

/// A request to receive a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecvRequest {
    /// Only from this peer, or from any.
    pub from: Option<PeerId>,
    /// Length of the buffer in bytes.
    pub len: u64,
    /// The application's context.
    pub context: Context,
    /// The tags that the receive takes; `None`: untagged messages only.
    pub tag: Option<TagMatch>,
    /// Whether success makes a completion; failure always does.
    pub signal: bool,
}

impl RecvRequest {
    /// Whether a message from `peer` matches this request.
    #[inline]
    pub(crate) fn takes(&self, peer: PeerId, envelope: &Envelope) -> bool {
        matches((self.from, self.tag), (peer, envelope.tag))
    }
}

/// A deferred operation that is never posted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UnstartedOp {
    /// The application's context.
    pub context: Context,
    /// The kind of operation.
    pub kind: OpKind,
    /// For an atomic operation: whether it has a response value.
    pub fetches: bool,
    /// For a receive: whether its buffer is a multi-receive buffer.
    pub multi: bool,
    /// The peer of a connected endpoint, or [`PeerId::NONE`].
    pub peer: PeerId,
}

/// The effect of a peek on the message that it finds (`fi_tagged(3)`, `FI_PEEK`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Peek {
    /// The message stays as it was.
    Envelope,
    /// The message is kept for the receive with the same context (`FI_CLAIM`).
    Claim,
    /// The message is dropped (`FI_DISCARD`).
    Discard,
}

/// Memory of a peer: a key that the peer gave out, and the address of the first byte.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Remote {
    /// The key of the region.
    pub key: u64,
    /// The address in the region, as its owner counts
    /// ([`RegionRequest::address`](crate::RegionRequest)).
    pub address: u64,
}

/// A request to write to a peer's memory (`fi_rma(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WriteRequest {
    /// Target, context, conditions.
    pub common: Common,
    /// Bytes to write.
    pub len: u64,
    /// The destination.
    pub remote: Remote,
    /// Remote CQ data: the target gets a completion with it when all bytes are in place.
    pub data: Option<u64>,
}

/// A request to read a peer's memory (`fi_rma(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadRequest {
    /// Target, context, conditions.
    pub common: Common,
    /// Bytes to read.
    pub len: u64,
    /// The source.
    pub remote: Remote,
}

/// A request for an atomic operation on a peer's memory. Its buffer holds the operands and, for a
/// compare operation, the values to compare with behind them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AtomicRequest {
    /// Target, context, conditions.
    pub common: Common,
    /// The target memory.
    pub remote: Remote,
    /// The form: one of the three calls.
    pub form: AtomicForm,
    /// Type of the elements.
    pub datatype: Datatype,
    /// The operation on each element.
    pub op: AtomicOp,
    /// The number of elements; together at most [`ATOMIC_LEN_MAX`](crate::ATOMIC_LEN_MAX) bytes.
    pub count: u16,
}
