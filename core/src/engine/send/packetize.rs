// SPDX-License-Identifier: MIT OR Apache-2.0
//! New packets: the operations that go into one.
//!
//! In: the queues of a connection. Out: the body of a packet, and the record by which it can be
//! sent again. Responses mostly go before operations of the application
//! ([eligibility](super::eligibility)), and wait for the window only. Bound: the records that fit a
//! packet.

use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::engine::send::encode::encode_message;
use crate::engine::send::post::{pending_bytes, pending_cost};
use crate::engine::send::run::ACK_REQUEST_EVERY;
use crate::engine::send::transmit::{Emitted, put_header};
use crate::peer::operation::{TxKind, TxOp};
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ConnSlot, OpSlot};
use crate::wire::{
    BEFORE_LEN, Envelope, Flags, HEADER_LEN, PacketKind, READ_LEN_MAX, RECORDS_MAX, TAG_RESERVE,
    WRITES_WITH_DATA_MAX, full_segment, segment_overhead,
};
use crate::{Memory, OpError, Order};

/// The contents of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    /// Bytes taken.
    taken: usize,
    /// Bytes of a part, or number of whole operations.
    len: u16,
    /// Whether it is a part of one operation.
    part: bool,
    /// Whether the packet must be processed after all packets before it.
    barrier: bool,
    /// Whether it changes the peer's memory.
    writes: bool,
    /// Writes that bring remote CQ data.
    events: usize,
}

/// Whether an operation is a message of one record without ordering constraints.
#[inline(always)]
fn is_plain_message(cx: &Ctx<'_>, op: &TxOp) -> bool {
    cx.config.order.is_empty() && matches!(op.kind, TxKind::Message(_))
}

impl Sender<'_> {
    /// Sends new records, from operation `first` on: a part of it, or as many whole ones as fit.
    pub(super) fn emit_new<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        target: &RmaTarget<'_>,
        (conn, first): (ConnSlot, OpSlot),
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Emitted> {
        let room = packet.len().checked_sub(TAG_RESERVE)?;
        let body = packet.get_mut(HEADER_LEN..room)?;
        let (op, generation) = self.ops.entry_ref(first);
        let (id, offset, is_request) = (first.id(generation), op.sent, op.is_request());
        // A plain message is packed without a check of its length: the attempt shows whether it
        // fits.
        let plain = offset == 0 && is_plain_message(cx, op);
        let whole = if plain { None } else { self.whole_len(first) };
        let mut packed = Packed::default();
        if plain || whole.is_some_and(|whole| whole <= body.len()) {
            packed = self.pack_whole_ops(cx, target, conn, (first, plain), body, memory);
        } else if whole.is_some() && matches!(self.ops[first].kind, TxKind::Atomic { .. }) {
            self.fail_oversized_atomic(cx, matcher, conn, first);
            return None;
        }
        if packed.len == 0 {
            packed = self.pack_next_segment(cx, target, conn, first, body, memory)?;
        }
        let state = &cx.table[conn];
        let (psn, rnr_epoch) = (state.tx().next_psn(), state.tx().rnr_epoch());
        let mut flags = TxFlags::empty();
        flags.set(TxFlags::PART, packed.part);
        flags.set(TxFlags::BARRIER, packed.barrier);
        flags.set(TxFlags::EVENT, packed.events > 0);
        let record = TxPacket {
            op: id,
            offset: TxPacket::quantized_offset(offset),
            sent_at: cx.timers.tick(),
            len: packed.len,
            flags,
            rnr_epoch,
        };
        self.record_sent(cx, conn, record, packed.writes)?;
        let state = &cx.table[conn];
        let unsent = state.has_unsent();
        let next = if unsent { self.next_sendable_of(cx, state) } else { OpSlot::NONE };
        let stuck = unsent && next.is_none();
        let asks = is_request && state.credit_may_lapse(cx.timers.tick());
        let last = psn.0 % ACK_REQUEST_EVERY == ACK_REQUEST_EVERY - 1 || stuck || asks;
        let mut flags = if last { Flags::ACK_REQUEST } else { Flags::empty() };
        flags.set(Flags::BARRIER, packed.barrier);
        let mut header = self.header(cx, matcher, state, PacketKind::Data, flags).with_psn(psn);
        header.rnr_epoch = record.rnr_epoch;
        put_header(&header, packet)?;
        cx.table[conn].rx_mut().acknowledged(false);
        Some(Emitted { len: HEADER_LEN + packed.taken, next: Some(next), alone: false })
    }

    /// Takes the next packet number.
    #[inline(always)]
    fn record_sent(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        record: TxPacket,
        writes: bool,
    ) -> Option<()> {
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        if state.tx().all_acknowledged() {
            state.rx_mut().count_silence_from(now);
        }
        if !state.tx_mut().packet_sent(&mut self.in_flight, record) {
            debug_assert!(false, "`may_send_new` asked for room");
            return None;
        }
        cx.stats.paced += u64::from(state.path().is_paced());
        state.path_mut().sent(now);
        if writes {
            state.tx_mut().writes_sent();
        }
        cx.stats.data_packets_sent += 1;
        Some(())
    }

    /// Fails an atomic that does not fit the packets of this connection.
    fn fail_oversized_atomic(
        &mut self,
        cx: &mut Ctx<'_>,
        matcher: &mut Matcher<'_>,
        conn: ConnSlot,
        slot: OpSlot,
    ) {
        let op = &mut self.ops[slot];
        op.outcome = Err(OpError::Unsupported);
        op.answered = true;
        self.advance_cursor(cx, conn, slot);
        self.try_finish(cx, matcher, conn, slot);
    }

    /// Packs whole operations from `first` on, as many as fit: messages only, or none. `plain`: it
    /// is a message without ordering constraints.
    fn pack_whole_ops<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        target: &RmaTarget<'_>,
        conn: ConnSlot,
        (first, mut plain): (OpSlot, bool),
        body: &mut [u8],
        memory: &mut M,
    ) -> Packed {
        let mut packed = Packed::default();
        let mut slot = first;
        // bound: RECORDS_MAX
        loop {
            let rest = body.get_mut(packed.taken..).unwrap_or_default();
            let serial = if plain {
                self.pack_messages(cx, conn, slot, rest, &mut packed, memory)
            } else {
                let Some(taken) = self.encode_whole(target, slot, rest, memory) else { break };
                packed.taken += taken;
                packed.len += 1;
                Some(self.commit_whole(cx, conn, slot, &mut packed))
            };
            let Some(serial) = serial else { break };
            let state = &cx.table[conn];
            if !state.has_unsent() {
                break;
            }
            let next = self.next_op(cx, state);
            if next.is_none() || !self.may_share_packet(slot, serial, next, &packed) {
                break;
            }
            slot = next;
            plain = is_plain_message(cx, &self.ops[slot]);
        }
        packed
    }

    /// Whether operation `next` may be in a packet behind `slot`, which has the position `serial`.
    #[inline]
    fn may_share_packet(&self, slot: OpSlot, serial: u32, next: OpSlot, packed: &Packed) -> bool {
        let op = &self.ops[next];
        self.is_posted(next) == self.is_posted(slot)
            && op.serial == serial.wrapping_add(1)
            && op.sent == 0
            && op.envelope().is_some() == self.ops[slot].envelope().is_some()
            && usize::from(packed.len) < RECORDS_MAX
            && (!op.brings_data() || packed.events < WRITES_WITH_DATA_MAX)
    }

    /// Packs plain messages that are neighbours in one loop, while they fit. [`Self::commit_whole`]
    /// has the same effect for one message. Returns the serial
    /// of the last message; `None` if the first one does not fit.
    // Not inlined: the loop needs all registers.
    #[inline(never)]
    fn pack_messages<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        first: OpSlot,
        into: &mut [u8],
        packed: &mut Packed,
        memory: &mut M,
    ) -> Option<u32> {
        let state = &mut cx.table[conn];
        let room = into.len();
        let (mut left, mut rest) = (room, into);
        let (mut slot, mut count, mut costs) = (first, 0, 0);
        let mut sent_msn = state.tx().sent_msn();
        let first_serial = self.ops[first].serial;
        let most = RECORDS_MAX as u32 - u32::from(packed.len);
        while slot.is_some() && count < most {
            let (op, generation) = self.ops.entry(slot);
            let TxKind::Message(envelope) = &op.kind else { break };
            let follows = op.serial == first_serial.wrapping_add(count) && op.sent == 0;
            if count > 0 && (!follows || op.has_ordering_deps) {
                break;
            }
            let Envelope { msn, total, .. } = *envelope;
            let into = core::mem::take(&mut rest);
            let Some(behind) = encode_message(slot.id(generation), envelope, into, memory) else {
                break;
            };
            (left, rest) = (behind.len(), behind);
            count += 1;
            costs += pending_bytes(total);
            sent_msn = msn.plus(1);
            op.sent = op.total;
            op.in_flight += 1;
            op.all_sent = true;
            slot = op.links.next();
        }
        // bound: as in `advance_cursor`
        while slot.is_some() && self.ops[slot].all_sent {
            slot = self.ops[slot].links.next();
        }
        if count == 0 {
            return None;
        }
        state.tx_mut().messages_sent(sent_msn);
        state.records_left(costs);
        state.sends_mut().move_cursor(slot);
        packed.taken += room - left;
        packed.len += count as u16;
        Some(first_serial.wrapping_add(count - 1))
    }

    /// Records that all of an operation is in the packet. Returns its serial.
    #[inline(always)]
    fn commit_whole(
        &mut self,
        cx: &mut Ctx<'_>,
        conn: ConnSlot,
        slot: OpSlot,
        packed: &mut Packed,
    ) -> u32 {
        self.start_transmission(cx, conn, slot);
        packed.barrier |= self.is_behind_writes(cx, conn, slot);
        let posted = self.is_posted(slot);
        let op = &mut self.ops[slot];
        op.sent = op.total;
        op.in_flight += 1;
        let serial = op.serial;
        if op.envelope().is_none() {
            packed.writes |= op.is_write();
            packed.events += usize::from(op.brings_data());
            if posted && op.is_request() {
                cx.table[conn].credits_mut().ask();
            }
        }
        self.advance_cursor(cx, conn, slot);
        serial
    }

    /// Packs the next part of an operation that does not fit one packet.
    fn pack_next_segment<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        target: &RmaTarget<'_>,
        conn: ConnSlot,
        slot: OpSlot,
        body: &mut [u8],
        memory: &mut M,
    ) -> Option<Packed> {
        self.start_transmission(cx, conn, slot);
        let op = &self.ops[slot];
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
        let (offset, after) = (op.sent, op.after);
        let taken = self.encode_segment(target, slot, offset, len, body, memory)?;
        let barrier = after.is_some_and(|after| cx.table[conn].tx().first_psn().is_before(after));
        let op = &mut self.ops[slot];
        op.sent += step;
        op.in_flight += 1;
        let (all, writes) = (op.sent == op.total, op.is_write());
        let events = usize::from(all && op.brings_data());
        if request {
            cx.table[conn].credits_mut().ask();
        }
        if all {
            self.advance_cursor(cx, conn, slot);
        }
        Some(Packed { taken, len, part: true, barrier, writes, events })
    }

    /// Starts an operation: records the writes that it must not overtake.
    #[inline(always)]
    fn start_transmission(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, slot: OpSlot) {
        let order = cx.config.order;
        let posted = self.is_posted(slot);
        let state = &mut cx.table[conn];
        let op = &mut self.ops[slot];
        if let Some(envelope) = op.envelope() {
            state.tx_mut().messages_sent(envelope.msn.plus(1));
        }
        if op.sent > 0 {
            return;
        }
        // Internal operations overtake nothing that matters.
        let ordered = posted
            && ((op.envelope().is_some() && order.contains(Order::SAW))
                || (op.is_request() && order.contains(Order::RAW))
                || (op.is_write() && order.contains(Order::WAW)));
        op.after = ordered.then_some(state.tx().writes_end());
    }

    /// Whether earlier writes that an operation must not overtake are not acknowledged yet.
    #[inline]
    fn is_behind_writes(&self, cx: &Ctx<'_>, conn: ConnSlot, slot: OpSlot) -> bool {
        let is_open = |after| cx.table[conn].tx().first_psn().is_before(after);
        self.ops[slot].after.is_some_and(is_open)
    }

    /// Moves the cursor past an operation that is in packets entirely, or as far as it ever will
    /// be. It need not be the one at its queue's cursor, which may have gone back
    /// (`docs/PROTOCOL.md` §6.4) while an error ended this one.
    #[inline]
    pub(super) fn advance_cursor(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, slot: OpSlot) {
        let posted = self.is_posted(slot);
        let state = &mut cx.table[conn];
        let op = &mut self.ops[slot];
        op.all_sent = true;
        let mut next = op.links.next();
        if posted {
            state.records_left(pending_cost(op));
        }
        let queue = state.queue(posted);
        if queue.cursor() != slot {
            return;
        }
        // bound: operations of one peer; those that are passed over were sent before a restart
        while next.is_some() && self.ops[next].all_sent {
            next = self.ops[next].links.next();
        }
        queue.move_cursor(next);
    }
}
