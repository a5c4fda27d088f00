// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets outside of the stream of a connection, as they wait to be sent.

use crate::collections::serial::Psn;
use crate::peer::Peer;
use crate::wire::{Header, Token};
use crate::{PeerAddress, PeerId};

/// Packets that can wait to be sent: two for each timer that one call fires, and for each packet of
/// a batch.
pub(crate) const STATELESS_QUEUE_MAX: usize = 128;

/// A packet outside of the stream of a connection, to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StatelessPacket {
    /// The hello of a connection that this side opens.
    Hello(PeerId),
    /// Agreement to the peer's hello.
    HelloAck(PeerId),
    /// Demand of a cookie, to the sender of a hello with this `cid` and `incarnation`.
    Retry { to: PeerAddress, cid: PeerId, incarnation: u64, cookie: u64 },
    /// Notice that no such connection exists, to the sender of a packet with these numbers.
    Reset { to: PeerAddress, cid: PeerId, token: u32, psn: Psn, ack: Psn },
    /// Close notification, with the numbers that were received and the errors that were issued.
    Close { to: PeerAddress, cid: PeerId, token: Token, psn: Psn, msn: u16, errors: u8 },
    /// Answer to a peer's probes of the path MTU: the largest `size` that arrived in a `round`.
    ProbeAck { peer: PeerId, round: u16, size: u16 },
}

impl StatelessPacket {
    /// The notice that the connection of the packet with `header` does not exist. It repeats the
    /// numbers of that packet, and is not longer.
    pub(crate) const fn reset(header: &Header, to: PeerAddress) -> Self {
        let (cid, token) = (header.dst_cid(), header.token());
        Self::Reset { to, cid, token, psn: header.psn(), ack: header.ack_psn() }
    }

    /// The close notification of a peer with numbers that are up to date.
    pub(crate) fn close(peer: &Peer) -> Self {
        Self::Close {
            to: peer.address(),
            cid: peer.remote_cid(),
            token: peer.token(),
            psn: peer.expected_psn(),
            msn: peer.expected_msn().0 as u16,
            errors: peer.errors_issued(),
        }
    }
}
