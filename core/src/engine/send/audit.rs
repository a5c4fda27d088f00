// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the sender's state, for tests.

use crate::collections::slab::SlotIndex;
use crate::engine::completions::Completions;
use crate::engine::ending::Ending;
use crate::engine::send::Sender;
use crate::engine::violation::{Violation, length, sound};
use crate::peer::Connection;
use crate::peer::operation::{RENDEZVOUS_READS, TxKind};
use crate::peer::packet_record::TxFlags;
use core::hash::{Hash, Hasher};

impl Sender<'_> {
    /// Checks that free and used slots of the pools add up.
    pub(crate) fn audit_pools(&self) -> Result<(), Violation> {
        sound("ops", &self.ops)?;
        if self.in_flight.is_sound() { Ok(()) } else { Err(Violation::Pool("chunks")) }
    }

    /// Checks the operations and the packet records of a connection.
    pub(crate) fn audit_connection(&mut self, state: &Connection) -> Result<(), Violation> {
        let (mut reads, mut ends, mut slot) = (0, 0, state.responses().list().head());
        while slot.is_some() {
            let op = &self.ops[slot];
            reads += u8::from(matches!(op.kind, TxKind::RendezvousRead { .. }));
            ends += u8::from(matches!(op.kind, TxKind::Fin { .. }));
            slot = op.links.next();
        }
        let (mut asking, mut slot) = (0, state.sends().list().head());
        while slot.is_some() {
            let op = &self.ops[slot];
            let is_asked = op.is_request() && (op.sent > 0 || op.all_sent);
            asking += if is_asked { op.open_requests() } else { 0 };
            slot = op.links.next();
        }
        let credits = state.credits();
        let counted =
            (credits.rendezvous_reads(), credits.rendezvous_slots(), u64::from(credits.asking()));
        if (reads, reads + ends, asking) != counted {
            return Err(Violation::Credits);
        }
        let (mut sacked, mut lost) = (0, 0);
        for psn in state.tx().psns() {
            let Some(record) = state.tx().record(&self.in_flight, psn) else {
                return Err(Violation::PacketCounts);
            };
            if record.flags.contains(TxFlags::ACKED | TxFlags::LOST) {
                return Err(Violation::PacketCounts);
            }
            sacked += u16::from(record.flags.contains(TxFlags::ACKED));
            lost += u16::from(record.flags.contains(TxFlags::LOST));
        }
        let counted = (sacked, lost) == (state.tx().sacked(), state.tx().lost());
        if counted { Ok(()) } else { Err(Violation::PacketCounts) }
    }

    /// How many operations of a connection are queued.
    pub(crate) fn queued(&mut self, state: &Connection) -> u32 {
        length(*state.sends().list(), &mut self.ops)
            + length(*state.responses().list(), &mut self.ops)
    }

    /// As [`Self::queued`], of ended connections.
    pub(crate) fn queued_to_end(&mut self, ending: &Ending) -> u32 {
        length(ending.lists().0, &mut self.ops)
    }

    /// Whether the operations in lists, `queued` of them with their connections, are all that
    /// exist, and are counted for their endpoints.
    pub(crate) fn lists_add_up(&mut self, completions: &Completions<'_>, queued: u32) -> bool {
        let queued = queued + length(self.datagrams, &mut self.ops);
        queued + completions.finished_sends(&mut self.ops) == self.ops.used_in_all()
            && completions.link_slots().sends_add_up(&self.ops)
    }

    /// Slots for responses that are reserved for no peer.
    pub(crate) const fn spare_responders(&self) -> u32 {
        self.responders_spare
    }

    /// How many requests for bytes of long messages exist.
    pub(crate) fn rendezvous_reads(&self) -> u32 {
        self.ops.used_in(RENDEZVOUS_READS)
    }

    /// Hashes the state.
    pub(crate) fn digest(&self, hasher: &mut impl Hasher) {
        self.in_flight.hash(hasher);
        self.ops.hash(hasher);
        self.searches.hash(hasher);
        self.responders_spare.hash(hasher);
        self.datagrams.hash(hasher);
    }
}
