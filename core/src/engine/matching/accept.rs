// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acceptance of message records: in order, out of order, repeated, or without room
//! (`docs/PROTOCOL.md` §6).
//!
//! In: records of packets that were admitted once. Out: bytes placed and receives completed. A
//! record is always processed, if need be by discarding it and reporting "receiver not ready". The
//! one exception is an out-of-order message without storage: its packet stays unacknowledged.
//! Bound: the out-of-order messages that a record makes next.

use crate::Memory;
use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::operation::{Assembly, MessageDestination, StoredState, Unexpected};
use crate::peer::slots::{AssemblySlot, ConnSlot, RecvSlot, StoredSlot};
use crate::wire::{Envelope, MESSAGES_AHEAD_MAX, Record, SegmentRecord};

/// Where fewer than half of the slots for assemblies are free, a peer gets one part of this many.
/// The messages of a peer come one after the other: several are incomplete only after losses.
const ASSEMBLY_SHARES: u32 = 32;

/// The place of a message in its sender's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MessageOrder {
    Next,
    OutOfOrder,
    /// Accepted before, or of an attempt that the sender has given up.
    Stale,
}

impl Matcher<'_> {
    /// Accepts one record. Returns false if its packet must not be acknowledged.
    pub(crate) fn accept_record<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        rnr_epoch: u8,
        record: &Record<'_>,
        memory: &mut M,
    ) -> bool {
        let Some(envelope) = record.envelope() else { return true };
        if let Record::Segment(segment) = record
            && let Some(assembly) = self.find_assembly(cx, conn, segment, rnr_epoch)
        {
            self.add_segment(cx, conn, assembly, segment, memory);
            return true;
        }
        match message_order(cx, conn, envelope, rnr_epoch) {
            MessageOrder::Next => self.accept_next(cx, conn, (envelope, rnr_epoch), record, memory),
            MessageOrder::OutOfOrder => {
                let at = (envelope, rnr_epoch);
                return self.store_out_of_order(cx, conn, at, record, memory);
            }
            MessageOrder::Stale => cx.stats.records_discarded += 1,
        }
        true
    }

    /// Accepts the next message: into the receive that it matches, or into storage; without room it
    /// is refused.
    fn accept_next<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        (envelope, rnr_epoch): (&Envelope, u8),
        record: &Record<'_>,
        memory: &mut M,
    ) {
        if matches!(record, Record::Segment(_)) && self.lacks_assembly(cx, conn) {
            return self.send_rnr(cx, conn);
        }
        let peer = cx.table.peer_of(conn);
        match self.match_posted(cx, peer, envelope, memory) {
            Some(recv) => self.receive_record(cx, conn, rnr_epoch, record, recv, memory),
            None => {
                let Some(slot) = self.store_record(cx, conn, record, memory) else {
                    return self.send_rnr(cx, conn);
                };
                self.queue_stored(cx, slot);
                if let Record::Segment(segment) = record {
                    let destination = MessageDestination::Stored(self.unexpected.id(slot));
                    self.assemble(cx, conn, (rnr_epoch, destination), segment, memory);
                }
            }
        }
        cx.table[conn].rx_mut().message_accepted();
        cx.stats.messages_accepted += 1;
        self.accept_out_of_order(cx, conn, memory);
    }

    /// Whether a peer gets no slot to assemble another message of several packets: none is free,
    /// or fewer than half are and the peer has its share.
    fn lacks_assembly(&mut self, cx: &Ctx<'_>, conn: ConnSlot) -> bool {
        let (used, capacity) = (self.assemblies.used(), self.assemblies.capacity());
        if used <= capacity / 2 {
            return false;
        }
        let share = (capacity / ASSEMBLY_SHARES).max(1);
        let mut slot = cx.table[conn].assemblies().head();
        // bound: the share
        for _ in 0..share {
            if slot.is_none() {
                return used == capacity;
            }
            slot = List::next(&mut self.assemblies, slot);
        }
        true
    }

    /// Receive `recv` has matched the message of a record.
    fn receive_record<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        rnr_epoch: u8,
        record: &Record<'_>,
        recv: RecvSlot,
        memory: &mut M,
    ) {
        match record {
            Record::Message(message) => {
                let id = self.recv_id(recv);
                self.place_in_recv(cx, id, 0, message.payload, false, memory);
                cx.completions.finish_recv(&mut self.recvs, recv);
            }
            Record::Rts(rts) => self.start_rendezvous(cx, recv, rts.handle),
            Record::Segment(segment) => {
                let destination = MessageDestination::Recv(self.recv_id(recv));
                self.assemble(cx, conn, (rnr_epoch, destination), segment, memory);
            }
            _ => {}
        }
    }

    /// Stores the message of a record; a segment is stored without its bytes. `None`: no storage.
    fn store_record<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        record: &Record<'_>,
        memory: &mut M,
    ) -> Option<StoredSlot> {
        match record {
            Record::Message(message) => {
                let slot = self.store(cx, conn, &message.envelope, true, None)?;
                self.place_in_store(cx, slot, 0, message.payload, false, memory);
                Some(slot)
            }
            Record::Rts(rts) => self.store(cx, conn, &rts.envelope, true, Some(rts.handle)),
            Record::Segment(segment) => self.store(cx, conn, &segment.envelope, false, None),
            _ => None,
        }
    }

    /// Stores a message that arrived before an earlier one, in message order. False: no storage.
    fn store_out_of_order<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        (envelope, rnr_epoch): (&Envelope, u8),
        record: &Record<'_>,
        memory: &mut M,
    ) -> bool {
        // From the last one on: behind a packet that is missing, messages mostly arrive in order.
        let (mut before, mut last) = (StoredSlot::NONE, cx.table[conn].out_of_order().tail());
        // bound: out-of-order messages of one peer
        while last.is_some() {
            let msn = self.unexpected.message(last).envelope.msn;
            if msn == envelope.msn {
                // Its packet carried another message that could not be stored, and is repeated.
                cx.stats.records_discarded += 1;
                return true;
            }
            if msn.is_before(envelope.msn) {
                break;
            }
            (before, last) = (last, List::prev(&mut self.unexpected, last));
        }
        if matches!(record, Record::Segment(_)) && self.lacks_assembly(cx, conn) {
            return false;
        }
        let Some(slot) = self.store_record(cx, conn, record, memory) else { return false };
        cx.stats.messages_out_of_order += 1;
        cx.table[conn].out_of_order_mut().insert_before(&mut self.unexpected, slot, before);
        if let Record::Segment(segment) = record {
            let destination = MessageDestination::Stored(self.unexpected.id(slot));
            self.assemble(cx, conn, (rnr_epoch, destination), segment, memory);
        }
        true
    }

    /// Accepts the out-of-order messages that have become the next ones.
    pub(crate) fn accept_out_of_order<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        memory: &mut M,
    ) {
        // bound: out-of-order messages of one peer
        loop {
            let slot = cx.table[conn].out_of_order().head();
            if slot.is_none() {
                return;
            }
            let Unexpected { peer, envelope, .. } = *self.unexpected.message(slot);
            let state = &mut cx.table[conn];
            if envelope.msn != state.rx().expected_msn() {
                return;
            }
            state.out_of_order_mut().remove(&mut self.unexpected, slot);
            state.rx_mut().message_accepted();
            cx.stats.messages_accepted += 1;
            match self.match_posted(cx, peer, &envelope, memory) {
                Some(recv) => self.bind_stored(cx, slot, recv, memory),
                None => self.queue_stored(cx, slot),
            }
        }
    }

    /// Storage for a message, if there is any; an announced one needs it for its envelope only.
    fn store(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        envelope: &Envelope,
        complete: bool,
        handle: Option<u64>,
    ) -> Option<StoredSlot> {
        let peer = cx.table.peer_of(conn);
        let envelope = *envelope;
        let len = if handle.is_some() { 0 } else { envelope.total };
        let message = Unexpected { peer, envelope, complete, handle, ..Unexpected::default() };
        self.unexpected.alloc(len, message)
    }

    /// Queues a stored message, to wait for a receive.
    fn queue_stored(&mut self, cx: &mut Ctx<'_>, slot: StoredSlot) {
        cx.stats.messages_unexpected += 1;
        let tagged = self.unexpected.message(slot).envelope.tag.is_some();
        self.stored.of(tagged).push_back(&mut self.unexpected, slot);
    }

    /// Begins to assemble a message with the segment that arrived first. A slot is free.
    fn assemble<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        (rnr_epoch, destination): (u8, MessageDestination),
        segment: &SegmentRecord<'_>,
        memory: &mut M,
    ) {
        let Envelope { msn, total, .. } = segment.envelope;
        let assembly =
            Assembly { msn, rnr_epoch, total, missing: total, destination, ..Assembly::default() };
        let Some(slot) = self.assemblies.alloc(assembly) else { return };
        cx.table[conn].assemblies_mut().push_back(&mut self.assemblies, slot);
        self.add_segment(cx, conn, slot, segment, memory);
    }

    /// The assembly that a segment belongs to. Bound: messages of one peer that are arriving.
    fn find_assembly(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        segment: &SegmentRecord<'_>,
        rnr_epoch: u8,
    ) -> Option<AssemblySlot> {
        let Envelope { msn, total, .. } = segment.envelope;
        let mut slot = cx.table[conn].assemblies().head();
        while slot.is_some() {
            let assembly = &self.assemblies[slot];
            let same =
                (assembly.msn, assembly.rnr_epoch, assembly.total) == (msn, rnr_epoch, total);
            if same && segment.payload.len() as u64 <= assembly.missing {
                return Some(slot);
            }
            slot = List::next(&mut self.assemblies, slot);
        }
        None
    }

    /// Places the bytes of a segment; ends the assembly with the last of them.
    fn add_segment<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        slot: AssemblySlot,
        segment: &SegmentRecord<'_>,
        memory: &mut M,
    ) {
        let assembly = &mut self.assemblies[slot];
        assembly.missing = assembly.missing.saturating_sub(segment.payload.len() as u64);
        let (destination, missing) = (assembly.destination, assembly.missing);
        let SegmentRecord { offset, payload, .. } = *segment;
        let more = missing > 0;
        match destination {
            MessageDestination::Recv(id) => {
                self.place_in_recv(cx, id, offset, payload, more, memory);
            }
            MessageDestination::Stored(id) => {
                self.place_in_store(cx, StoredSlot::of(id), offset, payload, more, memory);
            }
        }
        if more {
            return;
        }
        self.drop_assembly(cx, conn, slot);
        match destination {
            MessageDestination::Recv(id) => {
                cx.completions.finish_recv(&mut self.recvs, RecvSlot::of(id));
            }
            MessageDestination::Stored(id) => {
                let message = self.unexpected.message(StoredSlot::of(id));
                message.complete = true;
                match message.state {
                    StoredState::Unmatched | StoredState::Claimed(_) => {}
                    StoredState::Matched(recv) => {
                        self.deliver_stored(cx, StoredSlot::of(id), recv, memory);
                    }
                    StoredState::Discarded => self.unexpected.release(StoredSlot::of(id)),
                }
            }
        }
    }

    /// Gives the slot of an assembly back.
    pub(super) fn drop_assembly(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, slot: AssemblySlot) {
        cx.table[conn].assemblies_mut().remove(&mut self.assemblies, slot);
        self.assemblies.release(slot);
    }

    /// Refuses the next message for want of room, and discards all messages from it on until its
    /// sender starts over (`docs/PROTOCOL.md` §6.4).
    fn send_rnr(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        cx.stats.receiver_not_ready += 1;
        cx.stats.records_discarded += 1;
        cx.table[conn].rx_mut().start_rnr();
        self.discard_out_of_order(cx, conn);
    }

    /// Drops every out-of-order message of a connection.
    pub(crate) fn discard_out_of_order(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        // bound: out-of-order messages of one peer
        while let Some(slot) = cx.table[conn].out_of_order_mut().pop_front(&mut self.unexpected) {
            let destination = MessageDestination::Stored(self.unexpected.id(slot));
            if let Some(assembly) = self.assembly_to(cx, conn, destination) {
                self.drop_assembly(cx, conn, assembly);
            }
            self.unexpected.release(slot);
        }
    }

    fn assembly_to(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        destination: MessageDestination,
    ) -> Option<AssemblySlot> {
        let mut slot = cx.table[conn].assemblies().head();
        // bound: messages of one peer that are arriving
        while slot.is_some() && self.assemblies[slot].destination != destination {
            slot = List::next(&mut self.assemblies, slot);
        }
        (slot.is_some()).then_some(slot)
    }
}

/// The place of a message in its sender's order; records that the sender has started over.
#[inline]
fn message_order(
    cx: &mut Ctx<'_>,
    conn: ConnSlot,
    envelope: &Envelope,
    rnr_epoch: u8,
) -> MessageOrder {
    let rx = cx.table[conn].rx_mut();
    if envelope.msn.is_before(rx.expected_msn()) {
        return MessageOrder::Stale;
    }
    if rx.is_not_ready() && rnr_epoch == rx.rnr_epoch().wrapping_add(1) {
        // The sender has seen the refusal and starts over.
        rx.sender_started_over(rnr_epoch);
    }
    let ahead = envelope.msn.since(rx.expected_msn());
    if rx.is_not_ready() || rnr_epoch != rx.rnr_epoch() || ahead >= MESSAGES_AHEAD_MAX {
        return MessageOrder::Stale;
    }
    if ahead == 0 { MessageOrder::Next } else { MessageOrder::OutOfOrder }
}
