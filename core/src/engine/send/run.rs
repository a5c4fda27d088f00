// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs of parts: packets behind one another with parts of one long operation, all of one length.
//!
//! The general path composes the first packet of a run, and those that are out of the ordinary: the
//! last part of an operation, the packet that asks for an acknowledgment, the last one that the
//! window allows. It also decides how many may follow. Those have the same head but for packet
//! number and offset, and change no more than the counts below. Between two packets of a
//! [`Burst`](crate::engine::Burst) nothing else changes, so that nothing is asked again.
//!
//! In: a packet that was written, and its connection. Out: the next packets. Bound: a run ends with
//! the next but one chunk of packet records at the latest.

use crate::collections::serial::Psn;
use crate::collections::slab::SlotIndex;
use crate::engine::ctx::Ctx;
use crate::engine::rma::RmaTarget;
use crate::engine::send::Sender;
use crate::peer::operation::TxOp;
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ConnSlot, OpSlot};
use crate::wire::{Flags, PART_HEAD_LEN, PartHead, seal};
use crate::{Gather, Memory, Transmit};
use zerocopy::IntoBytes;

/// Every so many packets the sender requests an acknowledgment at once.
pub(super) const ACK_REQUEST_EVERY: u32 = 64;

/// The next packet of a run.
#[derive(Debug)]
pub(crate) struct OutgoingRun {
    conn: ConnSlot,
    op: OpSlot,
    head: PartHead,
    /// The bytes of the part.
    part: Gather,
    record: TxPacket,
    /// Whether it changes the peer's memory.
    writes: bool,
    transmit: Transmit,
    /// Packets that may still follow.
    left: u32,
}

impl Sender<'_> {
    /// The run behind `packet`, which is new and was sent last, with `op` as the operation that is
    /// sent next. `None` unless the packet carries a part of it.
    #[inline(never)]
    pub(super) fn begin_run(
        &self,
        cx: &Ctx<'_>,
        target: &RmaTarget<'_>,
        (conn, op): (ConnSlot, OpSlot),
        packet: &[u8],
        transmit: Transmit,
    ) -> Option<OutgoingRun> {
        let state = &cx.table[conn];
        // Otherwise another packet may go between the parts.
        let has_one_queue = (state.sends().cursor() == op || state.sends().cursor().is_none())
            && (state.responses().cursor() == op || state.responses().cursor().is_none());
        let is_in_order = state.tx().lost() == 0
            && !state.rx().ack_due_now()
            && !state.path().has_extra()
            && !state.path().has_tail_probe()
            && !state.path().is_paced();
        if !has_one_queue || !is_in_order {
            return None;
        }
        let next = state.tx().next_psn();
        let last = *state.tx().record(&self.in_flight, Psn(next.0.wrapping_sub(1)))?;
        if last.op != self.op_id(op) || !last.flags.contains(TxFlags::PART) {
            return None;
        }
        let len = u64::from(last.len);
        let TxOp { total, sent, .. } = self.ops[op];
        // The last part is another one. So is the packet that nothing can follow.
        let parts = (total - sent).saturating_sub(1).checked_div(len)?;
        let until_request = ACK_REQUEST_EVERY - 1 - next.0 % ACK_REQUEST_EVERY;
        let left = self.new_packets_max(cx, state).saturating_sub(1).min(until_request);
        let left = u32::try_from(parts).unwrap_or(u32::MAX).min(left);
        if left == 0 {
            return None;
        }
        let mut head = PartHead::of(packet)?;
        if head.header().flags().contains(Flags::ACK_REQUEST) {
            return None;
        }
        head.advance(len);
        let part = self.part_source(target, op, sent)?;
        let record = TxPacket { offset: TxPacket::quantized_offset(sent), ..last };
        let writes = self.ops[op].is_write();
        Some(OutgoingRun { conn, op, head, part, record, writes, transmit, left })
    }

    /// Writes the next packet of a run into `packet`; `None` if the run has ended.
    // Not inlined: other packets do not come here.
    #[inline(never)]
    pub(super) fn continue_run<M: Memory>(
        &mut self,
        cx: &mut Ctx<'_>,
        run: &mut OutgoingRun,
        packet: &mut [u8],
        memory: &mut M,
    ) -> Option<Transmit> {
        let OutgoingRun { conn, op, .. } = *run;
        if run.left == 0 || cx.table.first_ready() != Some(conn) {
            return None;
        }
        let written = packet.get_mut(..run.transmit.len)?;
        let (head, payload) = written.split_first_chunk_mut::<PART_HEAD_LEN>()?;
        head.copy_from_slice(run.head.as_bytes());
        memory.gather(run.part, payload);
        seal(written, cx.config.checksum);
        let len = u64::from(run.record.len);
        let tx = cx.table[conn].tx_mut();
        if !tx.packet_sent(&mut self.in_flight, run.record) {
            debug_assert!(false, "`new_packets_max` has seen room");
            return None;
        }
        if run.writes {
            tx.writes_sent();
        }
        cx.stats.data_packets_sent += 1;
        let state = &mut self.ops[op];
        state.sent += len;
        state.in_flight += 1;
        cx.table.rotate(conn, true, true);
        run.left -= 1;
        run.head.advance(len);
        run.part.offset += len;
        run.record.offset = TxPacket::quantized_offset(state.sent);
        Some(run.transmit)
    }
}
