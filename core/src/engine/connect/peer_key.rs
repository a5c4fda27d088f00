// SPDX-License-Identifier: MIT OR Apache-2.0
//! The key of a peer in the index of the connection table.

use crate::collections::index::IndexKey;
use crate::collections::secret::sip_hash;
use crate::peer::Peer;
use crate::{PeerAddress, PeerId};

/// An address, and with it the name that the engine there has for the connection. Connected
/// endpoints have many peers at one address; elsewhere the name is [`PeerId::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PeerKey {
    pub(super) address: PeerAddress,
    pub(super) cid: PeerId,
}

impl PeerKey {
    /// The key of a peer; `is_connected`: of a connected endpoint.
    pub(super) fn of(peer: &Peer, is_connected: bool) -> Self {
        let cid = if is_connected { peer.remote_cid() } else { PeerId::NONE };
        Self { address: peer.address(), cid }
    }
}

impl IndexKey for PeerKey {
    fn hash(&self, secret: [u64; 2]) -> u64 {
        let [high, low, port] = self.address.words();
        // A port has 16 bits.
        sip_hash(secret, &[high, low, port | u64::from(!self.cid.bits()) << 16])
    }
}
