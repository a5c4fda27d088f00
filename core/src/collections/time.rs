// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time, given by the caller: the engine reads no clock.

use core::num::NonZeroU32;
use core::time::Duration;

/// Nanoseconds since an arbitrary start. Time must not run backwards between two calls on one
/// engine; if it does, the engine takes it as standing still.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The start of time.
    pub const ZERO: Self = Self(0);

    /// `nanoseconds` after the start.
    #[must_use]
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time since `earlier`; zero if this is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// `nanoseconds` later, at most the end of time.
    #[must_use]
    pub const fn after_nanos(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    /// `duration` later, at most the end of time.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// The wire's unit of time: 64 ns.
pub(crate) const TICK_NANOS: u64 = 64;

/// A time near the present in four bytes: ticks of 64 ns, which wrap after 275 s. The order of two
/// ticks is right while they are less than 137 s apart. [`PEER_TIMEOUT_MAX`] bounds times of the
/// future, [`Self::aged`] times of the past.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Tick(NonZeroU32);

/// The longest peer time-out: no time farther in the future or in the past makes a difference.
pub(crate) const PEER_TIMEOUT_MAX: Duration = Duration::from_secs(120);

/// The farthest past that a stored time may have. [`Tick::aged`] moves older times here; they stay
/// longer ago than the longest peer time-out.
const PAST_MAX_NANOS: u64 = PEER_TIMEOUT_MAX.as_nanos() as u64 + 2_000_000_000;
/// Interval at which stored times are aged, before one of them can wrap.
pub(crate) const AGING_NANOS: u64 = 10_000_000_000;

static_assertions::const_assert!(PAST_MAX_NANOS + AGING_NANOS < (1 << 31) * TICK_NANOS);

impl Default for Tick {
    fn default() -> Self {
        Self(NonZeroU32::MIN)
    }
}

impl Tick {
    /// The tick of `instant`. Tick 0 becomes 1, so that an `Option` takes no more room.
    pub(crate) const fn of(instant: Instant) -> Self {
        Self::from_bits((instant.as_nanos() / TICK_NANOS) as u32)
    }

    /// The value on the wire.
    pub(crate) const fn bits(self) -> u32 {
        self.0.get()
    }

    pub(crate) const fn from_bits(bits: u32) -> Self {
        match NonZeroU32::new(bits) {
            Some(bits) => Self(bits),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// `ticks` later.
    pub(crate) const fn plus(self, ticks: u32) -> Self {
        Self::from_bits(self.0.get().wrapping_add(ticks))
    }

    /// `nanoseconds` later, at most [`PEER_TIMEOUT_MAX`].
    pub(crate) fn plus_nanos(self, nanoseconds: u64) -> Self {
        let nanoseconds = nanoseconds.min(PEER_TIMEOUT_MAX.as_nanos() as u64);
        self.plus((nanoseconds / TICK_NANOS) as u32)
    }

    /// Ticks from `earlier` to this; 0 if it is not after it.
    pub(crate) const fn since(self, earlier: Self) -> u32 {
        let ticks = self.0.get().wrapping_sub(earlier.0.get());
        if ticks < 1 << 31 { ticks } else { 0 }
    }

    /// Whether `now` has reached this time.
    pub(crate) const fn has_come(self, now: Self) -> bool {
        now.0.get().wrapping_sub(self.0.get()) < 1 << 31
    }

    /// Whether this time is earlier than another one.
    pub(crate) const fn is_before(self, other: Self) -> bool {
        !other.has_come(self)
    }

    /// The later of two.
    pub(crate) const fn max(self, other: Self) -> Self {
        if self.has_come(other) { other } else { self }
    }

    /// This time, moved so that it compares rightly with `now`; it compared rightly with `before`.
    /// A time too far back moves to the farthest past.
    pub(crate) const fn aged(self, before: Instant, now: Instant) -> Self {
        let ticks = Self::of(before).0.get().wrapping_sub(self.0.get());
        // A negative age is a time that is yet to come.
        let age = ticks.cast_signed() as i64 * TICK_NANOS as i64;
        let passed = now.as_nanos().saturating_sub(before.as_nanos());
        if passed.saturating_add_signed(age) <= PAST_MAX_NANOS {
            return self;
        }
        Self::of(Instant(now.as_nanos().saturating_sub(PAST_MAX_NANOS)))
    }

    /// The instant of this tick, seen from `now`: rounded up so that [`Self::of`] gives this tick
    /// or a later one.
    pub(crate) const fn instant(self, now: Instant) -> Instant {
        let present = Self::of(now);
        if self.has_come(present) {
            return now;
        }
        let start = now.as_nanos() / TICK_NANOS * TICK_NANOS;
        Instant(start.saturating_add(self.since(present) as u64 * TICK_NANOS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ticks_order_as_instants_do(nanos in 0u64..1 << 50, ahead in 0u64..120_000_000_000) {
            let now = Instant::from_nanos(nanos);
            let later = Tick::of(now).plus_nanos(ahead);
            let at = later.instant(now);
            prop_assert!(later.has_come(Tick::of(at)), "a timer set for it does not fire early");
            prop_assert!(at.as_nanos() <= nanos + ahead + 2 * TICK_NANOS);
            prop_assert!(at >= now);
            prop_assert_eq!(later.max(Tick::of(now)), later);
            prop_assert!(u64::from(later.since(Tick::of(now))) * TICK_NANOS <= ahead + TICK_NANOS);
        }

        #[test]
        fn aged_ticks_order_as_instants_do(
            start in 1u64 << 40..1 << 50,
            past in 0u64..132_000_000_000,
            ahead in 0u64..120_000_000_000,
            passed in prop_oneof![0u64..AGING_NANOS, 0u64..1 << 45],
        ) {
            let (before, now) = (Instant(start), Instant(start + passed));
            let (old, next) = (Instant(start - past), Instant(start + ahead));
            let aged = |at| Tick::of(at).aged(before, now);
            for at in [old, next] {
                let age = (now.0 / TICK_NANOS).saturating_sub(at.0 / TICK_NANOS);
                let most = PAST_MAX_NANOS / TICK_NANOS;
                let seen = u64::from(Tick::of(now).since(aged(at)));
                prop_assert!(seen.abs_diff(age.min(most)) <= 1, "{seen} of {age}");
                let come = at.0 / TICK_NANOS <= now.0 / TICK_NANOS;
                prop_assert_eq!(aged(at).has_come(Tick::of(now)), come);
            }
        }
    }
}
