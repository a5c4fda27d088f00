// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hierarchical timing wheel: O(1) to arm, to disarm and to expire.
//!
//! Four levels of buckets, each bucket a list through the owners' slots (Varghese and Lauck,
//! "Hashed and Hierarchical Timing Wheels", scheme 7). An owner has one deadline. An owner with
//! several keeps the earliest here, and checks the others when it fires. A timer never fires early;
//! it fires at the caller's next call. A deadline beyond [`HORIZON_NANOS`] moves to the horizon.
//!
//! An owner with a postponed deadline stays in its bucket. When the bucket expires, the owner
//! moves on from there. A time-out that is postponed again and again, as most are, therefore
//! touches its owner's slot and no neighbours.

#![allow(clippy::indexing_slicing, reason = "bucket numbers are masked, slots are the slab's")]

use super::slab::{NIL, SlotIndex};
use super::time::Instant;
use core::marker::PhantomData;

/// Levels of the wheel.
const LEVELS: usize = 4;
/// Buckets of one level, as a power of two.
const BUCKET_BITS: u32 = 8;
const BUCKETS: usize = 1 << BUCKET_BITS;
/// A tick of the lowest level is 2^12 ns = 4.096 µs.
const TICK_BITS: u32 = 12;
/// The farthest future of a deadline: half of the last level, 2.4 hours.
const HORIZON_NANOS: u64 = 1 << (TICK_BITS + LEVELS as u32 * BUCKET_BITS - 1);

/// The timer of one owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimerSlot {
    deadline: Instant,
    prev: u32,
    next: u32,
    /// Level and bucket, never later than the deadline; or [`DISARMED`].
    bucket: u16,
}

const DISARMED: u16 = u16::MAX;

impl Default for TimerSlot {
    fn default() -> Self {
        Self { deadline: Instant::ZERO, prev: NIL, next: NIL, bucket: DISARMED }
    }
}

/// The wheel of owners of one kind. The number of an owner is its index in `slots`.
#[derive(Debug)]
pub(crate) struct Wheel<'s, I> {
    slots: &'s mut [TimerSlot],
    heads: [[u32; BUCKETS]; LEVELS],
    /// One bit for each bucket that has members.
    occupied: [[u64; BUCKETS / 64]; LEVELS],
    /// The armed owners of each level.
    members: [u32; LEVELS],
    /// The tick up to which all deadlines have expired.
    tick: u64,
    /// No deadline is before this time: a comparison is enough for most calls, which find no timer
    /// due.
    soonest: Instant,
    armed: u32,
    owner: PhantomData<I>,
}

impl<'s, I: SlotIndex> Wheel<'s, I> {
    pub(crate) fn new(slots: &'s mut [TimerSlot]) -> Self {
        slots.fill(TimerSlot::default());
        Self {
            slots,
            heads: [[NIL; BUCKETS]; LEVELS],
            occupied: [[0; BUCKETS / 64]; LEVELS],
            members: [0; LEVELS],
            tick: 0,
            soonest: Instant::ZERO,
            armed: 0,
            owner: PhantomData,
        }
    }

    /// The deadline of `owner`, if it has one.
    #[inline]
    pub(crate) fn deadline(&self, owner: I) -> Option<Instant> {
        let slot = &self.slots[owner.number() as usize];
        (slot.bucket != DISARMED).then_some(slot.deadline)
    }

    /// Sets the deadline of `owner`, in place of an earlier one.
    #[inline(never)]
    pub(crate) fn arm(&mut self, owner: I, deadline: Instant, now: Instant) {
        let owner = owner.number();
        let deadline = deadline.min(now.after_nanos(HORIZON_NANOS));
        let bucket = self.slots[owner as usize].bucket;
        let (level, index) = split(bucket);
        let due = deadline.as_nanos() >> TICK_BITS;
        let stays = bucket != DISARMED && self.start_of(level, index) <= due;
        if !stays {
            self.unlink(owner);
            if self.armed == 0 {
                // The time of an empty wheel may be far behind.
                self.tick = self.tick.max(now.as_nanos() >> TICK_BITS);
                self.soonest = deadline;
            }
        }
        self.slots[owner as usize].deadline = deadline;
        self.soonest = self.soonest.min(deadline);
        if !stays {
            self.link(owner);
        }
    }

    /// Removes the deadline of `owner`, if it has one.
    pub(crate) fn disarm(&mut self, owner: I) {
        self.unlink(owner.number());
    }

    /// Takes `owner` out of its bucket, if it is in one.
    fn unlink(&mut self, owner: u32) {
        let TimerSlot { prev, next, bucket, .. } = self.slots[owner as usize];
        if bucket == DISARMED {
            return;
        }
        let (level, index) = split(bucket);
        if prev == NIL {
            self.heads[level][index] = next;
            if next == NIL {
                self.occupied[level][index / 64] &= !(1 << (index % 64));
            }
        } else {
            self.slots[prev as usize].next = next;
        }
        if next != NIL {
            self.slots[next as usize].prev = prev;
        }
        self.slots[owner as usize].bucket = DISARMED;
        self.members[level] -= 1;
        self.armed -= 1;
    }

    /// Whether [`Self::expire`] may have an owner to return at `now`.
    #[inline(always)]
    pub(crate) fn may_expire(&self, now: Instant) -> bool {
        now >= self.soonest && self.armed > 0
    }

    /// Moves time to `now` and returns one owner with a deadline that has passed, disarmed; `None`
    /// if no deadline has. Each call does the work of one owner or of one occupied bucket.
    #[inline]
    pub(crate) fn expire(&mut self, now: Instant) -> Option<I> {
        if self.may_expire(now) { self.expire_next(now).map(I::from_number) } else { None }
    }

    fn expire_next(&mut self, now: Instant) -> Option<u32> {
        let now_tick = now.as_nanos() >> TICK_BITS;
        // bound: each pass moves an owner into a lower bucket, or those of a bucket into later
        // ones, or returns an owner, or ends
        while let Some((level, index, start)) = self.first_bucket() {
            if start > now_tick {
                self.tick = self.tick.max(now_tick);
                self.soonest = self.first_in(level, index, start);
                return None;
            }
            self.tick = self.tick.max(start);
            let owner = self.heads[level][index];
            if level > 0 {
                self.unlink(owner);
                self.link(owner);
            } else if start < now_tick {
                let due = self.first_not_put_off(index, start);
                if due.is_some() {
                    return due;
                }
            } else {
                let due = self.first_due(index, now);
                if due.is_none() {
                    self.soonest = self.first_in(level, index, start);
                }
                return due;
            }
        }
        None
    }

    /// The owners of an expired bucket are due, except those with a postponed deadline: these move
    /// on.
    fn first_not_put_off(&mut self, index: usize, tick: u64) -> Option<u32> {
        // bound: members of one bucket; they move to later ones
        while self.heads[0][index] != NIL {
            let owner = self.heads[0][index];
            self.unlink(owner);
            if self.slots[owner as usize].deadline.as_nanos() >> TICK_BITS <= tick {
                return Some(owner);
            }
            self.link(owner);
        }
        None
    }

    /// In the bucket of the current tick, some deadlines may be in the future.
    fn first_due(&mut self, index: usize, now: Instant) -> Option<u32> {
        let mut owner = self.heads[0][index];
        // bound: members of one bucket
        while owner != NIL {
            let slot = &self.slots[owner as usize];
            if slot.deadline <= now {
                self.unlink(owner);
                return Some(owner);
            }
            owner = slot.next;
        }
        None
    }

    /// A time that is not after the earliest deadline. After a call of [`Self::expire`] that found
    /// no timer due, it is later than that call's time. `None`: no deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        (self.armed > 0).then_some(self.soonest)
    }

    /// For the first occupied bucket of the lowest level: its earliest deadline, or its end if all
    /// deadlines were postponed. For other levels: the start of the bucket.
    fn first_in(&self, level: usize, index: usize, start: u64) -> Instant {
        if level > 0 {
            return Instant::from_nanos(start << TICK_BITS);
        }
        let mut earliest = Instant::from_nanos((start + 1) << TICK_BITS);
        let mut owner = self.heads[level][index];
        // bound: members of one bucket
        while owner != NIL {
            let slot = &self.slots[owner as usize];
            earliest = earliest.min(slot.deadline);
            owner = slot.next;
        }
        earliest
    }

    /// The occupied bucket that starts first, and the tick at which it does.
    fn first_bucket(&self) -> Option<(usize, usize, u64)> {
        (0..LEVELS)
            .filter(|&level| self.members[level] > 0)
            .filter_map(|level| {
                let index = self.first_occupied(level)?;
                Some((level, index, self.start_of(level, index)))
            })
            // Of buckets that start together, the higher level is first: its entries belong to
            // lower levels.
            .min_by_key(|&(level, _, start)| (start, core::cmp::Reverse(level)))
    }

    /// The tick at which a bucket starts.
    fn start_of(&self, level: usize, index: usize) -> u64 {
        let shift = level as u32 * BUCKET_BITS;
        let here = self.tick >> shift;
        let ahead = (index as u64).wrapping_sub(here) & (BUCKETS as u64 - 1);
        // The bucket of the current tick has started already, on each level.
        if ahead == 0 { self.tick } else { (here + ahead) << shift }
    }

    /// The first occupied bucket of a level from the current tick on, around the wheel.
    fn first_occupied(&self, level: usize) -> Option<usize> {
        let words = &self.occupied[level];
        let from = (self.tick >> (level as u32 * BUCKET_BITS)) as usize % BUCKETS;
        // bound: the words of a level, the first one twice
        (0..=words.len()).find_map(|step| {
            let at = (from / 64 + step) % words.len();
            let mask = match step {
                0 => u64::MAX << (from % 64),
                _ if step == words.len() => !(u64::MAX << (from % 64)),
                _ => u64::MAX,
            };
            let bits = words[at] & mask;
            (bits != 0).then(|| at * 64 + bits.trailing_zeros() as usize)
        })
    }

    /// Puts `owner`, which is disarmed, into the bucket of its deadline.
    fn link(&mut self, owner: u32) {
        let due = self.slots[owner as usize].deadline.as_nanos() >> TICK_BITS;
        // The bucket is not before the tick that is being expired, which would not come round
        // again. It is not beyond the reach of the wheel. `arm` allows more than that reach if time
        // went on since the last expiry; the owner then moves on from there.
        let due = due.clamp(self.tick, self.tick + (HORIZON_NANOS >> TICK_BITS));
        let level = (0..LEVELS - 1)
            .find(|&level| {
                let shift = level as u32 * BUCKET_BITS;
                (due >> shift) - (self.tick >> shift) < BUCKETS as u64
            })
            .unwrap_or(LEVELS - 1);
        let shift = level as u32 * BUCKET_BITS;
        let index = (due >> shift) as usize % BUCKETS;
        let head = self.heads[level][index];
        let slot = &mut self.slots[owner as usize];
        slot.prev = NIL;
        slot.next = head;
        slot.bucket = (level << BUCKET_BITS | index) as u16;
        if head != NIL {
            self.slots[head as usize].prev = owner;
        }
        self.heads[level][index] = owner;
        self.occupied[level][index / 64] |= 1 << (index % 64);
        self.members[level] += 1;
        self.armed += 1;
    }
}

fn split(bucket: u16) -> (usize, usize) {
    (usize::from(bucket) >> BUCKET_BITS, usize::from(bucket) & (BUCKETS - 1))
}

#[cfg(test)]
mod tests;
