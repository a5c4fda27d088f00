// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages come in: next in order, early, again, or with nowhere to put them (`docs/PROTOCOL.md`
//! §6).
//!
//! In: records of packets that were admitted once. Out: bytes placed and receives completed. A
//! record is always taken in, if need be by discarding it and telling the sender "receiver not
//! ready"; the one exception is an early message without storage, whose packet is left
//! unacknowledged. Bound: the early messages that an arrival sets free.

use super::Engine;
use crate::Memory;
use crate::operation::{Assembly, Holder, Landing, Unexpected};
use crate::slab::{List, NIL};
use crate::wire::{Envelope, MESSAGES_AHEAD_MAX, Record, SegmentRecord};

/// Where a message stands in its sender's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Next,
    Early,
    /// Accepted before, or of an attempt that came to nothing.
    Gone,
}

impl Engine<'_> {
    /// Takes one record in. Returns false if its packet must not be acknowledged.
    pub(super) fn accept_record<M: Memory>(
        &mut self,
        active: u32,
        rnr_epoch: u8,
        record: &Record<'_>,
        memory: &mut M,
    ) -> bool {
        let envelope = match record {
            Record::Message(message) => &message.envelope,
            Record::Rts(rts) => &rts.envelope,
            Record::Segment(segment) => {
                if let Some(assembly) = self.find_assembly(active, segment, rnr_epoch) {
                    self.add_segment(active, assembly, segment, memory);
                    return true;
                }
                &segment.envelope
            }
            _ => return true,
        };
        match self.turn(active, envelope, rnr_epoch) {
            Turn::Next => self.accept_next(active, rnr_epoch, record, memory),
            Turn::Early => return self.keep_early(active, rnr_epoch, record, memory),
            Turn::Gone => self.stats.records_discarded += 1,
        }
        true
    }

    #[inline]
    fn turn(&mut self, active: u32, envelope: &Envelope, rnr_epoch: u8) -> Turn {
        let state = &mut self.actives[active];
        if envelope.msn.is_before(state.expected_msn) {
            return Turn::Gone;
        }
        if state.not_ready && rnr_epoch == state.rx_rnr_epoch.wrapping_add(1) {
            // The sender has seen our refusal and starts over.
            state.not_ready = false;
            state.rx_rnr_epoch = rnr_epoch;
        }
        let ahead = envelope.msn.since(state.expected_msn);
        if state.not_ready || rnr_epoch != state.rx_rnr_epoch || ahead >= MESSAGES_AHEAD_MAX {
            return Turn::Gone;
        }
        if ahead == 0 { Turn::Next } else { Turn::Early }
    }

    /// The message whose turn it is: to the receive that it matches, or into storage, or refused.
    fn accept_next<M: Memory>(
        &mut self,
        active: u32,
        rnr_epoch: u8,
        record: &Record<'_>,
        memory: &mut M,
    ) {
        let peer = self.peer_id(self.actives[active].peer);
        let accepted = match record {
            Record::Message(message) => match self.match_posted(peer, &message.envelope, memory) {
                Some(recv) => {
                    self.place_in_recv(recv, 0, message.payload, false, memory);
                    self.finish_recv(recv);
                    true
                }
                None => self.store_next(active, record, memory),
            },
            Record::Rts(rts) => match self.match_posted(peer, &rts.envelope, memory) {
                Some(recv) => {
                    self.begin_pull(recv, rts.handle);
                    true
                }
                None => self.store_next(active, record, memory),
            },
            Record::Segment(segment) => self.accept_first(active, rnr_epoch, segment, memory),
            _ => true,
        };
        if !accepted {
            return self.refuse(active);
        }
        let state = &mut self.actives[active];
        state.expected_msn = state.expected_msn.plus(1);
        self.stats.messages_accepted += 1;
        self.accept_early(active, memory);
    }

    /// The message whose turn it is, and that no receive fits. False: no storage.
    fn store_next<M: Memory>(&mut self, active: u32, record: &Record<'_>, memory: &mut M) -> bool {
        let Some(number) = self.store_record(active, record, memory) else { return false };
        self.queue_stored(number);
        true
    }

    /// Stores a message that came in one record; a part of one is stored without its bytes.
    fn store_record<M: Memory>(
        &mut self,
        active: u32,
        record: &Record<'_>,
        memory: &mut M,
    ) -> Option<u32> {
        match record {
            Record::Message(message) => {
                let number = self.store(active, &message.envelope, true, None)?;
                self.place_in_store(number, 0, message.payload, false, memory);
                Some(number)
            }
            Record::Rts(rts) => self.store(active, &rts.envelope, true, Some(rts.handle)),
            Record::Segment(segment) => self.store(active, &segment.envelope, false, None),
            _ => None,
        }
    }

    /// The segment that is seen first of a message whose turn it is.
    fn accept_first<M: Memory>(
        &mut self,
        active: u32,
        rnr_epoch: u8,
        segment: &SegmentRecord<'_>,
        memory: &mut M,
    ) -> bool {
        if self.assemblies.used() == self.assemblies.capacity() {
            return false;
        }
        let peer = self.peer_id(self.actives[active].peer);
        let landing = match self.match_posted(peer, &segment.envelope, memory) {
            Some(recv) => Landing::Recv(self.recv_id(recv)),
            None => match self.store(active, &segment.envelope, false, None) {
                Some(number) => {
                    self.queue_stored(number);
                    Landing::Stored(self.unexpected.id(number))
                }
                None => return false,
            },
        };
        self.assemble(active, rnr_epoch, segment, landing, memory)
    }

    /// A message that came before an earlier one: kept in storage, in message order. False: no
    /// storage.
    fn keep_early<M: Memory>(
        &mut self,
        active: u32,
        rnr_epoch: u8,
        record: &Record<'_>,
        memory: &mut M,
    ) -> bool {
        let envelope = match record {
            Record::Message(message) => &message.envelope,
            Record::Rts(rts) => &rts.envelope,
            Record::Segment(segment) => &segment.envelope,
            _ => return true,
        };
        // From the last one on: behind a packet that is missing, messages mostly come in order.
        let (mut before, mut last) = (NIL, self.actives[active].early.tail());
        // bound: early messages of one peer
        while last != NIL {
            let msn = self.unexpected.message(last).envelope.msn;
            if msn == envelope.msn {
                // Its packet came with one that could not be kept, and comes again.
                self.stats.records_discarded += 1;
                return true;
            }
            if msn.is_before(envelope.msn) {
                break;
            }
            (before, last) = (last, List::prev(&mut self.unexpected, last));
        }
        let segment = if let Record::Segment(segment) = record { Some(segment) } else { None };
        if segment.is_some() && self.assemblies.used() == self.assemblies.capacity() {
            return false;
        }
        let Some(number) = self.store_record(active, record, memory) else { return false };
        self.stats.messages_early += 1;
        self.actives[active].early.insert_before(&mut self.unexpected, number, before);
        segment.is_none_or(|segment| {
            let landing = Landing::Stored(self.unexpected.id(number));
            self.assemble(active, rnr_epoch, segment, landing, memory)
        })
    }

    /// Early messages whose turn has come: as if they arrived now.
    pub(super) fn accept_early<M: Memory>(&mut self, active: u32, memory: &mut M) {
        // bound: early messages of one peer
        loop {
            let number = self.actives[active].early.head();
            if number == NIL {
                return;
            }
            let Unexpected { peer, envelope, .. } = *self.unexpected.message(number);
            let state = &mut self.actives[active];
            if envelope.msn != state.expected_msn {
                return;
            }
            state.early.remove(&mut self.unexpected, number);
            state.expected_msn = state.expected_msn.plus(1);
            self.stats.messages_accepted += 1;
            match self.match_posted(peer, &envelope, memory) {
                Some(recv) => self.bind_stored(number, recv, memory),
                None => self.queue_stored(number),
            }
        }
    }

    /// Storage for a message, if there is any; for an announced one, for its envelope.
    fn store(
        &mut self,
        active: u32,
        envelope: &Envelope,
        complete: bool,
        handle: Option<u64>,
    ) -> Option<u32> {
        let peer = self.peer_id(self.actives[active].peer);
        let envelope = *envelope;
        let len = if handle.is_some() { 0 } else { envelope.total };
        let message = Unexpected { peer, envelope, complete, handle, ..Unexpected::default() };
        self.unexpected.alloc(len, message)
    }

    /// A stored message waits for a receive.
    fn queue_stored(&mut self, number: u32) {
        self.stats.messages_unexpected += 1;
        let tagged = self.unexpected.message(number).envelope.tag.is_some();
        self.stored.of(tagged).push_back(&mut self.unexpected, number);
    }

    /// Begins to assemble a message with the segment that was seen first. There is a free slot.
    fn assemble<M: Memory>(
        &mut self,
        active: u32,
        rnr_epoch: u8,
        segment: &SegmentRecord<'_>,
        landing: Landing,
        memory: &mut M,
    ) -> bool {
        let Envelope { msn, total, .. } = segment.envelope;
        let assembly =
            Assembly { msn, rnr_epoch, total, missing: total, landing, ..Assembly::default() };
        let Some(number) = self.assemblies.alloc(assembly) else { return false };
        self.actives[active].assemblies.push_back(&mut self.assemblies, number);
        self.add_segment(active, number, segment, memory);
        true
    }

    /// The assembly that a segment belongs to. Bound: messages of one peer that are arriving.
    fn find_assembly(
        &mut self,
        active: u32,
        segment: &SegmentRecord<'_>,
        rnr_epoch: u8,
    ) -> Option<u32> {
        let Envelope { msn, total, .. } = segment.envelope;
        let mut number = self.actives[active].assemblies.head();
        while number != NIL {
            let assembly = &self.assemblies[number];
            let same =
                (assembly.msn, assembly.rnr_epoch, assembly.total) == (msn, rnr_epoch, total);
            if same && segment.payload.len() as u64 <= assembly.missing {
                return Some(number);
            }
            number = List::next(&mut self.assemblies, number);
        }
        None
    }

    fn add_segment<M: Memory>(
        &mut self,
        active: u32,
        number: u32,
        segment: &SegmentRecord<'_>,
        memory: &mut M,
    ) {
        let assembly = &mut self.assemblies[number];
        assembly.missing = assembly.missing.saturating_sub(segment.payload.len() as u64);
        let (landing, missing) = (assembly.landing, assembly.missing);
        let SegmentRecord { offset, payload, .. } = *segment;
        let more = missing > 0;
        match landing {
            Landing::Recv(id) => self.place_in_recv(id.slot(), offset, payload, more, memory),
            Landing::Stored(id) => self.place_in_store(id.slot(), offset, payload, more, memory),
        }
        if more {
            return;
        }
        self.drop_assembly(active, number);
        match landing {
            Landing::Recv(id) => self.finish_recv(id.slot()),
            Landing::Stored(id) => {
                let message = self.unexpected.message(id.slot());
                message.complete = true;
                match message.holder {
                    Holder::Nobody | Holder::Claim(_) => {}
                    Holder::Recv(recv) => self.deliver_stored(id.slot(), recv, memory),
                    Holder::Discard => self.unexpected.release(id.slot()),
                }
            }
        }
    }

    pub(super) fn drop_assembly(&mut self, active: u32, number: u32) {
        self.actives[active].assemblies.remove(&mut self.assemblies, number);
        self.assemblies.release(number);
    }

    /// No room for the message whose turn it is: everything from it on is discarded until its
    /// sender starts over (`docs/PROTOCOL.md` §6.4).
    fn refuse(&mut self, active: u32) {
        self.stats.receiver_not_ready += 1;
        self.stats.records_discarded += 1;
        self.actives[active].not_ready = true;
        self.discard_early(active);
    }

    /// Gives back the storage of every early message of a peer.
    pub(super) fn discard_early(&mut self, active: u32) {
        // bound: early messages of one peer
        while let Some(number) = self.actives[active].early.pop_front(&mut self.unexpected) {
            let landing = Landing::Stored(self.unexpected.id(number));
            if let Some(assembly) = self.assembly_into(active, landing) {
                self.drop_assembly(active, assembly);
            }
            self.unexpected.release(number);
        }
    }

    fn assembly_into(&mut self, active: u32, landing: Landing) -> Option<u32> {
        let mut number = self.actives[active].assemblies.head();
        // bound: messages of one peer that are arriving
        while number != NIL && self.assemblies[number].landing != landing {
            number = List::next(&mut self.assemblies, number);
        }
        (number != NIL).then_some(number)
    }
}
