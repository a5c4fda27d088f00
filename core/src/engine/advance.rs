// SPDX-License-Identifier: MIT OR Apache-2.0
//! E. The timer of a connection fires: acknowledgment, handshake, loss detection, retransmission,
//! ping, peer timeout, release of an idle connection.
//!
//! In: a connection with an expired deadline. Out: the due work done, and the next timer armed.
//! Bound: [`TIMERS_PER_ADVANCE`] timers a call of [`Engine::advance`](crate::Engine::advance); the
//! rest are due at once in the next.

use crate::collections::time::Tick;
use crate::engine::connect::packet::STATELESS_QUEUE_MAX;
use crate::engine::connect::teardown::{end_connection, release_connection};
use crate::engine::ctx::Ctx;
use crate::engine::matching::Matcher;
use crate::engine::send::Sender;
use crate::peer::slots::ConnSlot;
use crate::peer::{Extra, Schedule, State};
use crate::{OpError, PathAdvice};

/// Timers that one call of [`Engine::advance`](crate::Engine::advance) fires at the most.
pub const TIMERS_PER_ADVANCE: u32 = 64;
// A timer repeats both packets of a handshake at the most.
static_assertions::const_assert!(2 * TIMERS_PER_ADVANCE as usize <= STATELESS_QUEUE_MAX);

/// Does the work that is due for a connection, and arms its next timer.
#[inline(never)]
pub(super) fn fire(
    cx: &mut Ctx<'_>,
    sender: &mut Sender<'_>,
    matcher: &mut Matcher<'_>,
    conn: ConnSlot,
) {
    let tick = cx.timers.tick();
    let silence = cx.timers.silence();
    // Probes would keep a connection that waits for its release alone.
    if !(cx.table[conn].is_idle() && cx.table[conn].knows_failed()) {
        sender.try_longer(cx, conn);
    }
    if makes_no_progress(cx, sender, matcher, conn) {
        let peer = cx.table[conn].peer();
        log::info!("peer {}: no progress", cx.table[peer].address());
        return end_connection(cx, sender, matcher, peer, OpError::TimedOut);
    }
    let state = &mut cx.table[conn];
    if state.has_work() {
        let deadline = state.deadline(silence, cx.config.congestion, tick);
        if !deadline.has_come(tick) {
            // The work of the expired deadline was done before; the next deadline is later.
            sender.schedule_if_sendable(cx, conn);
            return cx.timers.arm(conn, deadline.instant(cx.timers.now()));
        }
    }
    let peer = state.peer();
    let is_silent = state.rx().last_heard().plus(silence.timeout).has_come(tick);
    if state.expects_packets(silence) && is_silent {
        let reached = cx.table[peer].state() == State::Established;
        let error = if reached { OpError::TimedOut } else { OpError::Unreachable };
        log::info!("peer {}: {error}", cx.table[peer].address());
        return end_connection(cx, sender, matcher, peer, error);
    }
    let due = |at: Option<Tick>| at.is_some_and(|at| at.has_come(tick));
    if state.rx_mut().end_ack_delay(tick) {
        cx.table.make_ready(conn);
    }
    if due(cx.table[conn].hello().repeat_at()) {
        cx.repeat_handshake(conn);
    }
    if due(cx.table[conn].hold_until()) {
        cx.table[conn].release_messages();
    }
    if due(cx.table[conn].path().loss_at()) {
        cx.table[conn].path_mut().set_loss_timer(None);
        sender.detect_losses(cx, conn);
    }
    if due(cx.table[conn].retransmit_at()) {
        sender.time_out(cx, conn);
    }
    if due(cx.table[conn].path().round_ends()) {
        sender.end_round(cx, conn);
    }
    if due(cx.table[conn].ping_at(silence)) {
        if cx.table[conn].has_unanswered_ping(silence) {
            cx.advise(conn, PathAdvice::TimedOut);
        }
        let path = cx.table[conn].path_mut();
        path.set_extra(Extra::PING, true);
        path.restart_timer(tick);
        cx.table.make_ready(conn);
    }
    // After a pause, or when the pace allows another packet.
    sender.schedule_if_sendable(cx, conn);
    let state = &cx.table[conn];
    let busy = state.has_work() || state.path().is_searching() || state.expects_packets(silence);
    let idle = !busy && state.schedule() == Schedule::Idle;
    if idle && state.idle_at(silence).has_come(tick) {
        release_connection(cx, sender, conn);
        matcher.look_again(cx.timers.now());
        cx.stats.connections_idle += 1;
    } else {
        cx.arm(conn);
    }
}

/// Whether the peer owes something and has made no progress with it for the peer time-out, though
/// it may have answered pings. It owes packets and messages in order, the rest of a message, and
/// answers to requests. Bound: the operations and messages under way with the peer, once in a part
/// of the peer time-out.
fn makes_no_progress(
    cx: &mut Ctx<'_>,
    sender: &Sender<'_>,
    matcher: &mut Matcher<'_>,
    conn: ConnSlot,
) -> bool {
    let (now, timeout) = (cx.timers.tick(), cx.timers.silence().timeout);
    let Some(watch) = cx.timers.watch(conn) else { return false };
    if !watch.begin_check(now, timeout) {
        return false;
    }
    let is_excused = watch.take_excuse();
    let state = &cx.table[conn];
    watch.check(state.owed_in_order(), sender.owed_answers(state))
        | matcher.has_stuck_assembly(state, is_excused)
}
