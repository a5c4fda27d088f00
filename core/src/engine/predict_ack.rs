// SPDX-License-Identifier: MIT OR Apache-2.0
//! The acknowledgment that nearly always comes: newer than all before it, of packets that arrived
//! in order, from a peer in good order. As `predict.rs` is for data: what it does is what
//! `ingest.rs` would do, step by step, and whatever is not as predicted goes that way.
//!
//! Who sends to many peers in turn gets one for each message. In: bytes from anybody. Out: packets
//! retired, operations ended. Bound: the packets that it acknowledges.

use super::Engine;
use super::ingest::hear;
use super::predict::{Acquaintance, accept_until};
use crate::Datagram;
use crate::serial::Msn;
use crate::wire::{Ack, Header, plain_ack};

impl Engine<'_> {
    /// Takes in `datagram` if it is as predicted; else changes nothing and returns false.
    #[inline]
    pub(super) fn ingest_expected_ack(&mut self, datagram: &Datagram<'_>) -> bool {
        let Some((header, ack)) = plain_ack(datagram.bytes) else { return false };
        let Some((active, accepted)) = self.expects_ack(header, datagram) else { return false };
        if !header.is_sound(datagram.bytes, self.config.checksum) {
            return false;
        }
        self.take_expected_ack((active, accepted), header, ack, datagram.congestion_experienced);
        true
    }

    /// Whether an acknowledgment is as predicted, if its checksum is right: whose it is, and the
    /// message that the peer will accept next.
    #[inline(always)]
    fn expects_ack(&self, header: &Header, datagram: &Datagram<'_>) -> Option<(u32, Msn)> {
        let Acquaintance { active, accepted, .. } = self.acquaintance(header, datagram.from)?;
        let state = &self.actives[active];
        let acknowledged = header.ack_psn().since(state.first_psn);
        (acknowledged <= state.next_psn.since(state.first_psn)).then_some((active, accepted))
    }

    /// Takes an acknowledgment in that is as predicted.
    #[inline(always)]
    fn take_expected_ack(
        &mut self,
        (active, accepted): (u32, Msn),
        header: &Header,
        ack: &Ack,
        marked: bool,
    ) {
        let now = self.tick();
        hear(&mut self.actives[active], now, header, marked, true);
        self.measure(active, header, ack);
        let advanced = accept_until(&mut self.actives[active], accepted);
        let upto = header.ack_psn();
        let state = &self.actives[active];
        if state.first_psn.is_before(upto) {
            if let Some((sent_at, number)) = self.expects_end(state, header, accepted) {
                self.end_expected(active, upto, sent_at, number);
                self.finish_send(number);
            } else {
                let news = self.retire(active, upto, true);
                self.actives[active].news(news, now);
            }
        }
        if advanced && !self.actives[active].sends.list.is_empty() {
            self.end_accepted(active);
        }
        self.after_packet(active, self.now);
    }
}
