// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss detection by acknowledgments (RFC 8985) and by time-outs (`docs/PROTOCOL.md` §4.5); the
//! restart after receiver-not-ready (§6.4).
//!
//! Bound: the window, or the operations posted to one peer.

use crate::PathAdvice;
use crate::collections::list::List;
use crate::collections::secret::Use;
use crate::collections::serial::Psn;
use crate::collections::slab::SlotIndex;
use crate::collections::time::{TICK_NANOS, Tick};
use crate::engine::ctx::Ctx;
use crate::engine::send::Sender;
use crate::engine::send::post::pending_cost;
use crate::peer::LossRule;
use crate::peer::in_flight::{PacketSet, stretch_end};
use crate::peer::packet_record::{TxFlags, TxPacket};
use crate::peer::slots::{ConnSlot, OpSlot};

/// First pause after receiver-not-ready; doubles each time in a row.
const RNR_PAUSE_NANOS: u64 = 50_000;
/// The pause doubles this many times at the most (12.8 ms).
const RNR_PAUSE_DOUBLINGS: u8 = 8;
/// The pause is at most so small a part of the peer time-out.
const RNR_PAUSE_PART: u64 = 8;
/// Attempts that may begin while a packet of an older one is not acknowledged: the eight bits that
/// name an attempt do not wrap. The peer repeats that it is not ready until a new one begins.
const ATTEMPTS_MAX: u8 = 128;
/// From this time-out in a row on the path may drop packets for their source port: 40 ms without an
/// answer. Several processes of a core keep each other waiting for some 10 ms.
const BLOCKED_FROM_TIMEOUT: u8 = 8;

/// The packets that a search for losses has found.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    /// When the latest lost packet was sent.
    latest: Option<Tick>,
    /// The oldest packet that is not lost.
    left: Oldest,
    /// A lost packet may be too long for the path.
    is_too_long: bool,
}

/// The least of some times that packets count from.
#[derive(Clone, Copy, Debug, Default)]
struct Oldest(Option<Tick>);

impl Oldest {
    #[inline(always)]
    fn add(&mut self, counts_from: Tick) {
        if self.0.is_none_or(|oldest| counts_from.is_before(oldest)) {
            self.0 = Some(counts_from);
        }
    }
}

impl Sender<'_> {
    /// Finds lost packets (RFC 8985 §6.2): sent before one that has arrived, and overdue by a round
    /// trip and a reordering window. If that time has not passed yet, the loss timer fires then.
    ///
    /// Packets are in the order in which they were sent first. Behind one that was sent once and is
    /// not lost, none is lost. Before that are packets that were sent again, in any order: a
    /// stretch of them is checked again when the oldest one that the last check found may be lost.
    /// Bound: the stretches of the window, one stretch, and one more for each 256 packets sent, or
    /// for a packet acknowledged, since it was checked.
    pub(crate) fn detect_losses(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        let now = cx.timers.tick();
        let state = &cx.table[conn];
        let rule = state.path().loss_rule(now);
        let (mut psn, end) = (state.tx().first_psn(), state.tx().overtaken_end());
        let mut losses = Losses::default();
        while psn.is_before(end) {
            let checked = cx.table[conn].tx().checked(&self.in_flight, psn);
            match checked.filter(|&oldest| !rule.is_lost(oldest)) {
                Some(oldest) => losses.left.add(oldest),
                None if self.check_stretch(cx, (conn, psn), rule, &mut losses) => {}
                None => break,
            }
            psn = stretch_end(psn);
        }
        let state = &mut cx.table[conn];
        let next_at = losses.left.0.and_then(|oldest| rule.lost_at(oldest));
        state.path_mut().set_loss_timer(next_at);
        if let Some(sent_at) = losses.latest {
            state.path_mut().lost(sent_at, now);
        }
        if state.tx().lost() > 0 {
            cx.table.make_ready(conn);
        }
        if losses.is_too_long {
            self.start_search(cx, conn);
        }
    }

    /// Finds lost packets from `psn` on, in its stretch. Returns whether packets behind it may be
    /// lost, too.
    fn check_stretch(
        &mut self,
        cx: &mut Ctx<'_>,
        (conn, psn): (ConnSlot, Psn),
        rule: LossRule,
        losses: &mut Losses,
    ) -> bool {
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        let (peer, overtaken_end) = (state.peer(), state.tx().overtaken_end());
        let is_whole = !overtaken_end.is_before(stretch_end(psn));
        let end = if is_whole { stretch_end(psn) } else { overtaken_end };
        let (mut at, mut left) = (psn, Oldest::default());
        // bound: a stretch
        while let Some(hole) = state.tx().find(&self.in_flight, PacketSet::Outstanding, at, end) {
            at = hole.plus(1);
            let Some(&record) = state.tx().record(&self.in_flight, hole) else { break };
            let is_repeated = record.flags.contains(TxFlags::RETRANSMITTED);
            if rule.is_lost(record.counts_from()) {
                let lost = |record: &mut TxPacket| record.flags |= TxFlags::LOST;
                state.tx().change_record(&mut self.in_flight, hole, lost);
                state.tx_mut().packet_lost(hole);
                // Any of them may be too long for the path, not only the last one.
                losses.is_too_long |= is_repeated && self.is_too_long(&record, peer);
                losses.latest =
                    Some(losses.latest.map_or(record.sent_at, |at| at.max(record.sent_at)));
                cx.stats.losses_by_ack += 1;
                continue;
            }
            losses.left.add(record.counts_from());
            if !is_repeated {
                return false;
            }
            left.add(record.counts_from());
        }
        if is_whole {
            state.tx().set_checked(&mut self.in_flight, psn, left.0.or(Some(now)));
        }
        true
    }

    /// Records that a packet has arrived that was sent at `sent_at`, after a time-out. If no new
    /// packet was sent since, it has overtaken all that its acknowledgment does not name. Otherwise
    /// the new packets show what was lost before them.
    #[cold]
    pub(crate) fn probe_arrived(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot, sent_at: Tick) {
        let state = &mut cx.table[conn];
        let last = state.tx().psns().next_back();
        let last = last.and_then(|psn| state.tx().record(&self.in_flight, psn));
        if last.is_some_and(|last| last.sent_at.is_before(sent_at)) {
            state.path_mut().acked(sent_at);
            state.tx_mut().all_may_be_overtaken();
        }
    }

    /// Processes a time-out: a probe is sent. The acknowledgment that it draws shows which packets
    /// were lost; a peer that was not scheduled has lost none. Where packets are lost, the first
    /// probe repeats one of them, which repairs a single loss at once.
    pub(crate) fn time_out(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        let loses = state.tx().loses();
        let before = state.path_mut().time_out(loses, now);
        if before == 0 {
            cx.stats.tail_probes += 1;
        } else {
            cx.stats.timeouts += 1;
            let oldest = state.tx().first_psn();
            self.suspect_path(cx, conn, oldest);
            if before >= BLOCKED_FROM_TIMEOUT {
                cx.advise(conn, PathAdvice::TimedOut);
            }
        }
        cx.table.make_ready(conn);
    }

    /// Restarts messages from `accepted_msn` on, which the peer discards, in a new attempt after a
    /// pause (`docs/PROTOCOL.md` §6.4). Packets of the old attempt that are under way do not count
    /// any more. Other operations stay as they are.
    pub(super) fn start_over(&mut self, cx: &mut Ctx<'_>, conn: ConnSlot) {
        let state = &cx.table[conn];
        let epoch = state.tx().rnr_epoch();
        let oldest = state.tx().record(&self.in_flight, state.tx().first_psn());
        let is_old = |record: &TxPacket| epoch.wrapping_sub(record.rnr_epoch) >= ATTEMPTS_MAX;
        if !state.tx().all_acknowledged() && oldest.is_some_and(is_old) {
            return;
        }
        cx.stats.restarts_after_rnr += 1;
        let jitter = cx.secret.draw(Use::Jitter);
        let now = cx.timers.tick();
        let state = &mut cx.table[conn];
        let before = state.tx_mut().on_rnr();
        // The peer counts a message that stands still for its peer time-out as lost.
        let most = u64::from(cx.timers.silence().timeout) * TICK_NANOS / RNR_PAUSE_PART;
        let pause = (RNR_PAUSE_NANOS << before.min(RNR_PAUSE_DOUBLINGS)).min(most.max(4));
        state.hold_messages(now.plus_nanos(pause + jitter % (pause / 4)));
        let (accepted, epoch) = (state.tx().accepted_msn(), state.tx().rnr_epoch());
        let mut cursor = OpSlot::NONE;
        let mut slot = state.sends().list().head();
        // bound: operations posted to one peer
        while slot.is_some() {
            let op = &mut self.ops[slot];
            if op.envelope().is_some_and(|envelope| !envelope.msn.is_before(accepted)) {
                if op.all_sent {
                    state.records_wait(pending_cost(op));
                }
                op.sent = 0;
                op.in_flight = 0;
                op.all_sent = false;
                op.rnr_epoch = epoch;
            }
            if !op.all_sent && cursor.is_none() {
                cursor = slot;
            }
            slot = List::next(&mut self.ops, slot);
        }
        state.sends_mut().move_cursor(cursor);
    }
}

#[cfg(test)]
mod tests;
