// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of an agent, and its reasons for refusing a call.
//!
//! In: nothing; these are types. Out: values for the owner of an agent, which reads them. Bound: an
//! exchange has at most one event that was not read.

use crate::PeerAddress;
use crate::api::limits::CONNECT_DATA_MAX;
use crate::wire::RejectReason;

/// An exchange of an agent: a connection that is being made, from one side. An identifier never
/// names a later exchange: its generation has 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RequestId {
    pub(super) number: u32,
    pub(super) generation: u32,
}

impl RequestId {
    /// The identifier as one number, for example as a handle.
    #[must_use]
    pub const fn bits(self) -> u64 {
        (self.generation as u64) << 32 | self.number as u64
    }

    /// The identifier with these [`Self::bits`].
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self { number: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A change that the owner of an agent learns, once. All but [`Self::Requested`] are terminal: the
/// agent does nothing more for the exchange than to repeat its last answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectEvent {
    /// Listener: a request came in; its data is in [`Agent::data`]. Accept or reject it.
    ///
    /// [`Agent::data`]: super::Agent::data
    Requested {
        /// The request.
        id: RequestId,
        /// The address of the initiator's agent.
        from: PeerAddress,
        /// The initiator's data port, at the IP address of its agent.
        data_address: PeerAddress,
    },
    /// Initiator: the request was accepted; data in [`Agent::data`].
    ///
    /// [`Agent::data`]: super::Agent::data
    Connected {
        /// The request.
        id: RequestId,
        /// The data port of the listener's side.
        peer: PeerAddress,
    },
    /// Listener: the initiator has confirmed that it received the acceptance.
    Established {
        /// The request.
        id: RequestId,
        /// The data port of the initiator.
        peer: PeerAddress,
    },
    /// Initiator: the request was rejected; data in [`Agent::data`].
    ///
    /// [`Agent::data`]: super::Agent::data
    Rejected {
        /// The request.
        id: RequestId,
        /// The reason.
        reason: RejectReason,
    },
    /// Initiator: nothing was received for the connect time-out.
    TimedOut {
        /// The request.
        id: RequestId,
    },
    /// Initiator: the network reported that the listener cannot be reached, before any answer.
    Unreachable {
        /// The request.
        id: RequestId,
        /// The code that the caller gave to [`Agent::unreachable`].
        ///
        /// [`Agent::unreachable`]: super::Agent::unreachable
        code: i32,
    },
    /// Listener: the initiator cancelled the request, or nothing was received of it for the connect
    /// time-out, before it was accepted or rejected.
    RequestGone {
        /// The request.
        id: RequestId,
    },
    /// Listener: the initiator did not confirm the acceptance in the connect time-out, or has
    /// cancelled.
    AcceptFailed {
        /// The request.
        id: RequestId,
    },
}

impl ConnectEvent {
    /// The exchange that the event belongs to.
    #[must_use]
    pub const fn id(&self) -> RequestId {
        match *self {
            Self::Requested { id, .. }
            | Self::Connected { id, .. }
            | Self::Established { id, .. }
            | Self::Rejected { id, .. }
            | Self::TimedOut { id }
            | Self::Unreachable { id, .. }
            | Self::RequestGone { id }
            | Self::AcceptFailed { id } => id,
        }
    }
}

/// The reason for refusing a new request. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum ConnectError {
    /// Every slot for requests of this side is in use: release some.
    #[error("no room for another connection request")]
    Full,
    /// The data is longer than [`CONNECT_DATA_MAX`].
    #[error("connection data beyond {CONNECT_DATA_MAX} bytes")]
    TooLong,
}

/// The reason for refusing an answer to a request. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum AnswerError {
    /// The request has ended, was answered before, or never was.
    #[error("the connection request has ended")]
    Gone,
    /// The data is longer than [`CONNECT_DATA_MAX`].
    #[error("connection data beyond {CONNECT_DATA_MAX} bytes")]
    TooLong,
}
