// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the application is told of an operation's end.

use crate::{Context, PeerId};

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
    /// The message was longer than the receive's buffer; the buffer holds its beginning.
    #[error("the message is longer than the receive buffer")]
    Truncated,
    /// No handshake came about within the death time.
    #[error("the peer did not answer the handshake within the death time")]
    Unreachable,
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
    /// Bytes sent, or bytes placed in the receive's buffer.
    pub len: u64,
    /// Bytes of the message that did not fit the receive's buffer; 0 unless `Truncated`.
    pub overflow: u64,
    /// The message's tag (0 if untagged).
    pub tag: u64,
    /// Remote CQ data that came with the message.
    pub data: Option<u64>,
    /// Success, or why not.
    pub outcome: Result<(), OpError>,
}
