// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection of a connected endpoint, as its runtime knows it, and the [`Observer`] of its
//! changes. The methods are in `connection`.

use ofi_xdp_core::{Instant, PeerId};

use crate::sys::abi::fi_addr_t;

/// The address of the one peer in the endpoint's table.
pub(crate) const PEER: fi_addr_t = 0;

/// Learns of the changes of a connection, under the lock of the runtime: it calls no runtime.
pub(crate) trait Observer: std::fmt::Debug + Send + Sync {
    /// Both sides know of the connection.
    fn connected(&self);

    /// The connection, or the attempt at one, has ended. All operations have completed.
    fn disconnected(&self);
}

/// The connection as the observer knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum PeerLink {
    /// The peer is not known yet.
    #[default]
    Unnamed,
    /// The peer is known; the connection opens, until this time at the latest.
    Opening(PeerId, Instant),
    /// Both sides know of the connection.
    Open(PeerId),
    /// The connection has ended. An endpoint has one connection in its life (`fi_connect(3)`).
    Ended,
}

impl PeerLink {
    /// When the attempt at a connection ends, if one is made.
    pub(super) const fn opens_until(self) -> Option<Instant> {
        match self {
            Self::Opening(_, until) => Some(until),
            Self::Unnamed | Self::Open(_) | Self::Ended => None,
        }
    }
}
