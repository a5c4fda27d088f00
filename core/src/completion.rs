// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the application is told of an operation's end.

use crate::{Context, OpId, PeerId, RecvId};

/// Which call an operation came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// A send; `fi_msg(3)`, or `fi_tagged(3)` if tagged.
    Send {
        /// Whether it carried a tag.
        tagged: bool,
    },
    /// A receive; `fi_msg(3)`, or `fi_tagged(3)` if tagged.
    Recv {
        /// Whether it matched a tag.
        tagged: bool,
    },
    /// A write to a peer's memory; `fi_rma(3)`.
    Write,
    /// A read of a peer's memory; `fi_rma(3)`.
    Read,
    /// An atomic operation on a peer's memory; `fi_atomic(3)`.
    Atomic,
    /// A peer has written here and sent data along: `FI_REMOTE_CQ_DATA`, `FI_REMOTE_WRITE`.
    RemoteWrite,
}

/// An operation that was deferred (`fi_trigger(3)`), by the name that it got when it was posted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeferredId {
    /// A send, a write, a read, an atomic operation.
    Op(OpId),
    /// A receive.
    Recv(RecvId),
}

/// Why an operation ended without success.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum OpError {
    /// The application cancelled it.
    #[error("cancelled by the application")]
    Cancelled,
    /// The peer closed its endpoint, or the local side removed the peer.
    #[error("the peer closed its endpoint or was removed")]
    Closed,
    /// The peer's process was restarted, or it forgot this connection: whether the operation took
    /// effect is unknown.
    #[error("the peer restarted; whether the operation took effect is unknown")]
    Reset,
    /// Nothing was heard from the peer for the death time.
    #[error("no answer from the peer within the death time")]
    TimedOut,
    /// A probe found no message that fits.
    #[error("no message waits that fits")]
    NoMessage,
    /// The message was longer than the receive's buffer; the buffer holds its beginning.
    #[error("the message is longer than the receive buffer")]
    Truncated,
    /// No handshake came about within the death time.
    #[error("the peer did not answer the handshake within the death time")]
    Unreachable,
    /// The peer knows no such key (any more), or gave no right to this kind of access.
    #[error("the key is not valid for this access to the peer's memory")]
    Key,
    /// The range is not inside the peer's region.
    #[error("the range is outside the peer's memory region")]
    Bounds,
    /// The peer does not know this combination of datatype, op and length.
    #[error("the peer does not support this operation")]
    Unsupported,
}

/// One finished operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The application's context for the operation.
    pub context: Context,
    /// Which call it came from.
    pub kind: OpKind,
    /// The destination of a send, the source of a receive; [`PeerId::NONE`] for a receive that
    /// never matched.
    pub peer: PeerId,
    /// Bytes sent, written or read, or bytes placed in the receive's buffer. Of a remote write, all
    /// bytes that it wrote; of a probe, the length of the message.
    pub len: u64,
    /// Bytes of the message that did not fit the receive's buffer; 0 unless `Truncated`.
    pub overflow: u64,
    /// The message's tag (0 if untagged).
    pub tag: u64,
    /// Remote CQ data that came with the message.
    pub data: Option<u64>,
    /// Of a message in a buffer for many, or of a receive from a shared queue: the name under which
    /// [`Memory`](crate::Memory) has the place of its bytes
    /// ([`attach_part`](crate::Memory::attach_part)).
    pub part: Option<RecvId>,
    /// The buffer for many messages that this is about is the application's again.
    pub released: bool,
    /// Success, or why not.
    pub outcome: Result<(), OpError>,
}
