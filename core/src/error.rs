// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small error enums, one per kind of call.

/// Why a request was not accepted. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum PostError {
    /// Every slot for this kind of operation, or for active peers, is taken: poll completions, make
    /// progress, try again (`-FI_EAGAIN`).
    #[error("no free slot; poll completions and retry")]
    Again,
    /// It is longer than [`MESSAGE_LEN_MAX`](crate::MESSAGE_LEN_MAX) or, of an atomic,
    /// [`ATOMIC_LEN_MAX`](crate::ATOMIC_LEN_MAX), or its range wraps (`-FI_EMSGSIZE`).
    #[error("longer than the protocol can carry")]
    TooLong,
    /// No such combination of atomic form, datatype and op (`-FI_EOPNOTSUPP`).
    #[error("no such combination of form, datatype and op")]
    Unsupported,
    /// The peer was never inserted, or was removed (`-FI_EINVAL`).
    #[error("no such peer")]
    UnknownPeer,
    /// No message was claimed with this context (`-FI_EINVAL`).
    #[error("no message was claimed with this context")]
    NotClaimed,
}

/// Why memory cannot be registered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum RegionError {
    /// No slot for another region.
    #[error("no room for another memory region")]
    Full,
    /// Another region has this key.
    #[error("the memory key is in use")]
    KeyInUse,
    /// The range goes beyond the end of the address space.
    #[error("the memory region goes beyond the end of the address space")]
    Wraps,
}

/// Why a peer cannot be added.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum PeersFull {
    /// Every slot is taken: remove a peer.
    #[error("the peer table is full")]
    Full,
    /// Every free slot was a removed peer's until a moment ago: try again in 128 ms at the latest.
    #[error("every free slot of the peer table was in use a moment ago")]
    Resting,
}

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
