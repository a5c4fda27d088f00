// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions: the end of an operation, as the application sees it.

use crate::{Context, OpId, PeerId, RecvId};

/// The call that an operation came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OpKind {
    /// A send; `fi_msg(3)`, or `fi_tagged(3)` if tagged.
    Send {
        /// Whether the message carried a tag.
        tagged: bool,
    },
    /// A receive; `fi_msg(3)`, or `fi_tagged(3)` if tagged.
    Recv {
        /// Whether the receive matched a tag.
        tagged: bool,
    },
    /// A write to a peer's memory; `fi_rma(3)`.
    Write,
    /// A read of a peer's memory; `fi_rma(3)`.
    Read,
    /// An atomic operation on a peer's memory; `fi_atomic(3)`.
    Atomic,
    /// A peer's write into local memory with remote CQ data: `FI_REMOTE_CQ_DATA`,
    /// `FI_REMOTE_WRITE`.
    RemoteWrite,
}

/// An operation of deferred work (`fi_trigger(3)`), by the identifier that posting returned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DeferredId {
    /// A send, a write, a read, an atomic operation.
    Op(OpId),
    /// A receive.
    Recv(RecvId),
}

/// The reason of an operation's failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum OpError {
    /// The application cancelled the operation.
    #[error("cancelled by the application")]
    Cancelled,
    /// The peer closed its endpoint, or the local side removed the peer.
    #[error("the peer closed its endpoint or was removed")]
    Closed,
    /// The peer's process was restarted, or it forgot this connection. The operation may or may not
    /// have taken effect.
    #[error("the peer restarted; whether the operation took effect is unknown")]
    Reset,
    /// No packet came from the peer for the peer time-out.
    #[error("no answer from the peer within the peer_timeout time")]
    TimedOut,
    /// A peek found no message that matches.
    #[error("no message waits that fits")]
    NoMessage,
    /// The message was longer than the receive's buffer; the buffer holds its beginning.
    #[error("the message is longer than the receive buffer")]
    Truncated,
    /// No handshake succeeded within the peer time-out.
    #[error("the peer did not answer the handshake within the peer_timeout time")]
    Unreachable,
    /// The peer does not know the key (any more), or the region does not permit this access.
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
    /// The call that the operation came from.
    pub kind: OpKind,
    /// The destination of a send, the source of a receive; for a receive that never matched the
    /// source that it names, or [`PeerId::NONE`].
    pub peer: PeerId,
    /// Bytes sent, written or read, or bytes placed in the receive's buffer. For a remote write:
    /// all bytes of the write. For a peek: the length of the message.
    pub len: u64,
    /// Bytes of the message that did not fit the receive's buffer; 0 unless `Truncated`.
    pub overflow: u64,
    /// The message's tag (0 if untagged).
    pub tag: u64,
    /// Remote CQ data that came with the message. Datagrams have none: there it is 0 for one that
    /// was sent to a group ([`Datagram::to_group`](crate::Datagram::to_group)).
    pub data: Option<u64>,
    /// For a slice of a multi-receive buffer, or a receive of a shared queue: the identifier under
    /// which [`Memory`](crate::Memory) finds its bytes
    /// ([`attach_slice`](crate::Memory::attach_slice)).
    pub slice: Option<RecvId>,
    /// The multi-receive buffer of this completion belongs to the application again.
    pub ends_buffer: bool,
    /// Success, or the reason of the failure.
    pub outcome: Result<(), OpError>,
}
