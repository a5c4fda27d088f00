// SPDX-License-Identifier: MIT OR Apache-2.0
//! The books, checked from inside: for simulators, fuzzers and tests, never on the data path.
//!
//! In: an engine between two calls. Out: the first rule that does not hold. The numbers are those
//! of the list in `docs/TESTING.md`. Bound: everything the engine holds.

use super::Engine;
use crate::Instant;
use crate::in_flight::TxFlags;
use crate::operation::{PULLS, RecvKind, TxKind};
use crate::peer::Schedule;
use crate::slab::{Linked, List, NIL, Slab};
use crate::window::WINDOW_PACKETS;
use core::hash::{Hash, Hasher};

/// A rule of the engine's own that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum Violation {
    /// More is under way than a window, or the oldest packet is after the next.
    #[error("(10) packets under way do not fit the window")]
    WindowBounds,
    /// The lowest missing packet is marked as received.
    #[error("(12) the lowest missing packet is marked as received")]
    WindowBit,
    /// Counts of acknowledged and lost packets do not agree with the notes.
    #[error("(10) counts of packets under way do not agree with their notes")]
    PacketCounts,
    /// The congestion window is out of bounds.
    #[error("(16) the congestion window is out of bounds")]
    CongestionWindow,
    /// Free and used slots of a pool do not add up.
    #[error("(20) slots of pool `{0}` do not add up")]
    Pool(&'static str),
    /// A peer with work has no timer, or one that fires too late.
    #[error("(22) a peer with work has no timer in time")]
    Timer,
    /// Active state that belongs to no peer, or to two.
    #[error("(24) active state and peer do not belong together")]
    Owner,
    /// A buffer for many messages and the messages in it contradict each other.
    #[error("(20) a buffer for many messages and the messages in it contradict each other")]
    Many,
    /// Slots kept for responses do not add up.
    #[error("(20) slots kept for responses do not add up")]
    Credits,
}

impl Engine<'_> {
    /// Checks that the engine's state is consistent.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn audit(&mut self) -> Result<(), Violation> {
        self.audit_pools()?;
        let mut kept = self.responders_spare;
        kept += self.actives.capacity() - self.actives.used();
        for active in 0..self.actives.capacity() {
            if self.actives.is_used(active) {
                self.audit_active(active)?;
                let state = &self.actives[active];
                kept += u32::from(state.credits.granted) + u32::from(state.errors.open);
            }
        }
        if kept != self.config.responders {
            return Err(Violation::Credits);
        }
        self.audit_lists()
    }

    fn audit_active(&mut self, active: u32) -> Result<(), Violation> {
        let state = &self.actives[active];
        let under_way = state.next_psn.since(state.first_psn);
        if under_way > WINDOW_PACKETS || state.credits.serving > state.credits.granted {
            return Err(Violation::WindowBounds);
        }
        if !state.window.is_sound() {
            return Err(Violation::WindowBit);
        }
        if !state.congestion.is_sound() {
            return Err(Violation::CongestionWindow);
        }
        let (mut pulling, mut number) = (0, state.responses.list.head());
        while number != NIL {
            let op = &self.ops[number];
            pulling += u16::from(matches!(op.kind, TxKind::Pull { .. }));
            number = op.links.next();
        }
        if pulling != state.credits.pulling {
            return Err(Violation::Credits);
        }
        let owner = self.peers.is_used(state.peer) && self.peers[state.peer].active == active;
        if !owner {
            return Err(Violation::Owner);
        }
        let (mut sacked, mut lost) = (0, 0);
        for psn in (0..under_way).map(|n| state.first_psn.plus(n)) {
            let Some(note) = self.in_flight.packet(&state.directory, psn) else {
                return Err(Violation::PacketCounts);
            };
            let both = TxFlags::ACKED | TxFlags::LOST;
            if note.flags.contains(both) {
                return Err(Violation::PacketCounts);
            }
            sacked += u16::from(note.flags.contains(TxFlags::ACKED));
            lost += u16::from(note.flags.contains(TxFlags::LOST));
        }
        if (sacked, lost) != (state.sacked, state.lost) {
            return Err(Violation::PacketCounts);
        }
        let now = self.now;
        let deadline = state.deadline(self.death, self.config.congestion, self.tick());
        let deadline =
            deadline.instant(now).max(now.after_nanos(super::schedule::TIMER_SLACK_NANOS));
        // The tick 0 is taken for 1: at the wrap a time may be one tick off.
        let deadline = deadline.after_nanos(crate::time::TICK_NANOS);
        let armed = self.wheel.deadline(active);
        // A peer in line to send gets its timer with the packet; one whose time has come fires with
        // the next call.
        let in_line = state.schedule != Schedule::Idle;
        let in_time = armed.is_some_and(|armed| armed <= deadline);
        if !in_line && !in_time {
            return Err(Violation::Timer);
        }
        Ok(())
    }

    fn audit_pools(&self) -> Result<(), Violation> {
        sound("peers", &self.peers)?;
        sound("actives", &self.actives)?;
        sound("assemblies", &self.assemblies)?;
        sound("regions", self.regions.slab())?;
        sound("ops", &self.ops)?;
        sound("recvs", &self.recvs)?;
        sound("unexpected", self.unexpected.slots())?;
        if self.in_flight.is_sound() { Ok(()) } else { Err(Violation::Pool("extents")) }
    }

    /// Every slot that is given out is in exactly one list: their lengths add up to what is used.
    fn audit_lists(&mut self) -> Result<(), Violation> {
        let mut ops = length(self.sends_done, &mut self.ops);
        ops += length(self.deferred_sends, &mut self.ops);
        let mut recvs = [self.recvs_done, self.posted.untagged, self.posted.tagged, self.pulling]
            .map(|list| length(list, &mut self.recvs))
            .iter()
            .sum::<u32>();
        recvs += length(self.deferred_recvs, &mut self.recvs);
        let mut stored = [self.stored.untagged, self.stored.tagged, self.claimed]
            .map(|list| length(list, &mut self.unexpected))
            .iter()
            .sum::<u32>();
        let mut assemblies = 0;
        for active in 0..self.actives.capacity() {
            if self.actives.is_used(active) {
                let state = self.actives[active].clone();
                ops += length(state.sends.list, &mut self.ops);
                ops += length(state.responses.list, &mut self.ops);
                recvs += length(state.held, &mut self.recvs);
                stored += length(state.early, &mut self.unexpected);
                assemblies += length(state.assemblies, &mut self.assemblies);
            }
        }
        if ops != self.ops.used_in_all() {
            return Err(Violation::Pool("ops"));
        }
        if assemblies != self.assemblies.used() {
            return Err(Violation::Pool("assemblies"));
        }
        // A receive that a message in several parts has matched is in no list, nor is a stored
        // message that is matched and still arriving.
        let loose = self.assemblies.used() + self.ops.used_in(PULLS) + self.audit_many()?;
        let recvs_used = self.recvs.used_in_all();
        if recvs > recvs_used || recvs_used > recvs + loose {
            return Err(Violation::Pool("recvs"));
        }
        let stored_used = self.unexpected.used();
        if stored > stored_used || stored_used > stored + self.assemblies.used() {
            return Err(Violation::Pool("unexpected"));
        }
        Ok(())
    }

    /// Buffers for many messages: each is as full as it says, in its queue while it takes more, and
    /// knows how many of its messages have not ended. Returns how many are in no list, because they
    /// wait for those.
    fn audit_many(&self) -> Result<u32, Violation> {
        let slots =
            || (0..self.config.recvs + self.config.parts).filter(|&n| self.recvs.is_used(n));
        let mut waiting = 0;
        for number in slots() {
            let op = &self.recvs[number];
            let RecvKind::Many(many) = op.kind else { continue };
            let open = slots()
                .filter(
                    |&n| matches!(self.recvs[n].kind, RecvKind::Part { of, .. } if of == number),
                )
                .count();
            let left = op.request.len.checked_sub(many.used).ok_or(Violation::Many)?;
            let full = left < many.least;
            let for_reason = full || op.outcome.is_err();
            let in_time = many.used == 0 || !full;
            if open != many.open as usize || !(if many.closed { for_reason } else { in_time }) {
                return Err(Violation::Many);
            }
            waiting += u32::from(many.closed && open > 0);
        }
        Ok(waiting)
    }

    /// A number that is the same before and after a packet that had no effect at `now`: it stands
    /// for everything the engine holds but counters and the time.
    pub fn digest(&mut self, now: Instant) -> u64 {
        self.time(now);
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        self.peers.hash(&mut hasher);
        self.actives.hash(&mut hasher);
        self.in_flight.hash(&mut hasher);
        self.ops.hash(&mut hasher);
        self.recvs.hash(&mut hasher);
        self.assemblies.hash(&mut hasher);
        self.unexpected.slots().hash(&mut hasher);
        self.regions.slab().hash(&mut hasher);
        self.tally.hash(&mut hasher);
        [self.responders_spare, u32::from(self.epochs), self.closing.unwrap_or(NIL)]
            .hash(&mut hasher);
        self.starved.hash(&mut hasher);
        for list in [self.sends_done, self.recvs_done, self.pulling, self.ready, self.gathering] {
            list.hash(&mut hasher);
        }
        self.claimed.hash(&mut hasher);
        [self.deferred_sends, self.deferred_recvs].hash(&mut hasher);
        hasher.finish()
    }
}

fn sound<T, const N: usize>(name: &'static str, slab: &Slab<'_, T, N>) -> Result<(), Violation> {
    if slab.is_sound() { Ok(()) } else { Err(Violation::Pool(name)) }
}

fn length(list: List, slots: &mut impl Linked) -> u32 {
    let (mut count, mut number) = (0, list.head());
    while number != NIL {
        count += 1;
        number = List::next(slots, number);
    }
    count
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
