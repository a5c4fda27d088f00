// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resets and closes that arrive (`docs/PROTOCOL.md` §5.4, §5.5): the peer does not have the
//! connection.
//!
//! In: a reset from anywhere, a close of a connection. Out: the end of the connection, or a ping
//! that asks the peer to confirm it. Bound: one ping at a time, and the operations and messages of
//! the connection that ends.

use crate::collections::slab::SlotIndex;
use crate::engine::connect::teardown::end_connection;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::Extra;
use crate::peer::slots::ConnSlot;
use crate::wire::Header;
use crate::{DropReason, OpError, PeerAddress};

/// Ends a connection for a reset with exact numbers. These are the token, the number that this side
/// acknowledges, and the number of a packet in flight or of a ping. A reset with the right token
/// and other numbers may answer a late packet: a ping asks the peer again (RFC 5961 §3.2). A peer
/// that has no such connection answers with the numbers of the ping.
pub(crate) fn process_reset(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    header: &Header,
    from: PeerAddress,
) -> Result<(), DropReason> {
    let slot = cx.table.find_peer(from, header.dst_cid()).ok_or(DropReason::UnknownConnection)?;
    let peer = &cx.table.peers[slot];
    let (conn, token) = (peer.connection(), peer.token());
    if !peer.is_established() || token.low() != header.token() {
        return Err(DropReason::UnprovenReset);
    }
    let answers_ping = header.psn().0 == token.high();
    if conn.is_some() {
        let state = &cx.table.connections[conn];
        let in_flight = header.psn().since(state.tx().first_psn()) < state.tx().under_way();
        let next = state.rx().receive_window().next();
        if !(in_flight || answers_ping) || header.ack_psn() != next {
            return cx.challenge(conn);
        }
    } else if !answers_ping || header.ack_psn() != peer.expected_psn() {
        // The connection rests: the answer to its last ping took longer than that.
        return Err(DropReason::UnprovenReset);
    }
    log::info!("peer {}: {}", peer.address(), OpError::Reset);
    end_connection(cx, sender, matcher, slot, OpError::Reset);
    Ok(())
}

impl Ctx<'_> {
    /// Whether a close acknowledges all packets, or all before one in flight. No packet of its
    /// sender follows it, so its acknowledgment is never an old one.
    pub(crate) fn has_exact_numbers(&self, conn: ConnSlot, close: &Header) -> bool {
        let tx = self.table.connections[conn].tx();
        close.ack_psn().since(tx.first_psn()) <= tx.under_way()
    }

    /// Asks a peer whether the connection exists there. The reset, or the close, is dropped while a
    /// ping, or a packet in flight, asks the same.
    pub(crate) fn challenge(&mut self, conn: ConnSlot) -> Result<(), DropReason> {
        let state = &mut self.table.connections[conn];
        if state.path().extra().contains(Extra::PING) || !state.tx().all_acknowledged() {
            return Err(DropReason::UnprovenReset);
        }
        state.path_mut().set_extra(Extra::PING, true);
        self.table.make_ready(conn);
        Ok(())
    }
}
