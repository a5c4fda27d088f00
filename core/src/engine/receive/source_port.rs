// SPDX-License-Identifier: MIT OR Apache-2.0
//! Source ports (`docs/PROTOCOL.md` §13): requests to the peer about packets that arrive by another
//! queue, and requests of the peer.
//!
//! In: the latest packet of a connection, if the port wants another source port for it; a request.
//! Out: a request that is due; advice for the port. Callers: `ingest.rs`, and the sender of packets
//! without payload. Bounds: those of [`PortRequests`](crate::peer::port_requests::PortRequests).

use crate::collections::time::Tick;
use crate::engine::ctx::Ctx;
use crate::peer::Extra;
use crate::peer::slots::ConnSlot;
use crate::wire::{Header, PortRequestBody};
use crate::{Datagram, PathAdvice};

impl Ctx<'_> {
    /// The latest packet of a connection arrived by another queue than that of the port's socket.
    /// One that is not `judged` causes no request.
    #[cold]
    pub(crate) fn arrived_by_other_queue(
        &mut self,
        conn: ConnSlot,
        header: &Header,
        datagram: &Datagram<'_>,
        judged: bool,
    ) {
        let peer = self.table.peer_id(self.table[conn].peer());
        let wanted = (datagram.from.port(), datagram.wanted);
        let sent_at = Tick::from_bits(header.sent_at());
        if !judged {
            return self.port_requests.overtaken(peer, sent_at);
        }
        let round_trip = self.table[conn].path().rtt().smoothed();
        let times = (self.timers.tick(), round_trip);
        if self.port_requests.arrived(peer, wanted, sent_at, times) {
            self.table[conn].path_mut().set_extra(Extra::PORT_REQUEST, true);
            self.table.make_ready(conn);
        }
    }

    /// The request for another source port that is to be sent, if it still holds.
    pub(crate) fn port_request(&mut self, conn: ConnSlot) -> Option<PortRequestBody> {
        let state = &self.table[conn];
        let latest = state.rx().newest_sent_at();
        let peer = self.table.peer_id(state.peer());
        self.port_requests.of(peer, latest)
    }

    /// Passes a request of the peer on to the port.
    #[cold]
    pub(crate) fn follow_port_request(&mut self, conn: ConnSlot, request: &PortRequestBody) {
        let (source, wanted) = (request.source.get(), request.wanted());
        self.advise(conn, PathAdvice::Wanted { source, wanted });
    }
}
