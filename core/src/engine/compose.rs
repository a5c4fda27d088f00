// SPDX-License-Identifier: MIT OR Apache-2.0
//! A packet that goes out for the first time: which operations are in it.
//!
//! In: the queues of a peer. Out: the body of a packet and the note by which it can be written
//! again. Answers go before what the application posted, mostly ([gate](super::gate)), and wait for
//! nothing but the window. Bound: the records that fit a packet.

use super::Engine;
use super::post::{pending_bytes, pending_cost};
use super::transmit::Emitted;
use crate::in_flight::{TxFlags, TxPacket};
use crate::operation::TxKind;
use crate::serial::Psn;
use crate::slab::NIL;
use crate::wire::{
    BEFORE_LEN, Envelope, Flags, HEADER_LEN, PacketKind, READ_LEN_MAX, TAG_RESERVE,
    WRITES_WITH_DATA_MAX, full_segment, put_message_before, segment_overhead,
};
use crate::{Gather, Memory, OpError, OpId, Order, Source};

/// Every so many packets the sender asks for an acknowledgment at once.
const ACK_REQUEST_EVERY: u32 = 64;

/// What has been put into a packet.
#[derive(Clone, Copy, Debug)]
struct Composed {
    /// Bytes taken.
    taken: usize,
    /// Bytes of a part, or number of whole operations.
    len: u16,
    /// Whether it is a part.
    part: bool,
    /// Whether the packet must wait for everything before it.
    barrier: bool,
    /// Whether it changes the peer's memory.
    writes: bool,
    /// Writes that bring remote CQ data.
    events: usize,
}

impl Engine<'_> {
    /// Sends what has not been sent yet, from operation `first` on: a part of it, or as many whole
    /// ones as fit.
    pub(super) fn emit_new<M: Memory>(
        &mut self,
        active: u32,
        first: u32,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Emitted> {
        let room = packet.len().checked_sub(TAG_RESERVE)?;
        let body = packet.get_mut(HEADER_LEN..room)?;
        let offset = self.ops[first].sent;
        let composed = match self.whole_len(first) {
            Some(whole) if whole <= body.len() => self.put_wholes(active, first, body, memory),
            Some(_) if matches!(self.ops[first].kind, TxKind::Atomic { .. }) => {
                self.refuse_atomic(active, first);
                return None;
            }
            _ => self.put_next_part(active, first, body, memory)?,
        };
        let psn = self.actives[active].next_psn;
        let mut flags = TxFlags::empty();
        flags.set(TxFlags::PART, composed.part);
        flags.set(TxFlags::BARRIER, composed.barrier);
        flags.set(TxFlags::EVENT, composed.events > 0);
        let note = TxPacket {
            op: self.op_id(first),
            offset: TxPacket::note_offset(offset),
            sent_at: self.tick(),
            len: composed.len,
            flags,
            rnr_epoch: self.actives[active].tx_rnr_epoch,
        };
        self.note_sent(active, note, composed.writes)?;
        let more = self.may_send_new(active);
        let stuck = !more && self.actives[active].has_unsent();
        let asks =
            self.ops[first].is_request() && self.actives[active].has_thin_credit(self.tick());
        let last = psn.0 % ACK_REQUEST_EVERY == ACK_REQUEST_EVERY - 1 || stuck || asks;
        let mut flags = if last { Flags::ACK_REQUEST } else { Flags::empty() };
        flags.set(Flags::BARRIER, composed.barrier);
        let mut header = self.header(active, PacketKind::Data, flags, psn);
        header.rnr_epoch = note.rnr_epoch;
        super::transmit::put_header(&header, packet)?;
        self.actives[active].acknowledged(false);
        Some(Emitted { len: HEADER_LEN + composed.taken, more: Some(more) })
    }

    /// Takes the next number for a packet.
    #[inline]
    fn note_sent(&mut self, active: u32, note: TxPacket, writes: bool) -> Option<()> {
        let now = self.tick();
        let state = &mut self.actives[active];
        if !self.in_flight.push(&mut state.directory, state.next_psn, note) {
            debug_assert!(false, "`may_send_new` asked for room");
            return None;
        }
        if state.all_acknowledged() {
            state.silent_since = now;
        }
        state.next_psn = state.next_psn.plus(1);
        state.timer_from = now;
        self.stats.paced += u64::from(state.congestion.is_pace());
        state.congestion.sent(&state.rtt, now);
        if writes {
            state.writes_end = state.next_psn;
        }
        self.stats.data_packets_sent += 1;
        Some(())
    }

    /// An atomic that does not fit the packets of this connection.
    fn refuse_atomic(&mut self, active: u32, number: u32) {
        let op = &mut self.ops[number];
        op.outcome = Err(OpError::Unsupported);
        op.answered = true;
        self.advance_cursor(active, number);
        self.try_finish(active, number);
    }

    /// Whole operations from `first` on, as many as fit: all of them messages, or none.
    fn put_wholes<M: Memory>(
        &mut self,
        active: u32,
        first: u32,
        body: &mut [u8],
        memory: &mut M,
    ) -> Composed {
        let messages = self.ops[first].envelope().is_some();
        let mut composed =
            Composed { taken: 0, len: 0, part: false, barrier: false, writes: false, events: 0 };
        let mut number = first;
        // bound: a record takes at least 16 bytes
        loop {
            let rest = body.get_mut(composed.taken..).unwrap_or_default();
            let serial = if self.is_plain_message(number) {
                self.put_messages(active, number, rest, &mut composed, memory)
            } else {
                let Some(taken) = self.put_whole(number, rest, memory) else { break };
                composed.taken += taken;
                composed.len += 1;
                Some(self.commit_whole(active, number, &mut composed))
            };
            let Some(serial) = serial else { break };
            let Some(next) = self.next_op(&self.actives[active]) else { break };
            let op = &self.ops[next];
            if self.is_posted(next) != self.is_posted(number)
                || op.serial != serial.wrapping_add(1)
                || op.sent != 0
                || op.envelope().is_some() != messages
                || (op.brings_data() && composed.events == WRITES_WITH_DATA_MAX)
            {
                break;
            }
            number = next;
        }
        composed
    }

    /// Whether an operation is a message of one record, and orders make nothing of it.
    #[inline(always)]
    fn is_plain_message(&self, number: u32) -> bool {
        self.config.order.is_empty() && matches!(self.ops[number].kind, TxKind::Message(_))
    }

    /// What [`Self::put_whole`] and [`Self::commit_whole`] do, for one plain message after the
    /// other as long as they are neighbours and fit. Returns the place of the last one in the
    /// order; `None` if not even the first one fits.
    // Apart, so that the loop has the registers to itself.
    #[inline(never)]
    fn put_messages<M: Memory>(
        &mut self,
        active: u32,
        first: u32,
        into: &mut [u8],
        composed: &mut Composed,
        memory: &mut M,
    ) -> Option<u32> {
        let state = &mut self.actives[active];
        let room = into.len();
        let (mut left, mut rest) = (room, into);
        let (mut number, mut count, mut costs) = (first, 0, 0);
        let mut sent_msn = state.sent_msn;
        let first_serial = self.ops[first].serial;
        // bound: a record takes at least 16 bytes
        while number != NIL {
            let (op, generation) = self.ops.entry(number);
            let TxKind::Message(envelope) = &op.kind else { break };
            let follows = op.serial == first_serial.wrapping_add(count) && op.sent == 0;
            if count > 0 && (!follows || op.gated) {
                break;
            }
            let source = Source::Op(OpId::new(number, generation));
            let own = Gather { source, offset: 0, more: false };
            let Envelope { msn, total, .. } = *envelope;
            let fill = |payload: &mut [u8]| memory.gather(own, payload);
            let Some(behind) = put_message_before(core::mem::take(&mut rest), envelope, fill)
            else {
                break;
            };
            (left, rest) = (behind.len(), behind);
            count += 1;
            costs += pending_bytes(total);
            sent_msn = msn.plus(1);
            op.sent = op.total;
            op.in_flight += 1;
            op.all_sent = true;
            number = op.links.next();
        }
        // bound: as in `advance_cursor`
        while number != NIL && self.ops[number].all_sent {
            number = self.ops[number].links.next();
        }
        if count == 0 {
            return None;
        }
        state.sent_msn = sent_msn;
        state.pending = state.pending.saturating_sub(costs);
        state.sends.cursor = number;
        composed.taken += room - left;
        composed.len += count as u16;
        Some(first_serial.wrapping_add(count - 1))
    }

    /// All of operation `number` is in the packet. Returns its place in the order.
    #[inline(always)]
    fn commit_whole(&mut self, active: u32, number: u32, composed: &mut Composed) -> u32 {
        self.begin(active, number);
        composed.barrier |= self.is_behind_writes(active, number);
        let posted = self.is_posted(number);
        let op = &mut self.ops[number];
        op.sent = op.total;
        op.in_flight += 1;
        let serial = op.serial;
        if op.envelope().is_none() {
            composed.writes |= op.is_write();
            composed.events += usize::from(op.brings_data());
            if posted && op.is_request() {
                self.actives[active].credits.ask();
            }
        }
        self.advance_cursor(active, number);
        serial
    }

    /// The next part of an operation that does not fit one packet.
    fn put_next_part<M: Memory>(
        &mut self,
        active: u32,
        number: u32,
        body: &mut [u8],
        memory: &mut M,
    ) -> Option<Composed> {
        self.begin(active, number);
        let op = &self.ops[number];
        let left = op.total - op.sent;
        let request = op.is_request();
        let (len, step) = if request {
            (0, left.min(u64::from(READ_LEN_MAX)))
        } else {
            let overhead = match op.kind {
                TxKind::Message(Envelope { data, .. }) => segment_overhead(data.is_some()),
                TxKind::Write { data: Some(_), .. } => segment_overhead(true) + BEFORE_LEN,
                _ => segment_overhead(false),
            };
            let most = full_segment(body.len().checked_sub(overhead)?);
            let len = u16::try_from(left.min(most as u64)).ok()?;
            (len, u64::from(len))
        };
        let offset = op.sent;
        let taken = self.put_part(number, offset, len, body, memory)?;
        let barrier = self.is_behind_writes(active, number);
        let op = &mut self.ops[number];
        op.sent += step;
        op.in_flight += 1;
        let (all, writes) = (op.sent == op.total, op.is_write());
        let events = usize::from(all && op.brings_data());
        if request {
            self.actives[active].credits.ask();
        }
        if all {
            self.advance_cursor(active, number);
        }
        Some(Composed { taken, len, part: true, barrier, writes, events })
    }

    /// The first packet of an operation goes out: notes what it must not overtake.
    #[inline(always)]
    fn begin(&mut self, active: u32, number: u32) {
        let order = self.config.order;
        let posted = self.is_posted(number);
        let state = &mut self.actives[active];
        let op = &mut self.ops[number];
        if let Some(envelope) = op.envelope() {
            state.sent_msn = envelope.msn.plus(1);
        }
        if op.sent > 0 {
            return;
        }
        // Answers and requests of the engine's own overtake nothing that matters.
        let ordered = posted
            && ((op.envelope().is_some() && order.contains(Order::SAW))
                || (op.is_request() && order.contains(Order::RAW))
                || (op.is_write() && order.contains(Order::WAW)));
        op.after = ordered.then_some(state.writes_end);
    }

    /// Whether earlier writes that an operation must not overtake are not acknowledged yet.
    #[inline]
    fn is_behind_writes(&self, active: u32, number: u32) -> bool {
        let first_psn = self.actives[active].first_psn;
        self.ops[number].after.is_some_and(|after: Psn| first_psn.is_before(after))
    }

    /// Operation `number` is in packets entirely, or as far as it ever will be. It need not be the
    /// one at its queue's cursor: that may have gone back to an earlier one (`docs/PROTOCOL.md`
    /// §6.4) while an error ended this one.
    #[inline]
    pub(super) fn advance_cursor(&mut self, active: u32, number: u32) {
        let posted = self.is_posted(number);
        let state = &mut self.actives[active];
        let op = &mut self.ops[number];
        op.all_sent = true;
        let mut next = op.links.next();
        if posted {
            state.pending = state.pending.saturating_sub(pending_cost(op));
        }
        let queue = state.queue(posted);
        if queue.cursor != number {
            return;
        }
        // bound: operations of one peer; those that are passed over were sent before a restart
        while next != NIL && self.ops[next].all_sent {
            next = self.ops[next].links.next();
        }
        queue.cursor = next;
    }
}
