// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of the engine's state from inside: for simulators, fuzzers and tests, never on the data
//! path.
//!
//! In: an engine between two calls. Out: the first rule that does not hold. The numbers are those
//! of the list in `docs/TESTING.md`. Bound: everything the engine holds.

use crate::Instant;
use crate::engine::Engine;
use crate::engine::ctx::TIMER_SLACK_NANOS;
use crate::engine::violation::Violation;
use crate::peer::Schedule;
use crate::peer::slots::ConnSlot;
use crate::peer::window::WINDOW_PACKETS;
use core::hash::{Hash as _, Hasher};

impl Engine<'_> {
    /// Checks that the engine's state is consistent.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn audit(&mut self) -> Result<(), Violation> {
        self.cx.table.audit_pools()?;
        if !self.cx.bits.is_sound() {
            return Err(Violation::Pool("bits"));
        }
        self.sender.audit_pools()?;
        self.matcher.audit_pools()?;
        self.target.audit_pools()?;
        let mut reserved = self.sender.spare_responders();
        for conn in self.cx.table.connection_slots() {
            if !self.cx.table.is_open(conn) {
                reserved += 1;
                continue;
            }
            self.audit_connection(conn)?;
            let state = &self.cx.table[conn];
            reserved += u32::from(state.credits().reserved()) + u32::from(state.errors().open());
        }
        if reserved != self.cx.config.responders {
            return Err(Violation::Credits);
        }
        let (assemblies, reads) = (self.matcher.assemblies(), self.sender.rendezvous_reads());
        if !self.cx.table.hosts_add_up(assemblies, reads) {
            return Err(Violation::Pool("hosts"));
        }
        self.audit_lists()
    }

    fn audit_connection(&mut self, conn: ConnSlot) -> Result<(), Violation> {
        let Self { cx, sender, .. } = self;
        let state = &cx.table[conn];
        let under_way = state.tx().under_way();
        if under_way > WINDOW_PACKETS || state.credits().serving() > state.credits().reserved() {
            return Err(Violation::WindowBounds);
        }
        if !state.rx().receive_window().is_sound(&cx.bits) {
            return Err(Violation::WindowBit);
        }
        if !state.path().congestion().is_sound() {
            return Err(Violation::CongestionWindow);
        }
        if cx.table.connection_of(state.peer()) != Some(conn) {
            return Err(Violation::Owner);
        }
        sender.audit_connection(state)?;
        let now = cx.timers.now();
        let (silence, tick) = (cx.timers.silence(), cx.timers.tick());
        let deadline = state.deadline(silence, cx.config.congestion, tick).instant(now);
        let deadline = deadline.max(now.after_nanos(TIMER_SLACK_NANOS));
        // The tick 0 is taken for 1: at the wrap a time may be one tick off.
        let deadline = deadline.after_nanos(crate::collections::time::TICK_NANOS);
        let armed = cx.timers.deadline(conn);
        // A ready connection gets its timer with the packet; an expired deadline fires with the
        // next call.
        let scheduled = state.schedule() != Schedule::Idle;
        let in_time = armed.is_some_and(|armed| armed <= deadline);
        if scheduled || in_time { Ok(()) } else { Err(Violation::Timer) }
    }

    /// Checks that every slot that is given out is in exactly one list: the lengths of the lists
    /// add up to the used slots.
    fn audit_lists(&mut self) -> Result<(), Violation> {
        let Self { cx, sender, matcher, .. } = self;
        let mut ops = 0;
        let mut slots = [0; 3];
        for conn in cx.table.iter() {
            let state = &cx.table[conn];
            ops += sender.queued(state);
            for (sum, queued) in slots.iter_mut().zip(matcher.queued(state)) {
                *sum += queued;
            }
        }
        ops += sender.queued_to_end(&cx.ending);
        for (sum, queued) in slots.iter_mut().zip(matcher.queued_to_end(&cx.ending)) {
            *sum += queued;
        }
        if !sender.lists_add_up(&cx.completions, ops) {
            return Err(Violation::Pool("ops"));
        }
        matcher.audit_lists(&cx.completions, slots, sender.rendezvous_reads())
    }

    /// A digest of all state but counters and the time. A packet without effect at `now` does not
    /// change it.
    pub fn digest(&mut self, now: Instant) -> u64 {
        self.advance_clock(now);
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        self.cx.table.digest(&mut hasher);
        self.cx.completions.digest(&mut hasher);
        self.cx.ending.hash(&mut hasher);
        self.sender.digest(&mut hasher);
        self.matcher.digest(&mut hasher);
        self.target.digest(&mut hasher);
        self.pieces.hash(&mut hasher);
        hasher.finish()
    }

    /// Gives each new connection this first packet number, for tests of the wrap.
    #[cfg(feature = "test-util")]
    pub fn number_packets_from(&mut self, psn: crate::Psn) {
        self.cx.first_psn = Some(psn);
    }

    /// Messages that are stored for want of a receive, or of an earlier message.
    #[must_use]
    pub fn stored_messages(&self) -> u32 {
        self.matcher.stored_messages()
    }

    /// Receives that wait for a message, or for the rest of one.
    #[must_use]
    pub fn posted_receives(&self) -> u32 {
        self.matcher.posted_receives()
    }

    /// Operations of the application that have not ended or were not polled.
    #[must_use]
    pub fn posted_operations(&self) -> u32 {
        self.sender.posted_operations()
    }
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): short, and good enough to see whether something changed.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
