// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small error enums, one per kind of call.

/// Why a request was not accepted. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum PostError {
    /// Every slot for this kind of operation, or for active peers, is taken: poll completions, make
    /// progress, try again (`-FI_EAGAIN`).
    #[error("no free slot; poll completions and retry")]
    Again,
    /// The message is longer than [`MESSAGE_LEN_MAX`](crate::MESSAGE_LEN_MAX) (`-FI_EMSGSIZE`).
    #[error("the message is longer than the protocol can carry")]
    TooLong,
    /// The peer was never inserted, or was removed (`-FI_EINVAL`).
    #[error("no such peer")]
    UnknownPeer,
}

/// The peer table is full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("the peer table is full")]
pub struct PeersFull;

/// The identifier names nothing (any more).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("no such object")]
pub struct Unknown;

/// Why an engine cannot be built.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The port's packets cannot hold the headers and one unit of payload.
    #[error("the port's largest packet is below {} bytes", crate::wire::PACKET_LEN_MIN)]
    PayloadTooSmall,
    /// A slice of the storage does not have the length that the configuration asks for.
    #[error("storage slice `{0}` has the wrong length")]
    Storage(&'static str),
    /// A capacity is zero, or beyond what its identifiers can name.
    #[error("capacity `{0}` is zero or too large")]
    Capacity(&'static str),
}
