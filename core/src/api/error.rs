// SPDX-License-Identifier: MIT OR Apache-2.0
//! Error types, one for each kind of call.

use super::limits::PACKET_LEN_MIN;

/// The reason for refusing a request. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum PostError {
    /// No slot for this kind of operation, or no connection, is free: poll completions, make
    /// progress, try again (`-FI_EAGAIN`).
    #[error("no free slot; poll completions and retry")]
    Again,
    /// The length is beyond [`MESSAGE_LEN_MAX`](crate::MESSAGE_LEN_MAX) or, for an atomic, beyond
    /// [`ATOMIC_LEN_MAX`](crate::ATOMIC_LEN_MAX), or the range wraps (`-FI_EMSGSIZE`).
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

/// The reason for refusing a memory region.
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

/// The reason for refusing a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum PeersFull {
    /// Every slot is taken: remove a peer.
    #[error("the peer table is full")]
    Full,
    /// Each free slot is quarantined: try again in 128 ms at the latest.
    #[error("every free slot of the peer table was in use a moment ago")]
    Quarantined,
}

/// The identifier names no object (any more).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error("no such object")]
pub struct Unknown;

/// The reason for refusing an engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum ConfigError {
    /// The port's packets cannot hold the headers and one unit of payload.
    #[error("the port's largest packet is below {} bytes", PACKET_LEN_MIN)]
    PayloadTooSmall,
    /// A slice of the storage does not have the length that the configuration asks for.
    #[error("storage slice `{0}` has the wrong length")]
    Storage(&'static str),
    /// A capacity is zero, or exceeds the range of its identifiers.
    #[error("capacity `{0}` is zero or too large")]
    Capacity(&'static str),
    /// There is no memory for a slice of the storage.
    #[error("no memory for storage slice `{0}`")]
    NoMemory(&'static str),
}
