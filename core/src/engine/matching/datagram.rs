// SPDX-License-Identifier: MIT OR Apache-2.0
//! Datagrams that arrive (`FI_EP_DGRAM`): each is a message, whatever its bytes are.
//!
//! In: a packet of any sender. Out: a completed receive, or a stored message, or a counted drop
//! where the storage is full or the host of an unnamed sender has its share. Nothing is kept of a
//! sender. Bound: one search.

use crate::api::hosts::Host;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::operation::Unexpected;
use crate::wire::Envelope;
use crate::{Datagram, DropReason, Memory, PeerId};

impl Matcher<'_> {
    /// Completes the first receive that takes a datagram, or stores it.
    pub(crate) fn receive_datagram<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        datagram: &Datagram<'_>,
        memory: &mut M,
    ) {
        cx.stats.packets_received += 1;
        let peer = cx.table.datagram_source(datagram.from);
        // A datagram has no data of its sender.
        let data = datagram.to_group.then_some(0);
        let total = datagram.bytes.len() as u64;
        let envelope = Envelope { total, data, ..Envelope::default() };
        if let Some(recv) = self.match_posted(cx, peer, &envelope, memory) {
            let id = self.recv_id(recv);
            self.place_in_recv(cx, id, 0, datagram.bytes, false, memory);
            cx.completions.finish_recv(&mut self.recvs, recv);
        } else {
            let host = peer.is_none().then(|| cx.table.host_of(&datagram.from));
            if !self.store_datagram(cx, (peer, host), (&envelope, datagram.bytes), memory) {
                cx.stats.count_drop(DropReason::NoReceive);
                return;
            }
        }
        cx.stats.messages_accepted += 1;
    }

    /// Stores a datagram that no receive takes. Returns whether there was room.
    #[cold]
    fn store_datagram<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        (peer, host): (PeerId, Option<Host>),
        (envelope, bytes): (&Envelope, &[u8]),
        memory: &mut M,
    ) -> bool {
        let envelope = *envelope;
        let message = Unexpected { peer, host, envelope, complete: true, ..Unexpected::default() };
        let Some(slot) = self.unexpected.alloc(envelope.total, message) else { return false };
        self.place_in_store(cx, slot, 0, bytes, false, memory);
        self.queue_stored(cx, slot);
        true
    }
}
