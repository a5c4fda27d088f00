// SPDX-License-Identifier: MIT OR Apache-2.0
//! Acceptance of message records: in order, repeated, or without room (`docs/PROTOCOL.md` §6).
//! Those out of order are in `out_of_order.rs`.
//!
//! In: records of packets that were admitted once. Out: bytes placed and receives completed. A
//! record is always processed, if need be by discarding it and reporting "receiver not ready".
//! There are two exceptions. The packet of an out-of-order message without storage comes again.
//! Segments that do not cover their message, each byte once, end the connection.
//! Bound: one search for each record.

use crate::api::hosts::Host;
use crate::api::posted::{MatchKind, Posted};
use crate::collections::list::List;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::peer::Connection;
use crate::peer::hosts::SharedPool;
use crate::peer::operation::{Assembly, MessageDestination, StoredState, Unexpected};
use crate::peer::slots::{AssemblySlot, ConnSlot, RecvSlot, StoredSlot};
use crate::peer::watch::mark;
use crate::wire::{Envelope, MESSAGES_AHEAD_MAX, Record, SegmentRecord};
use crate::{DropReason, Memory};

/// Where fewer than half of the slots for assemblies are free, a peer gets one part of this many.
/// The messages of a peer come one after the other: several are incomplete only after losses.
const ASSEMBLY_SHARES: u32 = 32;

/// The position of a message in its sender's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MessageOrder {
    Next,
    OutOfOrder,
    /// Accepted before, or of an attempt that the sender has given up.
    Stale,
}

impl Matcher<'_> {
    /// Accepts one record.
    ///
    /// # Errors
    /// [`DropReason::OutOfOrderWithoutStorage`]: its packet must not be acknowledged.
    /// [`DropReason::Overlap`]: the connection must end.
    pub(crate) fn accept_record<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        rnr_epoch: u8,
        record: &Record<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let Some(envelope) = record.envelope() else { return Ok(()) };
        if let Record::Segment(segment) = record
            && let Some(assembly) = self.find_assembly(cx, conn, segment, rnr_epoch)
        {
            return self.add_segment(cx, conn, assembly, (segment.offset, segment.payload), memory);
        }
        match message_order(cx, conn, envelope, rnr_epoch) {
            MessageOrder::Next if self.is_next_stored(cx, conn) => {
                // Its packet carried another message that could not be stored, and is repeated.
                cx.stats.records_discarded += 1;
                Ok(())
            }
            MessageOrder::Next if self.posted.is_long() => {
                // A later call searches its receive.
                self.store_out_of_order(cx, conn, (envelope, rnr_epoch), record, memory)?;
                self.mark_next(cx, conn);
                Ok(())
            }
            MessageOrder::Next => self.accept_next(cx, conn, (envelope, rnr_epoch), record, memory),
            MessageOrder::OutOfOrder => {
                let at = (envelope, rnr_epoch);
                self.store_out_of_order(cx, conn, at, record, memory)
            }
            MessageOrder::Stale => {
                cx.stats.records_discarded += 1;
                Ok(())
            }
        }
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
    ) -> Result<(), DropReason> {
        if matches!(record, Record::Segment(_)) && self.lacks_assembly(cx, conn) {
            self.send_rnr(cx, conn);
            return Ok(());
        }
        let peer = cx.table.peer_of(conn);
        match self.match_posted(cx, peer, envelope, memory) {
            Some(recv) => self.receive_record(cx, conn, rnr_epoch, record, recv, memory)?,
            None => {
                let Some(slot) = self.store_record(cx, conn, record, memory) else {
                    self.send_rnr(cx, conn);
                    return Ok(());
                };
                self.queue_stored(cx, slot);
                if let Record::Segment(segment) = record {
                    let destination = MessageDestination::Stored(self.unexpected.id(slot));
                    self.assemble(cx, conn, (rnr_epoch, destination), segment, memory)?;
                }
            }
        }
        cx.table[conn].message_accepted();
        cx.stats.messages_accepted += 1;
        self.mark_next(cx, conn);
        Ok(())
    }

    /// Whether a peer gets no slot to assemble another message of several packets. Either none is
    /// free, or fewer than half are, and the peer or the host of an unnamed one has its share.
    pub(super) fn lacks_assembly(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) -> bool {
        let (used, capacity) = (self.assemblies.used(), self.assemblies.capacity());
        if used <= capacity / 2 {
            return false;
        }
        if !cx.table.has_share(conn, SharedPool::Assemblies, capacity - used) {
            return true;
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
    ) -> Result<(), DropReason> {
        match record {
            Record::Message(message) => {
                let id = self.recv_id(recv);
                self.place_in_recv(cx, id, 0, message.payload, false, memory);
                cx.completions.finish_recv(&mut self.recvs, recv);
            }
            Record::Rts(rts) => {
                let epoch = cx.table.epoch_of(conn);
                self.start_rendezvous(cx, recv, (rts.handle, epoch));
            }
            Record::Segment(segment) => {
                let destination = MessageDestination::Recv(self.recv_id(recv));
                return self.assemble(cx, conn, (rnr_epoch, destination), segment, memory);
            }
            _ => {}
        }
        Ok(())
    }

    /// Stores the message of a record; a segment is stored without its bytes. `None`: no storage.
    pub(super) fn store_record<M: Memory>(
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

    /// Storage for a message, if there is any; an announced one needs it for its envelope only.
    fn store(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        envelope: &Envelope,
        complete: bool,
        handle: Option<u64>,
    ) -> Option<StoredSlot> {
        let (peer, epoch) = (cx.table.peer_of(conn), cx.table.epoch_of(conn));
        let envelope = *envelope;
        let len = if handle.is_some() { 0 } else { envelope.total };
        let host = cx.table.sharing_host(conn);
        let sender = Unexpected { peer, epoch, host, ..Unexpected::default() };
        let message = Unexpected { envelope, complete, handle, ..sender };
        let slot = self.unexpected.alloc(len, message);
        if slot.is_none() && self.put_out_orphan(cx, len, host) {
            return self.unexpected.alloc(len, message);
        }
        slot
    }

    /// Evicts the oldest orphan to make room for a message of `len` bytes from `host`. Returns
    /// whether there was one that makes room.
    #[cold]
    fn put_out_orphan(&mut self, cx: &mut Ctx<'_>, len: u64, host: Option<Host>) -> bool {
        // bound: orphans, of which each one is adopted once
        while let Some(slot) = self.unexpected.oldest_orphan(len, host) {
            if cx.table.is_named(self.unexpected.message(slot).peer) {
                // The application has named its sender in the meantime.
                self.unexpected.adopt(slot);
                continue;
            }
            self.unqueue_stored(slot);
            self.unexpected.release(slot);
            cx.stats.messages_put_out += 1;
            return true;
        }
        false
    }

    /// Queues a stored message, to wait for a receive. The next receives are probably of the same
    /// kind as the last one.
    pub(super) fn queue_stored(&mut self, cx: &mut Ctx<'_>, slot: StoredSlot) {
        cx.stats.messages_unexpected += 1;
        let tagged = self.unexpected.message(slot).envelope.tag.is_some();
        self.add_view(tagged);
        self.stored.push(&mut self.unexpected, slot);
    }

    /// Begins a view of the stored messages for receives of the kind of the last one.
    pub(super) fn add_view(&mut self, tagged: bool) {
        let last = self.posted.list(tagged).tail();
        if last.is_some() {
            let kind = MatchKind::of(&self.recvs[last].wanted());
            self.stored.add_view(&mut self.unexpected, kind);
        }
    }

    /// Begins to assemble a message with the segment that arrived first. A slot is free.
    pub(super) fn assemble<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        (rnr_epoch, destination): (u8, MessageDestination),
        segment: &SegmentRecord<'_>,
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let Envelope { msn, total, .. } = segment.envelope;
        let assembly = Assembly {
            msn,
            rnr_epoch,
            total,
            missing: total,
            destination,
            host: cx.table.host_of_connection(conn),
            ..Assembly::default()
        };
        let Some(slot) = self.assemblies.alloc(assembly) else { return Ok(()) };
        cx.table.take_share(conn, SharedPool::Assemblies, 1);
        cx.table[conn].assemblies_mut().push_back(&mut self.assemblies, slot);
        self.add_segment(cx, conn, slot, (segment.offset, segment.payload), memory)
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

    /// The assembly of a segment that does not complete its message, and how many bytes behind the
    /// segment do not either.
    #[inline]
    pub(crate) fn predict_segment(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        segment: &SegmentRecord<'_>,
        rnr_epoch: u8,
    ) -> Option<(AssemblySlot, u64)> {
        let slot = self.find_assembly(cx, conn, segment, rnr_epoch)?;
        let len = segment.payload.len() as u64;
        // One byte that is missing afterwards is enough.
        let room = self.assemblies[slot].missing.checked_sub(len + 1)?;
        Some((slot, room.min(segment.envelope.total - (segment.offset + len))))
    }

    /// Places the bytes of a segment; ends the assembly with the last of them. When as many bytes
    /// as the message has are placed, each of its bytes must have arrived once.
    pub(crate) fn add_segment<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        slot: AssemblySlot,
        (offset, payload): (u64, &[u8]),
        memory: &mut M,
    ) -> Result<(), DropReason> {
        let assembly = &mut self.assemblies[slot];
        let len = payload.len() as u64;
        assembly.missing = assembly.missing.saturating_sub(len);
        cx.coverage.add(&mut assembly.covered, offset, len);
        let Assembly { destination, missing, covered, total, .. } = *assembly;
        let more = missing > 0;
        if !more && !cx.coverage.is_complete(covered, total) {
            return Err(DropReason::Overlap);
        }
        match destination {
            MessageDestination::Recv(id) => {
                self.place_in_recv(cx, id, offset, payload, more, memory);
            }
            MessageDestination::Stored(id) => {
                self.place_in_store(cx, StoredSlot::of(id), offset, payload, more, memory);
            }
        }
        if more {
            return Ok(());
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
        Ok(())
    }

    /// Whether a message of a connection has not grown for the peer time-out. The caller asks
    /// several times in that time, and says whether the peer was excused since the last time.
    /// Bound: messages of one peer that are arriving.
    pub(crate) fn has_stuck_assembly(&mut self, state: &Connection, is_excused: bool) -> bool {
        let (mut stuck, mut slot) = (false, state.assemblies().head());
        while slot.is_some() {
            let assembly = &mut self.assemblies[slot];
            if is_excused {
                assembly.growth.clear();
            }
            stuck |= assembly.growth.check(mark(assembly.missing as u32));
            slot = List::next(&mut self.assemblies, slot);
        }
        stuck
    }

    /// Whether a message that is arriving has not grown between the last two of these checks and up
    /// to now. Bound: the messages of the connection that are arriving.
    pub(crate) fn has_resting_assembly(&mut self, state: &Connection) -> bool {
        state.assemblies().any(&mut self.assemblies, |assemblies, slot| {
            let Assembly { growth, missing, .. } = assemblies[slot];
            growth.is_stuck(mark(missing as u32))
        })
    }

    /// Gives the slot of an assembly back.
    pub(super) fn drop_assembly(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, slot: AssemblySlot) {
        cx.table[conn].assemblies_mut().remove(&mut self.assemblies, slot);
        cx.table.give_share_back(conn, SharedPool::Assemblies, 1);
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
}

/// The position of a message in its sender's order. Records that the sender has started over.
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
